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

"""The user's guide to the emulator is complete."""

import contextlib
import inspect
import io
import pathlib
import re
import sys
import textwrap
import unittest

from powervm_emulator import nouns
from powervm_emulator import options
from powervm_emulator import worlds
from powervm_emulator.control import verbs as control

from . import base

sys.path.insert(
    0, str(pathlib.Path(__file__).parents[1] / 'doc' / 'source' / '_ext')
)

import emulator_reference

_PROJECT = pathlib.Path(__file__).parents[1]
_SOURCE = _PROJECT / 'doc' / 'source'
PAGE = _SOURCE / 'guide.rst'
COMMAND = _SOURCE / 'command.rst'


class ReadmeTest(unittest.TestCase):
    def test_first_request_prints_slots(self):
        base.quieten(self)
        emulator = base.start(self)
        text = (_PROJECT / 'README.rst').read_text()
        block = text.partition('.. code-block:: python\n\n')[2]
        program = block[: block.index('\n\nThe REST API')]
        program = textwrap.dedent(program).replace('12080', str(emulator.port))
        said = io.StringIO()
        values = {}

        with contextlib.redirect_stdout(said):
            exec(program, values)  # noqa: S102

        base.forget(values['session'])
        self.assertIn('3D Controller\n', said.getvalue())


class PageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.text = PAGE.read_text()

    def assert_named(self, names):
        missing = {name for name in names if f'``{name}``' not in self.text}
        self.assertEqual(set(), missing)

    def test_guide_names_verbs_and_arguments(self):
        verbs = control.VERBS.keys()
        self.assert_named(verbs)
        for verb in verbs:
            parameters = inspect.signature(
                getattr(control.Control, verb)
            ).parameters
            self.assert_named(name for name in parameters if name != 'self')

    def test_example_world_is_valid(self):
        block = self.text.partition('.. code-block:: yaml\n\n')[2]
        lines = []
        for line in block.splitlines():
            if line and not line.startswith('   '):
                break
            lines.append(line)
        worlds.parse('\n'.join(lines), 'the example')


class CommandPageTest(unittest.TestCase):
    def test_page_names_options(self):
        text = COMMAND.read_text()
        for parser in (options._serve_parser(), options._record_parser()):
            for action in parser._actions:
                if action.option_strings:
                    self.assertIn(f'``{action.option_strings[-1]}', text)


class ReferenceTest(unittest.TestCase):
    def names(self, lines):
        return re.findall(r'^   \* - ``(.+)``$', '\n'.join(lines), re.M)

    def test_requests_have_every_label_once(self):
        self.assertCountEqual(
            {route.label for route in nouns.ROUTES},
            self.names(emulator_reference.list_requests()),
        )

    def test_keys_are_those_of_worlds(self):
        def keys(node):
            if isinstance(node, dict):
                yield from node.get('properties', {})
                for value in node.values():
                    yield from keys(value)

        named = {
            part
            for name in self.names(emulator_reference.list_keys())
            for part in name.split('.')
        }
        # The meanings of keys with a range name these.
        named |= {'minimum', 'desired', 'maximum'}
        self.assertEqual(set(keys(worlds.schema())), named)
