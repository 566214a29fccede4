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

"""What has to be seen of a server that migrates while its guest runs."""

import dataclasses
from unittest import mock

from demo import cloud as cloud_lib
from demo import compute_hosts
from demo import host as host_lib
from demo import live_migration_steps
from demo import operator_commands
from demo import report
from demo import two_hosts
from demo import two_worlds
from demo import volume_move_steps
from tests.unit.demo import samples

_SERVER = '93b45310-6ae0-4fc8-bce3-7b50a96616ce'
_LPAR = '13b45310-6ae0-4fc8-bce3-7b50a96616ce'
_MAC = 'fa:16:3e:00:00:01'
_GPU = '21010020'


class LiveMigrationTest(samples.DirectoryTestCase):
    """A server on the first host, whose guest counts."""

    def setUp(self):
        super().setUp()
        made = self.make_stack(hosts=2)
        self.first, self.second = sides = tuple(
            two_hosts.Side(compute, mock.Mock(spec=host_lib.Host))
            for compute in made.computes
        )
        self.context = two_hosts.Context(
            made, mock.Mock(), None, supervisor=None, sides=sides
        )
        self.server = cloud_lib.Server(_SERVER, 'live', '', 'ACTIVE', '')
        self.context.servers = [self.server]
        self.context.provider_names = {
            'p': f'PowerVM IOSlot {self.first.name} {_GPU}'
        }
        self.disk = host_lib.StorageElement(
            'LogicalUnit', 'nv-root', '1', self.context.image_data, 'u1', 48
        )
        self.counted = 0
        self.goes_on = True
        self.slots = ()
        cloud = self.context.cloud
        cloud.find_server.return_value = self.server
        cloud.server.return_value = self.server
        cloud.ports.return_value = [cloud_lib.Port(_MAC, 'ACTIVE', 'pvm_sea')]
        cloud.allocations.side_effect = lambda _consumer: (
            {'p': {'CUSTOM_GPU': 1}} if self.slots else {}
        )
        cloud.compute_hosts.host_of.side_effect = lambda _id: self.on.name
        cloud.compute_hosts.bindings.side_effect = lambda _id: [
            compute_hosts.Binding(
                'id', _MAC, [], self.on.name, 'pvm_sea', 'ACTIVE'
            )
        ]
        for side in sides:
            side.host.count.side_effect = self.count
        self.put(self.first)
        self.status = 0
        self.ask = self.enterContext(
            mock.patch.object(
                operator_commands, 'run_openstack', side_effect=self.migrate
            )
        )
        self.enterContext(
            mock.patch.object(live_migration_steps, '_PORT_SECONDS', 0)
        )

    def count(self, partition, offset):
        """Count one on, and write the number to the disk."""
        self.assertEqual(_LPAR, partition)
        self.counted += 1
        data = self.disk.contents
        number = self.counted.to_bytes(8)
        self.disk = dataclasses.replace(
            self.disk, contents=data[:offset] + number + data[offset + 8 :]
        )
        self.put(self.on)
        return self.counted

    def put(self, side):
        """Let the server be on one host only."""
        self.on = side
        for each in self.context.sides:
            here = each is side
            lpar = host_lib.Partition('live', _LPAR, 'running', self.slots)
            host = each.host
            host.partitions.return_value = [lpar] if here else []
            host.owned_by.return_value = list(self.slots)
            host.adapters.return_value = [host_lib.Adapter(_MAC, 100)]
            host.storage.return_value = [self.disk] if here else []

    def migrate(self, *_arguments):
        """Do what Nova is asked for."""
        if self.status == 0:
            self.put(self.second)
            if not self.goes_on:
                self.counted = 0
        return operator_commands.Result('openstack', self.status, 'said')

    def differences(self, step):
        """Return what a step finds wrong, and keep what it shows."""
        expected, observed, shown = step(self.context)
        self.shown = '\n'.join(shown)
        return report.differences(expected, observed)

    def test_guest_goes_on_at_the_other_host(self):
        self.assertEqual([], self.differences(live_migration_steps.migrate))
        for line in (
            'powervm-demo-1: none',
            'powervm-demo-1 maps nothing',
            'powervm-demo-2 maps LogicalUnit u1 in virtual slot 48',
            'the guest counted 1, 2, 3 there',
            'the guest counted 4 there',
        ):
            self.assertIn(line, self.shown)

    def test_guest_that_has_booted_is_wrong(self):
        self.goes_on = False
        lines = '\n'.join(self.differences(live_migration_steps.migrate))
        self.assertIn('counts of the guest.powervm-demo-2', lines)
        self.assertIn('SHA-256 of the disk', lines)

    def test_server_that_stays_or_has_another_slot_is_wrong(self):
        def move_slot(*_arguments):
            self.disk = dataclasses.replace(self.disk, slot=49)
            return self.migrate()

        self.ask.side_effect = move_slot
        (line,) = self.differences(live_migration_steps.migrate)
        self.assertIn('disks, media and their slots.powervm-demo-2', line)
        self.put(self.first)
        self.counted = 0
        self.status = 1
        lines = '\n'.join(self.differences(live_migration_steps.migrate))
        for place in ('exit status', 'host', 'LPAR', 'ports'):
            self.assertIn(place, lines)

    def test_refusal_names_the_slot_and_changes_nothing(self):
        self.slots = (_GPU,)
        self.put(self.first)
        self.status = 1
        details = self.context.cloud.last_details
        words = f'the server has the physical I/O slot(s) {_GPU}, whose state'
        details.return_value = [words, 'Error\nTraceback', 'No valid host']
        self.assertEqual([], self.differences(live_migration_steps.refuse))
        self.assertIn(f'reason: {words}', self.shown)
        self.assertNotIn('Traceback', self.shown)
        details.return_value = ['No valid host']
        (line,) = self.differences(live_migration_steps.refuse)
        self.assertIn('reason: expected', line)
        details.return_value = [words]
        self.status = 0
        lines = '\n'.join(self.differences(live_migration_steps.refuse))
        for place in ('exit status', 'host', 'disks, media', 'LPAR'):
            self.assertIn(place, lines)

    def test_deleted_server_is_followed_no_longer(self):
        self.context.contents['live'] = self.context.volumes['/dev/sda'] = 'x'
        outcome = object()
        with mock.patch.object(
            volume_move_steps.two_host_steps,
            'delete_servers',
            return_value=outcome,
        ):
            self.assertIs(outcome, volume_move_steps.delete_live(self.context))
        context = self.context
        for found in (context.servers, context.volumes, context.contents):
            self.assertFalse(found)

    def test_guests_of_both_hosts_have_rmc(self):
        for has_volumes in (False, True):
            for world in two_worlds.make(has_volumes=has_volumes):
                self.assertTrue(world['guests_have_rsct'])
                (system,) = world['systems']
                self.assertEqual(
                    ['ETHERNET0(Default)', 'MGMTSWITCH'],
                    [one['name'] for one in system['virtual_switches']],
                )
