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

"""Builds and rebuilds that are refused, and what is left then."""

from unittest import mock

import fixtures
from nova import exception as nova_exception
from nova import objects
from oslo_utils import uuidutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import spec
from nova_powervm.virt import builds
from nova_powervm.virt import errors
from nova_powervm.virt import instance_ports
from nova_powervm.virt import system_metadata
from tests.unit.virt import base
from tests.unit.virt import test_instance_records

REFUSAL = exception.ImageRefused(image='new', reason='it is not safe')


class Glance:
    def get(self, context, image_id, **options):
        return {'id': image_id, 'properties': {'hw_machine': 'old'}}


class PreparedEvacuationTest(base.NoDBTestCase):
    """An evacuation to host3 after a live migration from host1 to host2."""

    def setUp(self):
        super().setUp()
        self.host = mock.Mock(nodename='host3')
        self.unbound = self.useFixture(
            fixtures.MockPatchObject(instance_ports, 'unbind_ports')
        ).mock
        self.server = objects.Instance(
            uuid=uuids.instance, host='host1', system_metadata={}
        )

    def prepare(self):
        builds.Builds(self.host).prepare_evacuation(self.server)

    def mark(self):
        """Let the end of the live migration be unknown."""
        system_metadata.LIVE_MIGRATION.write(
            self.server.system_metadata, 'to host2'
        )

    def test_what_the_migration_has_left_is_removed(self):
        self.prepare()
        self.assertEqual([], self.host.mock_calls)
        self.mark()
        self.prepare()
        self.host.disks.unmap_deleted.assert_called_once_with(
            {partition.lpar_uuid(uuids.instance)}
        )
        self.unbound.assert_called_once_with(self.server, 'host2')

    def test_server_that_runs_on_another_host_is_left_alone(self):
        self.mark()
        self.host.locations.check.side_effect = exception.LparElsewhere(
            state='running', reason='a live migration has brought it to host2'
        )
        with self.assertRaisesRegex(
            nova_exception.InstanceDeployFailure, 'has brought it to host2'
        ):
            self.prepare()
        self.host.disks.unmap_deleted.assert_not_called()
        self.unbound.assert_not_called()


class RefusedRebuildTest(test_instance_records.RecordsTestCase):
    def setUp(self):
        super().setUp()
        self.stub_out('nova.image.glance.API', Glance)
        instance = self.instance()
        # As the API leaves it.
        instance.vm_state, instance.task_state = 'active', 'rebuilding'
        instance.image_ref = 'new'
        instance.system_metadata = {'image_hw_machine': 'new'}
        system_metadata.IMAGE.write(instance.system_metadata, 'old')
        instance.save()
        instance.flavor = objects.Flavor(memory_mb=1024, root_gb=1)
        instance.old_flavor = instance.new_flavor = None
        instance.obj_reset_changes()
        self.handed = instance

    def check(self, kind, nodename='host1'):
        """Have the check of a rebuild refused on some host."""
        self.stub_out(
            'nova_powervm.virt.refusals.check_build',
            mock.Mock(side_effect=REFUSAL),
        )
        build = builds.BuildRequest(
            self.context, self.handed, None, None, [], None
        )
        return self.assertRaises(
            kind,
            builds.Builds(mock.Mock(nodename=nodename)).check_rebuild,
            build,
            evacuate=nodename != 'host1',
            preserve_ephemeral=False,
        )

    def stop(self, kind):
        """Have the stop before a rebuild fail."""
        with (
            self.assertRaises(kind) as caught,
            builds.refused_if_stop_fails(self.handed),
        ):
            raise REFUSAL
        return caught.exception

    def assert_as_it_was(self, refused):
        # After this kind alone, Nova deletes no allocations.
        self.assertIsInstance(refused, nova_exception.InstanceNotFound)
        record = objects.Instance.get_by_uuid(
            self.context, self.uuid, expected_attrs=['system_metadata']
        )
        self.assertEqual(
            ('active', None, 'old', 'old'),
            (
                record.vm_state,
                record.task_state,
                record.image_ref,
                record.system_metadata['image_hw_machine'],
            ),
        )

    def test_refused_rebuild_changes_nothing(self):
        self.assert_as_it_was(self.check(builds.RebuildRefused))

    def test_rebuild_whose_guest_is_not_stopped_changes_nothing(self):
        self.assert_as_it_was(self.stop(builds.RebuildRefused))

    def test_stop_without_rebuild_raises_its_error(self):
        self.handed.task_state = 'powering-off'
        self.stop(exception.ImageRefused)

    def test_refused_evacuation_gives_its_allocations_up(self):
        self.check(nova_exception.InstanceDeployFailure, 'host2')
        self.assertEqual('new', self.handed.image_ref)

    def test_evacuation_with_volumes_is_planned_without_open_requests(self):
        self.stub_out('nova_powervm.virt.refusals.check_build', mock.Mock())
        host = mock.Mock(nodename='host2')
        host.descriptions.allocated.return_value = spec.Wanted(self.uuid)
        info = {'serial': 'v1', 'driver_volume_type': 'fibre_channel'}
        disk = {'connection_info': info, 'boot_index': 0}
        for profiles in ({}, {'accel:device_profile': 'a test'}):
            self.handed.flavor.extra_specs = profiles
            for disks in ([], [disk]):
                host.reset_mock()
                builds.Builds(host).check_rebuild(
                    builds.BuildRequest(
                        self.context,
                        self.handed,
                        None,
                        None,
                        [],
                        {'block_device_mapping': disks},
                    ),
                    evacuate=True,
                    preserve_ephemeral=False,
                )
                ((volumes, slots), _) = host.volumes.check_arrival.call_args
                self.assertIs(host.partitions.virtual_slots, slots)
                self.assertEqual(['v1'] * len(disks), [v.id for v in volumes])
                self.assertEqual(
                    bool(disks) and not profiles, host.lpars.check.called
                )

    def test_server_is_where_it_was_made_last(self):
        host = mock.Mock(nodename='host2')
        host.lpars.run.return_value = mock.Mock(udids={}, slots={})
        metadata = self.handed.system_metadata
        system_metadata.LIVE_MIGRATION.write(metadata, 'to host3')
        build = builds.BuildRequest(
            self.context, self.handed, None, None, [], None
        )
        with mock.patch.object(
            builds.Builds,
            '_describe',
            return_value=(spec.Wanted(self.uuid), None),
        ):
            builds.Builds(host).arrive(build, None)
        self.assertIsNone(system_metadata.live_migration(metadata))


class SpawnTest(test_instance_records.RecordsTestCase):
    """What must hold before a build plans anything."""

    def setUp(self):
        super().setUp()
        for name in (
            'refusals.check_build',
            'instance_ports.await_allocation',
            'device_tags.describe_tagged',
            'accelerator_requests.parse_requests',
        ):
            self.stub_out(f'nova_powervm.virt.{name}', lambda *_, **__: None)
        self.host = mock.MagicMock(nodename='host1')
        self.host.descriptions.allocated.return_value = spec.Wanted(self.uuid)

    def refused(self, kind, instance):
        build = builds.BuildRequest(self.context, instance, None, {}, [], {})
        self.assertRaises(kind, builds.Builds(self.host).spawn, build, None)
        self.host.lpars.plan.assert_not_called()

    def test_build_needs_leave_to_burn_devices(self):
        self.host.burn_limit.admit.side_effect = exception.BurnLimitReached(
            limit=1, asked=1
        )
        self.refused(errors.RefusedByPolicy, self.instance())

    def test_rebuild_makes_nothing_for_a_server_that_is_deleted(self):
        instance = self.instance()
        instance.task_state = 'deleting'
        instance.save()
        # What Nova has handed over for the rebuild.
        instance.task_state = 'rebuild_spawning'
        self.refused(nova_exception.InstanceNotFound, instance)

    def build(self, nodename, *kept):
        """Build a server of host1 somewhere; return operation and root disk.

        :param kept: The disks that the host sees of it.
        """
        for name, value in (
            ('slot_records.note_all', lambda *_: None),
            ('descriptions.image', lambda instance, glance: glance),
            ('glance_images.GlanceImage', mock.Mock()),
        ):
            self.stub_out(f'nova_powervm.virt.{name}', value)
        self.host.nodename = nodename
        self.host.storage.kept_disks.return_value = kept
        instance = self.instance()
        instance.vm_state = 'active'
        instance.task_state = 'rebuild_spawning'
        instance.system_metadata = {}
        instance.trusted_certs = objects.TrustedCerts(ids=['ours'])
        build = builds.BuildRequest(
            self.context, instance, mock.Mock(id='image'), {}, [], {}
        )
        builds.Builds(self.host).spawn(build, None)
        self.host.storage.record_pool.assert_called_with(instance)
        (operation, wanted, _), _ = self.host.lpars.plan.call_args
        return operation, wanted.root

    def test_evacuated_server_keeps_the_disks_that_its_new_host_sees(self):
        self.assertEqual(
            (operations.ARRIVAL, None), self.build('host2', 'disk')
        )

    def test_other_rebuilt_servers_get_disks_of_a_verified_image(self):
        for nodename, *kept in (('host1', 'disk'), ('host2',)):
            self.uuid = uuidutils.generate_uuid()
            operation, root = self.build(nodename, *kept)
            self.assertIs(operations.SPAWN, operation)
            self.assertIsNotNone(root)
            (_, image, certs), _ = builds.glance_images.GlanceImage.call_args
            self.assertEqual(('image', ['ours']), (image, certs.ids))
