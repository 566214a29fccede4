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

"""The documents are true and complete."""

import contextlib
import difflib
import inspect
import io
import pathlib
import re
import sys
import textwrap
import unittest

from lxml import etree

from powervm_emulator import nouns
from powervm_emulator import options
from powervm_emulator import worlds
from powervm_emulator.control import verbs as control

from . import base
from . import element_documents
from . import element_paths
from . import elements

sys.path.insert(
    0, str(pathlib.Path(__file__).parents[1] / 'doc' / 'source' / '_ext')
)

import emulator_coverage
import emulator_reference
import pypowervm_calls

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


class EmulatorCoverageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.marks = emulator_coverage.marks()

    def state(self, path, what, operation=''):
        """Return the emulator's support of a call that must be known."""
        (found,) = (
            mark
            for mark in self.marks
            if (mark.call.path, mark.call.what, mark.call.operation)
            == (path, what, operation)
        )
        return found.state

    def job(self, kind, operation):
        path = f'uom/{kind}/{{uuid}}/do/{operation}'
        return self.state(path, 'job', operation)

    def test_known_calls_are_served(self):
        for path, what in (
            ('uom/LogicalPartition', 'create'),
            ('uom/LogicalPartition/{uuid}', 'update'),
            ('uom/ManagedSystem/{uuid}/VirtualSwitch', 'feed'),
            ('uom/ManagedSystem/{uuid}/NetworkBridge/{uuid}', 'update'),
            ('uom/LogicalPartition/{uuid}/ClientNetworkAdapter', 'create'),
            ('uom/VirtualIOServer/{uuid}/VolumeGroup', 'feed'),
            ('uom/Tier/{uuid}/LogicalUnit', 'create'),
            ("uom/LogicalPartition/search/(Name=='a')", 'search'),
            ('uom/Event', 'feed'),
        ):
            self.assertEqual('served', self.state(path, what), path)

    def test_unsupported_calls_are_missing(self):
        for path, what in (
            ('uom/SharedStoragePool', 'create'),
            ('uom/LogicalPartition/{uuid}/VirtualNICDedicated', 'create'),
        ):
            self.assertEqual('missing', self.state(path, what), path)

    def test_jobs_are_served_or_missing(self):
        self.assertEqual('served', self.job('LogicalPartition', 'PowerOn'))
        self.assertEqual('served', self.job('VirtualIOServer', 'PowerOff'))
        self.assertEqual('served', self.job('LogicalPartition', 'CloseVterm'))
        for operation in ('Migrate', 'MigrateValidate', 'MigrateRecover'):
            self.assertEqual('served', self.job('LogicalPartition', operation))
        self.assertEqual(
            'missing', self.state('uom/Cluster/do/Create', 'job', 'Create')
        )
        self.assertEqual(
            'served',
            self.job(
                'ManagedSystem', 'QueryReservedMemoryRequiredForPartition'
            ),
        )

    def test_quick_properties_are_served(self):
        for name in ('PartitionID', 'PartitionType'):
            path = f'uom/LogicalPartition/{{uuid}}/quick/{name}'
            self.assertEqual('served', self.state(path, 'quick', name))

    def test_refused_calls_have_reason(self):
        path = 'uom/ManagementConsole/do/CLIRunner'
        self.assertEqual('refused', self.state(path, 'job', 'CLIRunner'))
        for mark in self.marks:
            self.assertEqual(mark.state == 'refused', bool(mark.reason))

    def test_reasons_are_all_used(self):
        used = {mark.reason for mark in self.marks} - {''}
        self.assertEqual(set(emulator_coverage.REASONS.values()), used)

    def test_nouns_of_pypowervm_all_have_place(self):
        places = pypowervm_calls.places()
        for noun in pypowervm_calls.nouns():
            self.assertTrue(places[noun], noun)

    def test_routes_are_all_known_calls(self):
        self.assertEqual([], emulator_coverage.strangers())

    def test_page_counts_calls_by_state(self):
        states = [mark.state for mark in self.marks]
        first, *lines = emulator_coverage.page()
        self.assertEqual(
            f'Of {len(states)} calls, {states.count("served")} are served, '
            f'{states.count("empty")} only ever answered with 204 or 404, '
            f'{states.count("refused")} refused for a reason, and '
            f'{states.count("missing")} missing.',
            first,
        )
        self.assertGreater(len(lines), 100)

    def test_calls_for_what_no_host_has_here_are_not_served(self):
        empty = {
            mark.call.path
            for mark in self.marks
            if mark.state == emulator_coverage.EMPTY
        }
        self.assertIn('uom/LogicalPartition/{uuid}/VirtualNICDedicated', empty)
        self.assertNotIn('uom/Cluster', empty)
        self.assertNotIn('uom/ManagementConsole', empty)


class ElementsPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls('setUpClass')
        base.quieten(case)
        cls.addClassCleanup(case.doCleanups)
        cls.nouns = elements.nouns()

    def test_page_shows_elements_of_emulator(self):
        changes = difflib.unified_diff(
            elements.PAGE.read_text().splitlines(),
            elements.page(self.nouns).splitlines(),
            'the page',
            'the emulator',
            lineterm='',
        )
        text = '\n'.join(changes)
        if text:
            self.fail(
                f'{elements.PAGE.name} is out of date. Run '
                f'{elements.COMMAND}\n{text}'
            )

    def test_nouns_all_have_captures_and_documents(self):
        for noun in self.nouns:
            with self.subTest(noun.name):
                self.assertTrue(noun.comparison.captured.paths)
                self.assertTrue(noun.comparison.served.paths)

    def test_known_elements_are_served(self):
        for name, path in (
            ('LogicalPartition', 'PartitionIOConfiguration/ProfileIOSlots'),
            ('LogicalPartition', 'ClientNetworkAdapters/link'),
            ('VirtualIOServer', 'VirtualSCSIMappings/VirtualSCSIMapping'),
            ('VolumeGroup', 'MediaRepositories/VirtualMediaRepository'),
            ('NetworkBridge', 'LoadGroups/LoadGroup/TrunkAdapters'),
            ('JobResponse', 'Results/JobParameter/ParameterValue'),
        ):
            (noun,) = (noun for noun in self.nouns if noun.name == name)
            self.assertIn(path, noun.comparison.served.paths)

    def test_reasons_for_absence_are_all_used(self):
        absent = {
            (noun.name, path)
            for noun in self.nouns
            for path in noun.comparison.absent()
        }
        unused = [
            (name, prefix)
            for name, prefix in elements.ABSENT
            if not any(
                name == other and f'{path}/'.startswith(f'{prefix}/')
                for other, path in absent
            )
        ]
        self.assertEqual([], unused)

    def test_reasons_for_order_are_all_used(self):
        swapped = {
            (noun.name, swap.parent, name)
            for noun in self.nouns
            for swap in noun.comparison.swaps()
            for name in (swap.first, swap.second)
        }
        self.assertEqual(set(), set(elements.OUT_OF_ORDER) - swapped)

    def test_list_names_every_difference(self):
        differences = [
            difference
            for noun in self.nouns
            for difference in (
                *noun.comparison.absent(),
                *noun.comparison.swaps(),
            )
        ]
        self.assertEqual(len(differences), len(elements.listing(self.nouns)))


class CapturedTest(unittest.TestCase):
    def test_captured_tells_novalink_from_hmc(self):
        found = {
            (capture.noun, capture.is_novalink)
            for capture in element_documents.captured()
        }
        for noun in ('ManagedSystem', 'VirtualIOServer', 'VirtualSwitch'):
            self.assertLessEqual({(noun, True), (noun, False)}, found)
        self.assertNotIn(('LogicalPartition', True), found)


def shape(*documents):
    return element_paths.Shape(map(etree.fromstring, documents))


def compare(captured, served, preferred=()):
    return element_paths.Comparison(
        shape(*preferred), shape(*preferred, *captured), shape(*served)
    )


class ComparisonTest(unittest.TestCase):
    def test_paths_collapse_lists_and_ignore_namespaces(self):
        found = shape('<r xmlns="x"><a><b/></a><!-- c --><a><c/></a></r>')
        self.assertEqual(['a', 'a/b', 'a/c'], list(found.paths))

    def test_absent_is_captured_but_not_served(self):
        found = compare(
            ['<r><a><b><c/></b></a></r>', '<r><d/></r>'], ['<r><a/><e/></r>']
        )
        self.assertEqual(['a/b', 'a/b/c', 'd'], found.absent())
        self.assertEqual(['a/b', 'd'], found.absent_roots())

    def test_swaps_are_pairs_in_other_order(self):
        found = compare(
            ['<r><p><a/><b/><c/></p></r>'], ['<r><p><c/><a/></p></r>']
        )
        self.assertEqual([element_paths.Swap('p', 'a', 'c')], found.swaps())

    def test_swaps_ignore_pair_that_captures_disagree_on(self):
        found = compare(
            ['<r><a/><b/></r>', '<r><b/><a/></r>'], ['<r><b/><a/></r>']
        )
        self.assertEqual([], found.swaps())

    def test_swaps_ignore_interleaved_lists(self):
        found = compare(['<r><a/><b/><a/></r>'], ['<r><b/><a/></r>'])
        self.assertEqual([], found.swaps())
        found = compare(['<r><a/><b/></r>'], ['<r><b/><a/><b/></r>'])
        self.assertEqual([], found.swaps())

    def test_swaps_follow_preferred_captures(self):
        found = compare(
            ['<r><a/><b/></r>'], ['<r><a/><b/></r>'], ['<r><b/><a/></r>']
        )
        self.assertEqual([element_paths.Swap('', 'b', 'a')], found.swaps())

    def test_expected_puts_siblings_of_all_captures_in_order(self):
        found = compare(
            ['<r><a/><c/></r>', '<r><b/><c/></r>', '<r><a/><b/></r>'], []
        )
        self.assertEqual(['a', 'b', 'c'], found.expected())

    def test_expected_has_every_element_of_contradictory_captures(self):
        found = compare(
            ['<r><a/><b/></r>', '<r><b/><c/></r>', '<r><c/><a/></r>'], []
        )
        self.assertEqual(['a', 'b', 'c'], found.expected())
