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

"""Runs the commands of the guide to Cyborg on the demonstration's cloud.

    python -m tests.cloud.guide [--state-dir DIR]

All commands in the console blocks of ``doc/source/admin/cyborg.rst`` are run,
word for word and in their order. Only their surroundings are made: an image
and a network with the names that the page uses, an environment for pip, and
the files below ``/etc``, for which functions of the shell replace the paths.
Then a GPU is handed over to Cyborg and back by the commands that
``nova-powervm-inventory handover`` prints, until it prints none.
The exit status is 1 if a command fails.
"""

import json
import shlex
import subprocess
import sys
import time

from tests.cloud import demonstration
from tests.cloud import page_commands
from tests.unit.docs import pages

_PAGE = 'admin/cyborg'
_FUNCTIONS = """
nova-powervm-inventory() {{
    local given=("$@") file=/etc/cyborg/inventory.yaml
    command nova-powervm-inventory --config-file $state/etc/nova.conf \\
        "${{given[@]/$file/$state/etc/accelerators.yaml}}"
}}
pip() {{ {pip}/bin/python -m pip "$@"; }}
"""
_PREPARE = """
openstack image save --file {state}/tiny.raw tiny
openstack image create --disk-format raw --container-format bare \\
    --file {state}/tiny.raw rhel9
openstack network create private
openstack subnet create --network private --subnet-range 198.51.100.0/24 \\
    --no-dhcp private
# The steps of a hand-over leave the choice of a flavor to the operator.
openstack flavor create --vcpus 1 --ram 512 --disk 1 NAME
"""
#: What an operator removes with an editor, before a device can come back.
_EDIT = "sed -i '/^not-{slot}:/,$d' {state}/etc/inventory.yaml"


_HANDOVER = 'nova-powervm-inventory handover'
_SLOT = '21010021'
_FILE = '/etc/cyborg/inventory.yaml'
_STEP_SECONDS = 400


def hand_over(manager, shell):
    """Hand a slot over by the printed commands; return those that failed."""
    failed = []
    command = (
        f'{_HANDOVER} {_SLOT} --to {manager} '
        f'--accelerators {_FILE} -f json 2>/dev/null'
    )
    deadline = time.monotonic() + _STEP_SECONDS
    while time.monotonic() < deadline:
        answer = shell.run(command)
        if answer.status == 0:
            print(f'{_SLOT} belongs to {manager}', flush=True)
            return failed
        steps = json.loads(answer.output)
        step = next(step for step in steps if step['State'] != 'done')
        for printed in step['Commands'] or ():
            if shell.show(printed).status:
                failed.append(printed)
        if not step['Commands'] or step['Why'].startswith('wait'):
            # A service has to notice something.
            time.sleep(10)
    shell.show(command)
    return [*failed, command]


def main():
    """Run the guide, and print what each command did."""
    state = page_commands.parse_state_dir(__doc__)
    environment = state.with_name('pip')
    subprocess.run(
        [sys.executable, '-m', 'venv', str(environment)], check=True
    )
    functions = _FUNCTIONS.format(pip=shlex.quote(str(environment)))
    shell = page_commands.Shell(state, functions)
    failed = []
    with demonstration.running(state, '--cyborg'):
        prepared = shell.run('set -e' + _PREPARE.format(state=state))
        if prepared.status:
            sys.exit(prepared.output)
        for command, _ in pages.commands(_PAGE):
            # It says that steps are left.
            expected = 1 if command.startswith(_HANDOVER) else 0
            if shell.show(command).status != expected:
                failed.append(command)
        failed += hand_over('cyborg', shell)
        shell.run(_EDIT.format(slot=_SLOT, state=shlex.quote(str(state))))
        failed += hand_over('nova', shell)
    print(f'{len(failed)} command(s) failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
