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

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from tests.cloud import demonstration
from tests.unit.docs import pages

_PAGE = 'admin/cyborg'
_PRELUDE = """
set -u
state={state}
. $state/openrc
export PATH={bin}:$PATH
nova-powervm-inventory() {{
    local given=("$@") file=/etc/cyborg/inventory.yaml
    command nova-powervm-inventory --config-file $state/etc/nova.conf \\
        "${{given[@]/$file/$state/etc/accelerators.yaml}}"
}}
pip() {{ {pip}/bin/python -m pip "$@"; }}
cd {root}
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


@dataclasses.dataclass(frozen=True)
class Result:
    """A command of the page and what it did."""

    command: str
    status: int
    output: str
    seconds: float


def read_commands(page):
    """Return the commands of a page's console blocks, in their order."""
    found = []
    for name, text in pages.blocks('console'):
        if name != page:
            continue
        joined = text.replace('\\\n', '\\\n')
        for line in joined.splitlines():
            if line.startswith(('$ ', '# ')):
                found.append(line[2:])
            elif found and found[-1].endswith('\\'):
                found[-1] += '\n' + line
    return found


def run(command, prelude):
    """Run a command in a shell of its own."""
    began = time.monotonic()
    done = subprocess.run(
        ['/bin/bash', '-c', prelude + command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
    )
    return Result(
        command, done.returncode, done.stdout, time.monotonic() - began
    )


def show(result):
    """Print and return a result."""
    print(
        f'[{result.status}] {result.seconds:.1f} s: {result.command}\n'
        f'{result.output}',
        flush=True,
    )
    return result


def hand_over(manager, prelude):
    """Hand a slot over by the printed commands; return those that failed."""
    failed = []
    command = (
        f'{_HANDOVER} {_SLOT} --to {manager} '
        f'--accelerators {_FILE} -f json 2>/dev/null'
    )
    deadline = time.monotonic() + _STEP_SECONDS
    while time.monotonic() < deadline:
        answer = run(command, prelude)
        if answer.status == 0:
            print(f'{_SLOT} belongs to {manager}', flush=True)
            return failed
        steps = json.loads(answer.output)
        step = next(step for step in steps if step['State'] != 'done')
        for printed in step['Commands'] or ():
            if show(run(printed, prelude)).status:
                failed.append(printed)
        if not step['Commands'] or step['Why'].startswith('wait'):
            # A service has to notice something.
            time.sleep(10)
    show(answer)
    return [*failed, command]


def main():
    """Run the guide, and print what each command did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--state-dir', type=pathlib.Path)
    arguments = parser.parse_args()
    state = arguments.state_dir or pathlib.Path(tempfile.mkdtemp()) / 'cloud'
    environment = state.with_name('pip')
    subprocess.run(
        [sys.executable, '-m', 'venv', str(environment)], check=True
    )
    prelude = _PRELUDE.format(
        state=shlex.quote(str(state)),
        bin=shlex.quote(str(pathlib.Path(sys.prefix) / 'bin')),
        pip=shlex.quote(str(environment)),
        root=shlex.quote(str(pages.ROOT)),
    )
    failed = []
    with demonstration.running(state, '--cyborg'):
        prepared = run('set -e' + _PREPARE.format(state=state), prelude)
        if prepared.status:
            sys.exit(prepared.output)
        for command in read_commands(_PAGE):
            # It says that steps are left.
            expected = 1 if command.startswith(_HANDOVER) else 0
            if show(run(command, prelude)).status != expected:
                failed.append(command)
        failed += hand_over('cyborg', prelude)
        run(_EDIT.format(slot=_SLOT, state=shlex.quote(str(state))), prelude)
        failed += hand_over('nova', prelude)
    print(f'{len(failed)} command(s) failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
