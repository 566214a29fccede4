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

"""The exit codes of the commands are those of the table."""

import importlib.metadata
import inspect
import re
import sys
import unittest

from oslo_upgradecheck import upgradecheck

from nova_powervm.tool import exit_codes
from nova_powervm.tool import status
from nova_powervm.tool.clean import app as clean_app
from nova_powervm.tool.inventory import app as inventory_app
from tests.unit.docs import pages

_COMMANDS = {
    entry.name.replace('_', ' '): entry.load()
    for entry in importlib.metadata.entry_points(group=inventory_app.NAMESPACE)
}


def rows():
    """Yield each command of nova-powervm-inventory with its codes."""
    for names, codes in exit_codes.TABLE[inventory_app.NAME].items():
        for name in names.split(', '):
            if name != 'all':
                yield name, codes


def used_by(module):
    """Return the codes that a module names, or that its base class sets."""
    source = inspect.getsource(module)
    named = set(re.findall(r'exit_codes\.([A-Z_]+)', source))
    if 'self.is_agreed(' in source:
        named.add('REFUSED')
    return {getattr(exit_codes, name) for name in named}


class ExitCodesTest(unittest.TestCase):
    def test_table_has_every_command(self):
        self.assertEqual(sorted(_COMMANDS), sorted(name for name, _ in rows()))

    def test_commands_use_the_codes_of_their_rows(self):
        for name, codes in rows():
            command = _COMMANDS[name]
            used = used_by(sys.modules[command.__module__])
            with self.subTest(name):
                self.assertEqual(
                    set(codes),
                    used | {exit_codes.SUCCESS, command.trouble},
                )

    def test_services_use_the_codes_of_their_rows(self):
        checks = {int(code) for code in upgradecheck.Code}
        for module, codes in ((clean_app, set()), (status, checks)):
            with self.subTest(module.NAME):
                self.assertEqual(
                    set(exit_codes.TABLE[module.NAME]['']),
                    used_by(module) | codes,
                )

    def test_help_tells_the_codes_of_its_row(self):
        told = 0
        for name, codes in rows():
            text = ' '.join((_COMMANDS[name].__doc__ or '').split())
            for sentence in re.split(r'(?<=\.) ', text):
                if 'exit code' in sentence or 'exits with' in sentence:
                    numbers = set(map(int, re.findall(r'\b\d\b', sentence)))
                    told += len(numbers)
                    with self.subTest(name):
                        self.assertLessEqual(numbers, set(codes))
        self.assertGreater(told, 10)

    def test_manual_pages_have_the_table(self):
        for program in exit_codes.TABLE:
            page = pages.documents()[f'cli/{program}']
            self.assertIn(f'\n.. exit-codes:: {program}\n', page)
