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

"""What Nova's records say of the LPARs on a host."""

from nova import context as nova_context
from nova import objects
from oslo_utils import uuidutils

from nova_powervm.devices import slot_providers
from nova_powervm.lpar import partition
from nova_powervm.virt import instance_records
from nova_powervm.virt import system_metadata
from tests.unit.virt import base

HERE = uuidutils.generate_uuid()
THERE = uuidutils.generate_uuid()


def resources(provider):
    """Give what Nova stores of one slot."""
    resource = objects.Resource(
        provider_uuid=provider,
        resource_class='CUSTOM_GPU',
        identifier='21010020',
    )
    return objects.ResourceList(objects=[resource])


class RecordsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        self.uuid = uuidutils.generate_uuid()
        self.lpar = partition.lpar_uuid(self.uuid)

    def instance(self, held=None):
        instance = objects.Instance(
            self.context,
            uuid=self.uuid,
            project_id='project',
            user_id='user',
            host='host1',
            resources=resources(held) if held else None,
        )
        instance.create()
        return instance

    def move(self, status, old=HERE, new=THERE, task=None, **changes):
        """Make an instance of host1 with the records of a move.

        :param status: The migration's; None without a migration.
        :param changes: Changes to the migration.
        """
        self.uuid = uuidutils.generate_uuid()
        self.lpar = partition.lpar_uuid(self.uuid)
        instance = self.instance(THERE)
        instance.task_state = task
        migration = objects.Migration(
            self.context,
            instance_uuid=self.uuid,
            status=status,
            **{'migration_type': 'resize', **changes},
        )
        if status:
            migration.create()
        instance.migration_context = objects.MigrationContext(
            self.context,
            instance_uuid=self.uuid,
            migration_id=migration.id if status else 12345,
            old_resources=resources(old),
            new_resources=resources(new),
            old_numa_topology=None,
            new_numa_topology=None,
        )
        instance.save()

    def mark(self, destination):
        """Record where a live migration moves the instance."""
        system_metadata.write_live_migration(
            objects.Instance.get_by_uuid(self.context, self.uuid), destination
        )


class GoneTest(RecordsTestCase):
    def gone(self):
        unknown = uuidutils.generate_uuid().upper()
        found = instance_records.NovaRecords().gone([self.lpar, unknown])
        self.assertNotIn(unknown, found)
        return self.lpar in found

    def test_instance_is_gone_once_it_is_deleted(self):
        self.assertFalse(self.gone())
        instance = self.instance()
        self.assertFalse(self.gone())
        instance.destroy()
        self.assertTrue(self.gone())

    def test_instance_without_host_is_gone_unless_it_has_a_task(self):
        instance = self.instance()
        instance.host = None
        instance.task_state = 'spawning'
        instance.save()
        self.assertFalse(self.gone())
        instance.task_state = None
        instance.save()
        self.assertTrue(self.gone())

    def test_lpar_that_may_be_of_two_instances_needs_both_gone(self):
        # The uuid of an LPAR lacks the first bit.
        for deleted in (0, 1):
            self.lpar = partition.lpar_uuid(uuidutils.generate_uuid())
            both = []
            for uuid in partition.instance_uuids(self.lpar):
                self.uuid = uuid
                both.append(self.instance())
            both.pop(deleted).destroy()
            self.assertFalse(self.gone())
            both.pop().destroy()
            self.assertTrue(self.gone())


class HoldingsTest(RecordsTestCase):
    def holdings(self):
        foreign = uuidutils.generate_uuid().upper()
        found = instance_records.NovaRecords().holdings([self.lpar, foreign])
        self.assertLessEqual(set(found), {self.lpar})
        if self.lpar not in found:
            return None
        held = found[self.lpar]
        self.assertEqual(
            {0x21010020: {'CUSTOM_GPU'}} if held else {},
            {p.drc_index: set(p.resource_classes) for p in held.values()},
        )
        return set(held)

    def test_active_instance_without_a_task_should_run(self):
        records = instance_records.NovaRecords()
        instance = self.instance()
        instance.vm_state = 'active'
        instance.save()

        self.assertEqual(
            {self.lpar: self.uuid}, records.running([self.lpar], 'host1')
        )
        self.assertEqual({}, records.running([self.lpar], 'host2'))
        for changes in (
            {'task_state': 'powering-off'},
            {'vm_state': 'stopped', 'task_state': None},
        ):
            for name, value in changes.items():
                setattr(instance, name, value)
            instance.save()
            self.assertEqual({}, records.running([self.lpar], 'host1'))

    def test_holdings_contain_resources_stored_at_claim(self):
        self.assertIsNone(self.holdings())
        instance = self.instance(HERE)
        self.assertEqual({HERE}, self.holdings())
        instance.destroy()
        self.assertEqual(set(), self.holdings())

    def test_instance_without_resources_holds_nothing(self):
        self.instance()
        self.assertEqual(set(), self.holdings())

    def test_instance_of_failed_build_holds_nothing(self):
        # Nova leaves its resources as they were.
        instance = self.instance(HERE)
        instance.host = None
        instance.save()
        self.assertEqual(set(), self.holdings())

    def test_moving_instance_holds_resources_of_both_sides(self):
        # 'accepted' and 'pre-migrating' may be of an evacuation.
        for status in (
            'accepted',
            'pre-migrating',
            'migrating',
            'post-migrating',
            'finished',
            'confirming',
            'reverting',
        ):
            for old, new in ((HERE, THERE), (THERE, HERE)):
                with self.subTest(status=status, old=old):
                    self.move(status, old, new)
                    self.assertEqual({HERE, THERE}, self.holdings())

    def test_instance_holds_nothing_by_a_move_that_is_over(self):
        over = ('error', 'failed', 'confirmed', 'reverted', 'done')
        for status in (*over, None):
            with self.subTest(status=status):
                self.move(status)
                self.assertEqual({THERE}, self.holdings())

    def test_revert_without_claim_lasts_until_source_has_the_instance(self):
        self.move('reverted', task='resize_reverting')
        self.assertEqual({HERE, THERE}, self.holdings())


class StaleTest(RecordsTestCase):
    """The LPAR is on host2; its instance is on host1."""

    def stale_lpars(self, host='host2'):
        found = instance_records.NovaRecords().stale_lpars(
            [self.lpar, uuidutils.generate_uuid().upper()], host
        )
        self.assertLessEqual(set(found), {self.lpar})
        return found.get(self.lpar)

    def test_lpar_of_living_instance_on_other_host_is_stale(self):
        self.assertIsNone(self.stale_lpars())
        instance = self.instance()
        self.assertEqual(
            slot_providers.StaleLpar(self.uuid, 'host1'), self.stale_lpars()
        )
        self.assertIsNone(self.stale_lpars('host1'))
        instance.host = None
        instance.save()
        self.assertIsNone(self.stale_lpars())
        instance.host = 'host1'
        instance.save()
        instance.destroy()
        self.assertIsNone(self.stale_lpars())

    def test_lpar_of_two_instances_is_not_stale_if_one_is_here(self):
        for uuid in partition.instance_uuids(self.lpar):
            self.uuid = uuid
            instance = self.instance()
        instance.host = 'host2'
        instance.save()
        self.assertIsNone(self.stale_lpars())

    def test_lpar_is_stale_only_while_its_instance_does_not_move(self):
        for status, task, expected in (
            ('finished', None, False),
            ('confirming', None, False),
            ('post-migrating', 'resize_migrated', False),
            ('reverted', 'resize_reverting', False),
            ('running', 'migrating', False),
            ('reverted', None, True),
            ('error', None, True),
            ('confirmed', None, True),
        ):
            for side in ('source_compute', 'dest_compute'):
                with self.subTest(status=status, task=task, side=side):
                    self.move(status, task=task, **{side: 'host2'})
                    self.assertEqual(expected, bool(self.stale_lpars()))

    def test_live_migration_may_have_brought_it(self):
        self.move(
            'error', dest_compute='host2', migration_type='live-migration'
        )
        self.assertFalse(self.stale_lpars().is_doubtful)
        for destination, expected in (('host2', True), ('host3', False)):
            with self.subTest(destination):
                self.mark(destination)
                self.assertEqual(expected, self.stale_lpars().is_doubtful)

    def test_live_migrations_may_still_bring_it(self):
        for status, is_marked, expected in (
            ('preparing', False, True),
            ('running', True, True),
            ('error', True, True),
            # It was refused.
            ('error', False, False),
            ('completed', False, False),
            ('failed', True, False),
        ):
            with self.subTest(status=status, is_marked=is_marked):
                self.move(
                    status,
                    dest_compute='host2',
                    migration_type='live-migration',
                )
                self.mark('host2' if is_marked else None)
                records = instance_records.NovaRecords()
                self.assertEqual(
                    expected, self.lpar in records.awaited('host2')
                )
                for host in ('host1', 'host3'):
                    self.assertEqual(frozenset(), records.awaited(host))

    def test_live_migration_of_server_that_is_evacuated_is_over(self):
        self.move(
            'running', dest_compute='host2', migration_type='live-migration'
        )
        self.evacuate()
        records = instance_records.NovaRecords()
        self.assertEqual(frozenset(), records.awaited('host2'))
        # The evacuation was refused, because its LPAR is there.
        self.mark('host2')
        self.assertEqual({self.lpar}, records.awaited('host2'))

    def evacuate(self):
        """Make the record of an evacuation."""
        objects.Migration(
            self.context,
            instance_uuid=self.uuid,
            status='error',
            dest_compute='host2',
            migration_type='evacuation',
        ).create()

    def test_evacuation_to_this_host_is_a_move(self):
        self.move(
            'pre-migrating',
            dest_compute='host2',
            migration_type='evacuation',
        )
        self.assertIsNone(self.stale_lpars())

    def test_move_between_other_hosts_is_not_waited_for(self):
        self.move('finished', source_compute='host3', dest_compute='host1')
        self.assertTrue(self.stale_lpars())


class AbandonedTest(RecordsTestCase):
    """The LPAR is on host2; its instance is on host1."""

    def test_lpar_of_evacuation_that_failed_is_abandoned(self):
        for status, kind, expected in (
            ('failed', 'evacuation', True),
            ('error', 'evacuation', True),
            ('done', 'evacuation', False),
            ('error', 'migration', False),
        ):
            with self.subTest(status=status, kind=kind):
                self.move(status, dest_compute='host2', migration_type=kind)
                records = instance_records.NovaRecords()
                found = records.abandoned([self.lpar], 'host2')
                self.assertEqual(expected, self.lpar in found)
                for host in ('host1', 'host3'):
                    self.assertEqual(
                        set(), records.abandoned([self.lpar], host)
                    )
                # It was not to come here.
                self.move(
                    status,
                    source_compute='host2',
                    dest_compute='host3',
                    migration_type=kind,
                )
                self.assertEqual(
                    set(), records.abandoned([self.lpar], 'host2')
                )

    def test_lpar_that_a_live_migration_has_brought_is_not_abandoned(self):
        self.move('error', dest_compute='host2', migration_type='evacuation')
        for destination, expected in (
            ('host3', {self.lpar}),
            ('host2', set()),
        ):
            self.mark(destination)
            records = instance_records.NovaRecords()
            self.assertEqual(expected, records.abandoned([self.lpar], 'host2'))


class EvacuatedTest(RecordsTestCase):
    """Instances were to be evacuated from host1."""

    def test_instances_are_found_that_may_have_lost_volumes(self):
        for status, host, state, task, expected in (
            # Cinder is being asked to unmap the volumes.
            ('pre-migrating', 'host1', 'active', 'rebuilding', False),
            ('failed', 'host1', 'error', None, False),
            # It was rebooted hard since then.
            ('failed', 'host1', 'active', None, None),
            ('done', 'host2', 'active', None, True),
            # It is back.
            ('done', 'host1', 'active', None, None),
            ('completed', 'host2', 'active', None, None),
        ):
            with self.subTest(status=status, host=host, state=state):
                self.move(
                    status, source_compute='host1', migration_type='evacuation'
                )
                instance = objects.Instance.get_by_uuid(
                    self.context, self.uuid
                )
                instance.update(
                    {'host': host, 'vm_state': state, 'task_state': task}
                )
                instance.save()
                found = instance_records.evacuated('host1')
                self.assertIs(expected, found.get(self.uuid))
                self.assertNotIn(
                    self.uuid, instance_records.evacuated('host2')
                )
        # What a user deletes may have left its LPAR.
        self.move('done', source_compute='host1', migration_type='evacuation')
        objects.Instance.get_by_uuid(self.context, self.uuid).destroy()
        self.assertIs(True, instance_records.evacuated('host1')[self.uuid])
