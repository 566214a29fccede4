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

"""How Sphinx builds the documentation of the emulator.

The documentation of nova-powervm has its pages, too.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_ext'))

extensions = ['emulator_pages']
project = 'powervm-emulator'
copyright = '2026, nova-powervm developers'
pygments_style = 'native'
man_pages = [
    (
        'command',
        'powervm-emulator',
        'emulate the REST API of a PowerVM host',
        [project],
        1,
    ),
]
