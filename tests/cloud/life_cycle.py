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

"""Runs the life of a one-time-use card on the demonstration's cloud.

    python -m tests.cloud.life_cycle [--state-dir DIR]

All commands in the console blocks of ``doc/source/admin/life-of-a-card.rst``
are run, word for word and in their order, on a host with the inventory file of
that page. Each line of output that the page shows has to be there. The options
of ``nova-powervm-clean`` and the report of its partition are those of the
example in ``doc/source/admin/cleaning.rst``. The exit status is 1
if anything differs.
"""

import configparser
import contextlib
import re
import secrets
import shlex
import sys
import threading

from powervm_emulator import client
from tests.cloud import demonstration
from tests.cloud import page_commands
from tests.unit.docs import pages

_CLEANING_PAGE = 'admin/cleaning'
_CLEAN = 'nova-powervm-clean'
_FUNCTIONS = """
nova-powervm-inventory() {{
    command nova-powervm-inventory --config-file $state/etc/nova.conf "$@"
}}
nova-powervm-clean() {{
    command nova-powervm-clean --config-file $state/etc/nova.conf \\
        --config-file {clean} "$@"
}}
U={url}/control/v1
"""
#: Where the pages have the program, and where it is in this project.
_PROGRAM = '/opt/nova/bin/python3 /etc/nova/clean-slot'
_KEY = '/etc/nova/clean-key'
_SAMPLE = pages.ROOT / 'etc' / 'nova' / 'clean-slot.sample'
#: A command that fails, by its output.
_FAILURE = 'Error creating server'
_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_POLL = 1.0


class Life:
    """Follows the page, and collects what differs.

    :param shell: runs the commands.
    :param control: the control plane of the emulated host.
    """

    def __init__(self, shell, control):
        self._shell = shell
        self._control = control
        self.wrong = []

    def follow(self, command, shown):
        """Run a command, and compare its output with what the page shows."""
        if command.startswith(_CLEAN):
            with self._other_terminal():
                result = self._shell.show(command)
        else:
            result = self._shell.show(command)
        if bool(result.status) != (_FAILURE in shown):
            self.wrong.append(f'exit status {result.status}: {command}')
        self.wrong += [
            f'no line {line!r}: {command}'
            for line in missing_lines(shown, result.output)
        ]

    @contextlib.contextmanager
    def _other_terminal(self):
        """Report for the cleaning partition once it runs, as the page says."""
        ended = threading.Event()
        person = threading.Thread(target=self._report, args=[ended])
        person.start()
        try:
            yield
        finally:
            ended.set()
            person.join()

    def _report(self, ended):
        name = read_options()['partition']
        _, script = read_blocks(_CLEANING_PAGE, 'sh')
        while not ended.wait(_POLL):
            if self._state_of(name) == 'running':
                self._shell.show(script.replace(_KEY, '$state/etc/clean-key'))
                return

    def _state_of(self, name):
        (system,) = self._control.state()['systems']
        (found,) = [p for p in system['partitions'] if p['name'] == name]
        return found['state']


def read_blocks(page, language):
    """Return the code blocks of a page."""
    return [text for name, text in pages.blocks(language) if name == page]


def read_options():
    """Return the options of the cleaning example."""
    parser = configparser.ConfigParser()
    parser.read_string(read_blocks(_CLEANING_PAGE, 'ini')[-1])
    return parser['powervm_clean']


def write_options(state):
    """Write a key, and the options of the example; return their file."""
    options = read_options()
    key = state / 'etc' / 'clean-key'
    key.touch(0o600)
    key.write_text(secrets.token_hex(32))
    words = options['program'].replace(_KEY, shlex.quote(str(key)))
    options['program'] = ' '.join(
        (
            words.replace(
                _PROGRAM, shlex.join([sys.executable, str(_SAMPLE)])
            ),
            shlex.quote(str(state / 'etc' / 'nova.conf')),
        )
    )
    directory = state / 'state' / 'clean'
    directory.mkdir()
    options['state_directory'] = str(directory)
    path = state / 'etc' / 'clean.conf'
    with open(path, 'w') as file:
        options.parser.write(file)
    return path


def read_url(state):
    """Return the URL of the emulated host."""
    parser = configparser.RawConfigParser()
    parser.read(state / 'etc' / 'nova.conf')
    return parser['powervm']['rest_url']


def missing_lines(shown, output):
    """Return shown lines that are not in an output, in their order.

    UUIDs are those of another run.
    """
    there = iter(_UUID.sub('<uuid>', output).splitlines())
    return [
        line
        for line in _UUID.sub('<uuid>', shown).splitlines()
        if line not in there
    ]


def main():
    """Follow the page, and print what each command did."""
    state = page_commands.parse_state_dir(__doc__)
    (inventory,) = read_blocks(pages.LIVED, 'yaml')
    file = state.with_name('inventory.yaml')
    file.write_text(inventory)
    with demonstration.running(state, '--inventory', str(file)):
        url = read_url(state)
        functions = _FUNCTIONS.format(clean=write_options(state), url=url)
        life = Life(page_commands.Shell(state, functions), client.Client(url))
        for command, shown in pages.commands(pages.LIVED):
            life.follow(command, shown)
    for line in life.wrong:
        print(line)
    print(f'{len(life.wrong)} difference(s) from the page')
    sys.exit(1 if life.wrong else 0)


if __name__ == '__main__':
    main()
