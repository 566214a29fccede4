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

"""Runs the tool in this process, with files and hosts of the test's own."""

import dataclasses
import io
import json
import pathlib
import tempfile
import textwrap
import unittest

from emulator.tests import base as emulator_base
from nova_powervm.tool.inventory import app
from powervm_emulator.core import captures

#: Captured systems that pypowervm ships, and the name of one where there are
#: several.
CAPTURES = (
    ('sys_with_sriov.txt', None),
    ('fake_managedsystem.txt', None),
    ('managedsystem.txt', 'HV4'),
    ('managedsystem.txt', 'Server-8246-L1C-SN0604C6A'),
    ('managedsystem.txt', 'Server-8246-L1C-SN0604CAA'),
)

GPUS = """\
gpus:
  identification: {vendor_id: "10DE", device_id: "1DB6"}
  resource_class: CUSTOM_GPU
  traits: [CUSTOM_TESLA_V100]
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """What one command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        """The output, read as JSON."""
        return json.loads(self.out)


def run(*arguments, stdin=''):
    """Run the tool with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    try:
        tool = app.InventoryApp(io.StringIO(stdin), out, err)
        status = tool.run([str(argument) for argument in arguments])
    except SystemExit as end:
        status = end.code or 0
    return Result(status, out.getvalue(), err.getvalue())


def capture(name):
    """Give the path of a capture of pypowervm's."""
    return str(captures.folder() / name)


class ToolTestCase(unittest.TestCase):
    """A test with a directory of its own, and no nova.conf of the machine."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.inventory = self.write('inventory.yaml', GPUS)
        self.conf = self.write(
            'nova.conf',
            f"""\
            [DEFAULT]
            host = host1
            [powervm]
            inventory_file = {self.inventory}
            """,
        )

    def write(self, name, text):
        """Write a file and give its path."""
        path = self.directory / name
        path.write_text(textwrap.dedent(text))
        path.chmod(0o644)
        return str(path)

    def run_tool(self, *arguments, stdin=''):
        """Run the tool with the test's nova.conf."""
        return run('--config-file', self.conf, *arguments, stdin=stdin)

    def succeed(self, *arguments):
        """Run a command that has nothing to complain about."""
        result = self.run_tool(*arguments)
        self.assertEqual((0, ''), (result.status, result.err))
        return result

    def error_of(self, *arguments):
        """Run a command that ends with status 1 and no output."""
        result = self.run_tool(*arguments)
        self.assertEqual((1, ''), (result.status, result.out), result)
        return result.err

    def assert_one_line(self, text, *words):
        """Assert that an error or warning is one line with these words."""
        self.assertEqual(1, len(text.splitlines()), text)
        self.assertTrue(text.startswith(f'{app.NAME}: '), text)
        for word in words:
            self.assertIn(word, text)


class HostTestCase(ToolTestCase):
    """A test with an emulated host, asked over HTTP."""

    world = None

    def setUp(self):
        super().setUp()
        self.emulator, _ = emulator_base.take(self, self.world)
        with open(self.conf, 'a') as conf:
            conf.write(
                f'rest_url = {self.emulator.url}\n'
                f'rest_username = {self.emulator.username}\n'
                f'rest_password = {self.emulator.password}\n'
            )
