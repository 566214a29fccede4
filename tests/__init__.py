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

"""Tests of nova-powervm."""

import functools
import gc
import os
import pathlib

# One process runs tests with and without nova, and nova wants to choose its
# concurrency mode before any library brings in eventlet.
os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')

import hypothesis
from hypothesis import core
from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers
from nova import monkey_patch
from oslo_policy import policy

monkey_patch.patch(backend='threading')

# Nova's fixtures write the same rules for each test, which takes YAML's parser
# as long as all else that they do.
policy.parse_file_contents = functools.cache(policy.parse_file_contents)

# OpenStack's modules and the tests' worlds stay until a process ends. Looking
# through them for garbage would take a tenth of its time.
gc.set_threshold(50_000, 20, 100)

#: Chooses the examples of properties; those of a test run are always the same.
_SEED = os.environ.get('NOVA_POWERVM_TEST_SEED')
hypothesis.settings.register_profile(
    'tests',
    database=None,
    # Deadlines for examples are useless on a shared machine.
    deadline=None,
    derandomize=not _SEED,
    max_examples=1000 if _SEED else 100,
)
hypothesis.settings.load_profile('tests')
if not _SEED:
    # Constants of the project's modules would make examples depend on what
    # else a process has loaded, and a new clone look for them for 20 seconds.
    providers._get_local_constants = constants_ast.Constants
core.global_force_seed = _SEED and int(_SEED)


def load_tests(loader, standard_tests, pattern):
    """Find the tests below this folder, and those of the emulator."""
    root = pathlib.Path(__file__).parents[1]
    for folder in (root / 'tests', root / 'emulator' / 'tests'):
        standard_tests.addTests(loader.discover(folder, pattern, root))
    return standard_tests
