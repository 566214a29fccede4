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

"""The page on the emulator's coverage of pypowervm."""

import pathlib
import sys
import unittest

sys.path.insert(
    0, str(pathlib.Path(__file__).parents[1] / 'doc' / 'source' / '_ext')
)

import emulator_coverage
import pypowervm_calls


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
            self.assertEqual(
                'missing', self.job('LogicalPartition', operation)
            )
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
