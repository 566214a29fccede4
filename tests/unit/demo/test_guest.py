# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import hashlib
import unittest

from demo import guest


class DiskHashTest(unittest.TestCase):
    def test_hash_covers_zeros_up_to_the_end_of_the_disk(self):
        for size in (3, 4, 2**20 + 3, 2**21 + 4):
            whole = b'abc'.ljust(size, b'\0')
            self.assertEqual(
                hashlib.sha256(whole).hexdigest(),
                guest.hash_of_disk('sha256', b'abc', size),
            )
