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

"""Runs the page's commands that remove old properties from images.

    python -m tests.cloud.old_images [--state-dir DIR]

Real Glance gets images of two projects with the properties that snapshots had
until the first release, and with some of their users. The commands of
``doc/source/admin/upgrade.rst`` are run word for word. The exit status is 1
if they leave one of the driver's or remove another.
"""

import contextlib
import json
import os
import sys

from demo import client_files
from demo import launcher
from demo import stack as stack_lib
from demo import supervisor as supervisor_lib
from tests.cloud import page_commands
from tests.unit.docs import pages

_PAGE = 'admin/upgrade'
_OLD = {
    'powervm_console@host1.example.org': 'TWt0Xy1zZWNyZXQtcGF0aC0wMDE',
    'powervm_image_ref': '54a0b8c7-6f7c-4b5a-9a3f-7d2f4f0d1c11',
    'powervm_pool': '000000000924050800004C000000014',
    'powervm_vlan:764f3423-04c5-3b96-95a3-4764065400bd:100@host1': 'host1',
}
_USERS = {'my_powervm_pool': 'mine', 'os_version': '9'}
# Each process of the openstack command spends seconds on its imports.
_PREPARE = """
set -e
cd {state}
truncate --size 1K empty.raw
openstack << END || true
project create science
image create shared {properties} --disk-format raw --file empty.raw --public
image create all {properties} --disk-format raw --file empty.raw --community
image create private {properties} --disk-format raw --file empty.raw \
    --private --project science
image create hidden {properties} --disk-format raw --file empty.raw
image set --hidden hidden
END
"""
_IMAGES = ('shared', 'all', 'private', 'hidden')


@contextlib.contextmanager
def running(state):
    """Run the services of the demonstration in a context."""
    os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
    made = stack_lib.make_state_dir(state)
    with supervisor_lib.Supervisor(made / 'log') as supervisor:
        stack = launcher.launch(made, supervisor, launcher.Choices(), print)
        client_files.write(stack)
        yield


def left(shell):
    """Return which of the properties each image has."""
    found = {}
    for name in _IMAGES:
        shown = shell.run(
            f'openstack image show -f json -c properties {name} 2>/dev/null'
        )
        properties = json.loads(shown.output)['properties']
        found[name] = {
            key for key in properties if key in _OLD or key in _USERS
        }
    return found


def main():
    """Run the commands of the page, and print what each did."""
    state = page_commands.parse_state_dir(__doc__)
    shell = page_commands.Shell(state, '')
    properties = ' '.join(
        f"--property '{key}={value}'"
        for key, value in {**_OLD, **_USERS}.items()
    )
    with running(state):
        shell.show(_PREPARE.format(state=state, properties=properties))
        before = left(shell)
        for command, _ in pages.commands(_PAGE):
            if 'old-properties' in command:
                shell.show(f'cd {state}\n{command}')
        shell.show(f'cat {state}/old-properties')
        after = left(shell)
    print(f'before: {before}\nafter: {after}')
    sys.exit(
        before != {name: {*_OLD, *_USERS} for name in _IMAGES}
        or after != {name: {*_USERS} for name in _IMAGES}
    )


if __name__ == '__main__':
    main()
