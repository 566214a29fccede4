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
"""Each operation with each kind of device, as the page on moves says.

Each story stands for an operation. Its server has a device of each kind.
Servers without devices move in ``test_costs``.
"""

from tests import proofs
from tests.functional import base
from tests.functional import moving
from tests.functional import pools

ONCE = 'CUSTOM_ONCE'
#: Slots of one-time-use devices.
_SLOTS = ('21010038', '21010039')
_CARD = {
    'description': 'Flash controller',
    'vendor_id': '1C58',
    'device_id': '0003',
    'class': '0108',
}
_FILE = (
    base.GPUS
    + """once:
  identification: {vendor_id: "1C58"}
  resource_class: CUSTOM_ONCE
  one_time_use: true
"""
)

#: Extra specs of a flavor with a device of each kind.
DEVICES = base.gpu_groups(1) | {
    'resources2:CUSTOM_ONCE': '1',
    'trait2:OWNER_NOVA': 'required',
    'group_policy': 'none',
}


class MoveTableTest(moving.MovingTestCase, pools.PoolTestCase):
    """Two hosts with one pool, reusable and one-time-use devices."""

    inventory = _FILE

    def setUp(self):
        super().setUp()
        self.start_site()
        for host in self.hosts:
            for index in _SLOTS:
                self.control(host).plug(index, _CARD)
        self._run_periodics()

    @proofs.proves('D85', 'O21', 'O25', 'device.one-time-use')
    def test_operations_move_each_kind_of_device(self):
        self.tell_stories()

    # Rows

    @proofs.proves('device.resize')
    def story_resize_within_host_is_confirmed(self):
        self.boot_first(within_host=True)
        self.enlarge()
        self.assert_moved('host1', memory_mb=1024)
        self.server = self.confirm(self.server)
        self.assert_settled('host1')
        self.finish(burns=2)

    @proofs.proves(
        'D81',
        'O28',
        'O41',
        'device.cold-migrate',
        'device.one-time-use',
        'device.resize',
    )
    def story_stopped_server_is_resized_to_other_host_and_stays_stopped(self):
        self.boot_first()
        self.refuse_at_the_destination()
        self._stop_server(self.server)
        self.enlarge()
        self.assert_moved('host2', memory_mb=1024, state='not activated')
        self.server = self.confirm(self.server, 'SHUTOFF')
        self.assert_settled('host2', state='not activated')
        self.finish(burns=2)

    def refuse_at_the_destination(self):
        """Ask for a move that the other host refuses; it changes nothing."""
        before = self.host_state('host1'), self.host_state('host2')
        reason = self.refuse_move(
            self.server,
            'resize',
            flavorRef=self.make_flavor(DEVICES, memory_mb=777),
        )
        self.assertIn('the other host cannot run it: ', reason)
        self.assertIn('not a multiple', reason)
        self.assertIn('768 or ', self.logged())
        self.assertEqual(
            before, (self.host_state('host1'), self.host_state('host2'))
        )
        self.assert_settled('host1')

    @proofs.proves('device.cold-migrate')
    def story_failed_move_is_repaired_by_hard_reboot(self):
        self.boot_first()
        self.control('host2').plan_job('PowerOn', 'HSCL0000 No.')
        self.server = self.migrate(self.server, expected='ERROR')
        self.server = self.reboot_hard(self.server)
        self.assert_settled('host2')
        # What remains on the source is the operator's to remove.
        lpar = self.lpar(self.server, 'host1')
        self.assertEqual('not activated', lpar.state)
        driver = self.computes['host1'].manager.driver
        driver.services.host.partitions.delete(lpar.uuid)
        self.restart_host('host1')

        # A deletion before the confirmation of the next one leaves nothing.
        self.server = self.migrate(self.server, 'host1')
        self.finish(burns=3)

    # Steps

    def boot_first(self, *, within_host=False):
        """Boot a server on the first host.

        :param within_host: Whether it is to be moved within this host.
        """
        self.flags(allow_resize_to_same_host=within_host)
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service(
            service['id'],
            {'status': 'disabled' if within_host else 'enabled'},
        )
        self.server = self.boot(DEVICES, disk=1, request={'host': 'host1'})
        self.old = self.owned(self.server)

    def enlarge(self):
        """Resize the server to a flavor with more memory."""
        self.server = self.resize(self.server, DEVICES, memory_mb=1024)

    def assert_moved(self, host, **expected):
        """Verify both sides of a server that waits for its confirmation."""
        self._run_periodics()
        expected = {'memory_mb': 512, 'state': 'running'} | expected
        self.assertEqual(host, self.server['OS-EXT-SRV-ATTR:host'])
        lpar = self.lpar(self.server, host)
        self.assertEqual(
            expected, {name: getattr(lpar, name) for name in expected}
        )
        slots = set(lpar.slots)
        self.assertEqual(2, len(slots))
        self.assertEqual(slots, self.slots_of(self.server['id'], host))
        migration = self.migration_uuid(self.server)
        self.assertEqual(self.old, self.slots_of(migration))
        if host != 'host1':
            source = self.lpar(self.server, 'host1')
            self.assertEqual('not activated', source.state)
            self.assertEqual(self.old, set(source.slots))
        else:
            self.assertFalse(self.old & slots)

    def assert_settled(self, host, state='running'):
        """Verify that the server is on a host, and holds nothing elsewhere."""
        self._run_periodics()
        self.assertEqual(host, self.server['OS-EXT-SRV-ATTR:host'])
        lpar = self.lpar(self.server, host)
        self.assertEqual(state, lpar.state)
        self.assertEqual(2, len(lpar.slots))
        for name in self.hosts:
            owned = set(lpar.slots) if name == host else set()
            self.assertEqual(owned, self.slots_of(self.server['id'], name))
        self.assertIn('root', self.disks_of(self.server))

    def finish(self, burns):
        """Delete the server, and verify that nothing is left of it.

        :param burns: How many one-time-use devices it has had.
        """
        migrations = self.admin_api.api_get(
            f'/os-migrations?instance_uuid={self.server["id"]}'
        ).body['migrations']
        self._delete_server(self.server)
        self._run_periodics()
        for consumer in (self.server['id'], *(m['uuid'] for m in migrations)):
            self.assertEqual(
                {}, self._get_allocations_by_server_uuid(consumer)
            )
        burned = 0
        for host in self.hosts:
            self.assertEqual([], self.vios(host)['scsi_mappings'])
            self.assertIsNone(self.lpar(self.server, host))
            self.assertEqual({}, self.disks_of(self.server, host))
            burned += self.release_all(host)
        self.assertEqual(burns, burned)
