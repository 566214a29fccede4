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

"""What could cost a server its disks, or run it twice, does not."""

import base64

from nova import context as nova_context
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm.emulator import fixture
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import removal
from nova_powervm.powervm import partitions
from nova_powervm.powervm.disk import pools as pvm_pools
from tests.functional import base
from tests.functional import moving
from tests.functional import one_time_use
from tests.functional import pools
from tests.functional import test_pool_evacuate as evacuations

WRITTEN = evacuations.WRITTEN


class DangerTest(evacuations.PoolEvacuateTestCase):
    def test_disks_survive_dangers(self):
        self.tell_stories()

    def disk_driver(self, host):
        """Return the disk driver of a running nova-compute."""
        return self.computes[host].manager.driver._services().disks

    def make_foreign(self, name, size, host='host1', **options):
        """Create a logical unit behind the driver's back."""
        disks = self.disk_driver(host)
        new = pvm_storage.LUEnt.bld(
            disks._adapter, name, size, typ=pvm_pools.DISK, **options
        )
        return new.create(parent=disks._units.tier)

    def fail_start(self, host='host2'):
        """Let a build fail after its LPAR was started, and remain."""
        self.stub_out(
            f'{removal.__name__}.RemovalOps.remove_failed_build',
            lambda *_args, **_options: None,
        )
        real = partitions.RestPartitions.power_on

        def start_and_fail(lpars, lpar):
            real(lpars, lpar)
            raise RuntimeError('the process was killed')

        self.stub_out(
            f'{partitions.__name__}.RestPartitions.power_on', start_and_fail
        )

    def mend_start(self):
        """Undo :meth:`fail_start`."""
        self.stub_out(
            f'{removal.__name__}.RemovalOps.remove_failed_build', _REMOVE
        )
        self.stub_out(f'{partitions.__name__}.RestPartitions.power_on', _START)

    def story_disks_of_same_name_are_refused(self):
        server = self.boot_on_first()
        name = storage.unit_name(
            partition.lpar_uuid(server['id']), storage.ROOT
        )
        twin = self.make_foreign(name, 1, 'host2')
        self.lose_host()
        fault = self.refuse(server)
        self.assertIn('has 2 logical units that may be the root disk', fault)
        self.disk_driver('host2')._units.delete(twin)
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def story_interrupted_evacuation_can_be_repeated(self):
        server = self.boot_on_first()
        self.lose_host()
        self.fail_start()
        self.refuse(server)
        self.mend_start()
        self.assertEqual('running', self.lpar(server, 'host2').state)
        self.restart_host('host2')
        self.assertIsNone(self.lpar(server, 'host2'))
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.api.post_server_action(server['id'], {'evacuate': {}})
        self._wait_for_server_parameter(
            server, {'OS-EXT-SRV-ATTR:host': 'host2', 'status': 'ACTIVE'}
        )
        self.assertEqual(WRITTEN, self.bytes_of(server))

    def story_server_is_not_started_while_another_lpar_has_its_disks(self):
        server = self.boot_on_first()
        self._stop_server(server)
        self.fail_host('host1')
        self.fail_start()
        self.refuse(server)
        self.mend_start()
        self.recover_host('host1')
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_server_parameter(
            server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )
        self.assertEqual('not activated', self.lpar(server, 'host1').state)
        self.assertIn('is in use by a running LPAR', self.fault(server))
        self.restart_host('host2')

    def story_config_drive_of_interrupted_evacuation_is_removed(self):
        server = self.boot_on_first(request={'config_drive': True})
        self.lose_host()
        self.fail_start()
        self.refuse(server)
        self.mend_start()
        self.assertEqual(1, len(self.media('host2')))
        self.restart_host('host2')
        self.assertEqual(set(), self.media('host2'))

    def story_rebuild_without_space_is_refused(self):
        server = self.boot_on_first(disk=60)
        thick = self.make_foreign('thick', 50, thin=False)
        reason = self.refuse_rebuild(server, server['image']['id'])
        self.assertIn('60 GB are needed', reason)
        self.assertEqual(WRITTEN, self.bytes_of(server))
        self.assertEqual('running', self.lpar(server, 'host1').state)
        self.disk_driver('host1')._units.delete(thick)

    def story_refused_evacuation_leaves_ports_bound(self):
        port = self.make_port()
        server = self.boot_on_first(networks=[{'port': port['id']}])
        before = self.binding(port)
        self.fail_host('host1')
        self.refuse(server)
        self.assertEqual(before, self.binding(port))

    def binding(self, port):
        """Return the host that a port is bound to."""
        found = self.neutron.show_port(port['id'])['port']
        return found['binding:host_id']


_REMOVE = removal.RemovalOps.remove_failed_build
_START = partitions.RestPartitions.power_on


class WanderingTest(evacuations.PoolEvacuateTestCase):
    def test_returning_host_keeps_disks_that_server_has_again(self):
        self.flags(rpc_response_timeout=2)
        self.start_host('host3')
        server = self.boot_on_first()
        self.lose_host('host1')
        server = self.evacuate_to(server, 'host3')
        self.lose_host('host3')
        server = self.evacuate_to(server, 'host2')
        # Not the old disk, which was still in the pool.
        self.assertEqual(base.IMAGE[:4], self.bytes_of(server)[:4])
        before = self.disks_of(server, 'host2')
        # Asked by the first host, it says that it shares nothing with it.
        self.regain_host('host3')
        self.lose_host('host2')
        self.regain_host('host1')
        self.assertIsNone(self.lpar(server, 'host1'))
        after = self.disks_of(server, 'host1')
        self.assertEqual(before['root']['udid'], after['root']['udid'])

    def evacuate_to(self, server, host):
        """Evacuate a server to a host."""
        return self.evacuate(
            server, extra_post_args={'host': host}, expected_host=host
        )


class TierTest(
    one_time_use.OneTimeUseTestCase, moving.MovingTestCase, pools.PoolTestCase
):
    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=False)
        described = pools.world(
            tiers=[
                {'name': 'SYSTEM', 'capacity': 50, 'default': True},
                {'name': 'fast', 'capacity': 50},
            ]
        )
        site = fixture.Site([described, described])
        for name, emulator, tier in zip(
            ('host1', 'host2'),
            site.emulators,
            ('fast', 'SYSTEM'),
            strict=True,
        ):
            self.start_host(
                name, emulator=emulator, disk_driver='ssp', tier_name=tier
            )

    def test_host_with_other_tier_finds_disks(self):
        server = self.boot({}, disk=1, request={'host': 'host1'})
        before = self.disks_of(server)['root']
        self.assertEqual('fast', before['tier'])
        self.control().write_disk(
            before['udid'], base64.b64encode(WRITTEN).decode()
        )
        self.fail_host('host1')
        self.control('host1').power_off_system()
        self._evacuate_server(server, expected_host='host2')
        after = self.disks_of(server, 'host2')['root']
        self.assertEqual(before['udid'], after['udid'])

    def test_hosts_with_different_tiers_boot_same_image(self):
        server = self.boot({}, disk=1, request={'host': 'host1'})
        other = self.boot({}, disk=1, request={'host': 'host2'})
        self.assertEqual('fast', self.disks_of(server)['root']['tier'])
        self.assertEqual('SYSTEM', self.disks_of(other)['root']['tier'])
        self.assertEqual(['SYSTEM', 'fast'], self.tiers_with_images())

        server = self.confirm(self.resize(server, disk=2))
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        root = self.disks_of(server)['root']
        self.assertEqual(('fast', 2), (root['tier'], root['capacity']))
        self._delete_server(server)
        self.assertEqual({}, self.disks_of(server))

    def test_tier_is_changed_while_image_is_cached(self):
        server = self.boot({}, disk=1, request={'host': 'host1'})
        self.restart_host('host1', disk_driver='ssp', tier_name='SYSTEM')
        other = self.boot({}, disk=1, request={'host': 'host1'})
        self.assertEqual('SYSTEM', self.disks_of(other)['root']['tier'])
        self.reboot_hard(server)
        self.assertEqual('fast', self.disks_of(server)['root']['tier'])
        self.assertEqual(['SYSTEM', 'fast'], self.tiers_with_images())

        self._delete_server(server)
        self.flags(
            remove_unused_original_minimum_age_seconds=0, group='image_cache'
        )
        for _ in range(2):
            self.computes['host1'].manager.driver.manage_image_cache(
                nova_context.get_admin_context(), []
            )
        self.assertEqual(['SYSTEM'], self.tiers_with_images())

    def tiers_with_images(self):
        """Return the tier of each image in the pool."""
        (found,) = self.control().state()['clusters']
        return sorted(
            unit['tier']
            for unit in found['pool']['logical_units']
            if unit['type'] == 'VirtualIO_Image'
        )
