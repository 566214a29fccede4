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

"""The page of what the emulator can be asked finds what there is."""

import sys
import unittest

from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import emulator_coverage
import pypowervm_calls


class CoverageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.marks = emulator_coverage.marks()

    def state(self, path, what, operation=''):
        """Return what the emulator does with a call that must be known."""
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

    def test_served(self):
        for path, what in (
            ('uom/LogicalPartition', 'create'),
            ('uom/LogicalPartition/{uuid}', 'update'),
            ('uom/ManagedSystem/{uuid}/VirtualSwitch', 'feed'),
            ('uom/ManagedSystem/{uuid}/NetworkBridge/{uuid}', 'update'),
            ('uom/LogicalPartition/{uuid}/ClientNetworkAdapter', 'create'),
            ('uom/VirtualIOServer/{uuid}/VolumeGroup', 'feed'),
            ("uom/LogicalPartition/search/(Name=='a')", 'search'),
            ('uom/Event', 'feed'),
        ):
            self.assertEqual('served', self.state(path, what), path)

    def test_missing(self):
        for path, what in (
            ('uom/SharedStoragePool', 'feed'),
            ('uom/Tier/{uuid}/LogicalUnit', 'create'),
            ('uom/LogicalPartition/{uuid}/VirtualNICDedicated', 'create'),
        ):
            self.assertEqual('missing', self.state(path, what), path)

    def test_jobs(self):
        self.assertEqual('served', self.job('LogicalPartition', 'PowerOn'))
        self.assertEqual('served', self.job('VirtualIOServer', 'PowerOff'))
        self.assertEqual('missing', self.job('LogicalPartition', 'CloseVterm'))
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

    def test_quick_properties(self):
        for name in ('PartitionID', 'PartitionType'):
            path = f'uom/LogicalPartition/{{uuid}}/quick/{name}'
            self.assertEqual('served', self.state(path, 'quick', name))

    def test_refused(self):
        path = 'uom/ManagementConsole/do/CLIRunner'
        self.assertEqual('refused', self.state(path, 'job', 'CLIRunner'))
        for mark in self.marks:
            self.assertEqual(mark.state == 'refused', bool(mark.reason))

    def test_each_reason_is_needed(self):
        used = {mark.reason for mark in self.marks} - {''}
        self.assertEqual(set(emulator_coverage.REASONS.values()), used)

    def test_every_noun_has_a_place(self):
        places = pypowervm_calls.places()
        for noun in pypowervm_calls.nouns():
            self.assertTrue(places[noun], noun)

    def test_every_route_is_known(self):
        self.assertEqual([], emulator_coverage.strangers())

    def test_the_page_counts_all(self):
        states = [mark.state for mark in self.marks]
        first, *lines = emulator_coverage.page()
        self.assertEqual(
            f'Of {len(states)} calls, {states.count("served")} are served, '
            f'{states.count("refused")} refused for a reason, and '
            f'{states.count("missing")} missing.',
            first,
        )
        self.assertGreater(len(lines), 100)
