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

"""Tests that start nova's services."""

import logging
import os

# Said after each test's own log is closed, and so into the runner's output.
logging.getLogger('nova.thread_pool_factory').setLevel(logging.WARNING)

if 'OS_DEBUG' not in os.environ:
    # Nova's tests would format all that these say for debugging, unseen.
    logging.getLogger('nova').setLevel(logging.INFO)
    logging.getLogger('oslo_concurrency').setLevel(logging.INFO)
    logging.getLogger('placement').setLevel(logging.WARNING)
