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

"""Python of pages for a real host, run against the emulated one."""

import doctest
import gc
import re
import unittest

from pypowervm import adapter
from pypowervm.wrappers import logical_partition as lpar

from emulator.tests import base
from powervm_emulator import worlds
from tests.unit.docs import pages

PAGE = 'contributor/novalink-checklist'
CLUSTER = {
    'name': 'cluster',
    'nodes': ['vios1'],
    'pool': {'name': 'pool', 'capacity': 100},
}


class ChecklistTest(unittest.TestCase):
    def test_emulator_passes_checklist(self):
        base.quieten(self)
        world = worlds.default() | {'clusters': [CLUSTER]}
        emulator = base.start(self, world)
        # A session logs off when it is collected.
        self.addCleanup(gc.collect)
        values = {'a': adapter.Adapter(base.session_for(emulator))}
        # The steps are one session; a later one uses names of earlier ones.
        steps = [text for name, text in pages.blocks('pycon') if name == PAGE]
        self.assertGreater(len(steps), 10)
        example = doctest.DocTestParser().get_doctest(
            '\n'.join(steps), values, PAGE, None, 0
        )
        said = []
        doctest.DocTestRunner(verbose=False).run(example, out=said.append)
        self.assertEqual('', ''.join(said))

    def test_checks_are_numbered_in_order(self):
        text = (pages.SOURCE / f'{PAGE}.rst').read_text()
        numbers = [int(n) for n in re.findall(r'(?m)^(\d+)[.] [*]{2}', text)]
        self.assertEqual(list(range(1, len(numbers) + 1)), numbers)


class DeletionByHandTest(base.EmulatorTestCase):
    """What the page about the demonstration does in place of pvmctl."""

    def test_program_of_page_deletes_lpar(self):
        self.create('other')
        self.create('vm1')
        (program,) = (
            text
            for name, text in pages.blocks('python')
            if name == 'contributor/demo'
        )
        for placeholder, value in (
            ("'nova'", repr(self.emulator.username)),
            ('<password>', self.emulator.password),
            ('<port>', str(self.emulator.port)),
            ('<name>', 'vm1'),
        ):
            program = program.replace(placeholder, value)

        exec(program, {})  # noqa: S102

        left = lpar.LPAR.get(self.adapter, parent=self.system())
        self.assertIn('other', [each.name for each in left])
        self.assertNotIn('vm1', [each.name for each in left])
