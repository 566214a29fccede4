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

"""What moves have left on a host, and what ends it."""

import dataclasses
import unittest

from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values
from tests.unit.tool.rules import test_differences as trees

SERVER = 'f0a1c2d3-0000-4000-8000-000000000001'
MIGRATION = 'c9a7a3c4-0000-4000-8000-000000000003'
LPAR = partition.lpar_uuid(SERVER)
FIRST, SECOND = values.INDEX, 0x21010021
ALLOW = f'openstack server set --auto-approve --state active {SERVER}'
REBOOT = f'openstack server reboot --hard {SERVER}'
DELETE = f'openstack resource provider allocation delete {MIGRATION}'
REMOVE = (
    'pvmctl lpar power-off -i id=7  # unless it is off',
    'pvmctl lpar delete -i id=7  # keep its disks',
    'restart nova-compute on this host',
)
SIZES = {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 10}
#: What the flavors of a resize within the host request.
OLD = {'VCPU': 1, 'MEMORY_MB': 512, 'CUSTOM_GPU': 1}
NEW = {'VCPU': 2, 'MEMORY_MB': 512, 'CUSTOM_GPU': 1}
OWNER = values.client(LPAR, name='instance-00000001', partition_id=7)
THERE = left_moves.Server('ACTIVE', None, 'host2')
HERE = left_moves.Server('ACTIVE', None, 'host1')
MOVED = left_moves.Migration(MIGRATION, SERVER, 'post-migrating')
IN_PLACE = dataclasses.replace(MOVED, is_in_place=True)


class LeftMovesTestCase(unittest.TestCase):
    """A migration from this host holds the first of two slots."""

    def setUp(self):
        super().setUp()
        self.owners = {FIRST: None, SECOND: None}
        self.consumers = {FIRST: MIGRATION}
        #: What consumers hold of the node itself.
        self.sizes = {MIGRATION: SIZES}
        self.stale_lpars = {}

    def host(self, **options):
        """Return this host."""
        tree = placement_tree.Tree(
            'host1',
            dataclasses.replace(trees.ROOT, consumers=self.sizes),
            tuple(
                trees.offered(index, consumers=trees.held(consumer))
                for index, consumer in self.consumers.items()
            ),
            moves=placement_tree.Moves(stale_lpars=self.stale_lpars),
        )
        found = [
            values.slot(drc_index=index, owner=owner)
            for index, owner in self.owners.items()
        ]
        return left_moves.Host(tree, found, **options)

    def find(self, server, migration=MOVED, **options):
        """Return the findings by slot."""
        return left_moves.judge_moves(
            self.host(**options),
            {migration.uuid: migration} if migration else {},
            {SERVER: server},
        )

    def assert_found(self, words, steps, server, migration=MOVED, **options):
        """Assert what is found of the first slot, and nothing of others."""
        found = self.find(server, migration, **options)
        self.assertEqual({FIRST: left_moves.SlotMove(words, steps)}, found)

    def assert_steps(self, steps, server):
        """Assert the steps for the first slot."""
        self.assertEqual(steps, self.find(server)[FIRST].steps)


class RestingServerTest(LeftMovesTestCase):
    """Nova is not at the server, whatever the status of its migration."""

    def test_allocation_nobody_needs_is_left_over(self):
        words = f'left over from a move of server {SERVER}'
        for changes in (
            *({'status': status} for status in ('ACTIVE', 'ERROR', 'SHUTOFF')),
            {'status': 'SHELVED_OFFLOADED'},
            {'host': None},
        ):
            server = dataclasses.replace(THERE, **changes)
            self.assert_found(words, (DELETE,), server)
        words = 'left over from a move of a deleted server'
        deleted = left_moves.Migration(MIGRATION)
        self.assert_found(words, (DELETE,), None, deleted)

    def test_allocation_of_server_that_nova_does_not_have_is_kept(self):
        for owner in (None, OWNER):
            self.owners[FIRST] = owner
            (finding,) = self.find(None).values()
            self.assertEqual(
                f'allocated to a move of server {SERVER}, which Nova does '
                'not have',
                finding.state,
            )
            (step,) = finding.steps
            self.assertIn('keep the allocations', step)

    def test_commands_name_the_cloud(self):
        command = 'openstack --os-cloud prod'
        for server, step in ((THERE, DELETE), (HERE, REBOOT)):
            (finding,) = self.find(server, openstack=command).values()
            self.assertEqual(
                (step.replace('openstack', command),), finding.steps
            )

    def test_allocation_that_a_hard_reboot_takes_is_kept(self):
        """The state is set only where Nova refuses the reboot."""
        words = f'allocated to a move of server {SERVER}, which needs a hard '
        for status, steps in (
            ('ACTIVE', (REBOOT,)),
            ('SHUTOFF', (REBOOT,)),
            ('PAUSED', (REBOOT,)),
            ('SUSPENDED', (REBOOT,)),
            ('ERROR', (REBOOT,)),
            ('RESCUE', (ALLOW, REBOOT)),
            ('SHELVED', (ALLOW, REBOOT)),
        ):
            with self.subTest(status):
                server = dataclasses.replace(HERE, status=status)
                self.assert_found(f'{words}reboot', steps, server)

    def test_allocation_is_left_over_once_the_server_has_its_own_here(self):
        # A device, or nothing but memory and processors
        for index, sizes in ((SECOND, {}), (None, {SERVER: SIZES})):
            self.setUp()
            self.sizes |= sizes
            if index:
                self.consumers[index] = SERVER
            self.assert_found(
                f'left over from a move of server {SERVER}', (DELETE,), HERE
            )

    def test_server_without_its_own_or_with_old_slots_is_rebooted(self):
        other = '5b1c2d3e-0000-4000-8000-000000000002'
        self.consumers[SECOND] = other
        self.sizes[other] = SIZES
        self.assert_steps((REBOOT,), HERE)
        self.consumers[SECOND] = SERVER
        self.owners[FIRST] = OWNER
        self.assert_steps((REBOOT,), HERE)

    def test_migration_with_several_slots_is_judged_as_a_whole(self):
        self.consumers[SECOND] = MIGRATION
        self.assertEqual({FIRST, SECOND}, {*self.find(THERE)})
        self.owners[SECOND] = OWNER
        found = self.find(THERE)
        self.assertEqual({FIRST, SECOND}, {*found})
        self.assertEqual(found[FIRST], found[SECOND])
        self.assertNotIn(DELETE, found[FIRST].steps)

    def test_lpars_with_other_slots_and_slots_that_are_gone_do_not_matter(
        self,
    ):
        self.owners[SECOND] = OWNER
        self.assert_steps((DELETE,), THERE)
        del self.owners[FIRST]
        self.assert_steps((DELETE,), THERE)


class OwnedSlotTest(LeftMovesTestCase):
    """A partition of this host owns the slot."""

    def setUp(self):
        super().setUp()
        self.owners[FIRST] = OWNER

    def stale_lpar(self, server, subject='allocated to a move of'):
        return (
            f'{subject} server {SERVER}, which is on {server.host}: its LPAR '
            'here is on the wrong side'
        )

    def test_lpar_goes_once_the_server_runs_on_its_host(self):
        steps = (f'once server {SERVER} runs on host2:', *REMOVE)
        self.assert_found(self.stale_lpar(THERE), steps, THERE)
        failed = dataclasses.replace(THERE, status='ERROR')
        self.assert_found(self.stale_lpar(THERE), (REBOOT, *steps), failed)

    def test_unknown_host_and_id_are_left_to_the_operator(self):
        server = left_moves.Server('SHELVED_OFFLOADED', None, None)
        begin = f'once server {SERVER} runs on its host:'
        self.assert_steps((begin, *REMOVE), server)
        self.owners[FIRST] = dataclasses.replace(OWNER, partition_id=None)
        delete = 'pvmctl lpar delete -i id=<id>  # keep its disks'
        self.assertIn(delete, self.find(THERE)[FIRST].steps)

    def test_allocation_of_slot_that_another_partition_has_is_kept(self):
        for owner in (
            values.client(values.OTHER_LPAR, name='db'),
            # Whose uuid is not reported
            values.client(None, name='db'),
            slots.Owner(slots.PartitionKind.VIOS, name='db'),
        ):
            self.owners[FIRST] = owner
            for given in ((THERE,), (None, left_moves.Migration(MIGRATION))):
                finding = self.find(*given)[FIRST]
                self.assertIn(f'but {owner} has slot 21010020', finding.state)
                (step,) = finding.steps
                self.assertIn('keep the allocation', step)

    def test_allocation_is_kept_if_a_second_partition_has_a_slot(self):
        self.consumers[SECOND] = MIGRATION
        self.owners[SECOND] = values.client(values.OTHER_LPAR, name='db')
        words = 'but partition db has slot 21010021'
        self.assertIn(words, self.find(THERE)[FIRST].state)

    def test_unknown_owners_keep_allocation(self):
        for owner in (None, OWNER):
            self.owners[FIRST] = owner
            self.assert_found(
                f'allocated to a move of server {SERVER}; the host does not '
                'tell who has its slots',
                ('run the command on the host, without stored responses',),
                THERE,
                owners_known=False,
            )
        # What the server needs, its host does not have to tell.
        (finding,) = self.find(HERE, owners_known=False).values()
        self.assertEqual((REBOOT,), finding.steps)

    def test_lpar_without_an_allocation_is_named(self):
        self.consumers = {}
        self.stale_lpars = {LPAR: slot_providers.StaleLpar(SERVER, 'host2')}
        self.assert_found(
            self.stale_lpar(THERE, 'owned by'),
            (f'once server {SERVER} runs on host2:', *REMOVE),
            THERE,
            None,
        )
        (finding,) = self.find(HERE, None).values()
        self.assertIn('allocations on another host', finding.state)
        (step,) = finding.steps
        self.assertIn('recorded on the wrong host', step)
        moving = dataclasses.replace(THERE, status='VERIFY_RESIZE')
        self.assertEqual((), self.find(moving, None)[FIRST].steps)

    def test_lpar_without_slots_is_no_finding(self):
        self.consumers = {}
        self.owners[FIRST] = None
        self.stale_lpars = {LPAR: slot_providers.StaleLpar(SERVER, 'host2')}
        self.assertEqual({}, self.find(THERE, None))


class OpenMoveTest(LeftMovesTestCase):
    """Nova is at the server, or its user has to decide."""

    waiting = left_moves.Server('VERIFY_RESIZE', None, 'host2')

    def test_server_that_awaits_its_user_moves(self):
        finished = dataclasses.replace(MOVED, status='finished')
        other = values.client(values.OTHER_LPAR, name='db')
        for owner, name in (
            (None, f'server {SERVER}'),
            (OWNER, 'instance-00000001'),
            (other, f'server {SERVER}'),
        ):
            self.owners[FIRST] = owner
            words = f'allocated to {name}, which moves'
            self.assert_found(words, (), self.waiting, finished)

    def assert_may_be_stuck(self, now, *given):
        finding = self.find(*given)[FIRST]
        words = f'allocated to server {SERVER}, which moves'
        self.assertEqual(words, finding.state)
        first, *commands = finding.steps
        self.assertTrue(first.startswith('nothing, as long as'), first)
        self.assertIn(f'({now})', first)
        self.assertIn('"Stuck servers"', first)
        self.assertEqual([ALLOW, REBOOT], commands)

    def test_server_with_a_task_or_decided_user_moves_or_is_stuck(self):
        task = 'resize_migrated'
        for host in ('host1', 'host2'):
            for status in ('ACTIVE', 'RESIZE', 'REVERT_RESIZE', 'ERROR'):
                server = left_moves.Server(status, task, host)
                self.assert_may_be_stuck(f'task {task}', server)
        for status in ('confirming', 'reverting'):
            decided = dataclasses.replace(MOVED, status=status)
            self.assert_may_be_stuck(
                f'migration {status}', self.waiting, decided
            )

    def test_soft_deleted_server_is_left_alone(self):
        for host in ('host1', 'host2'):
            self.assert_found(
                f'allocated to a move of server {SERVER}, which is '
                'soft-deleted',
                (),
                left_moves.Server('SOFT_DELETED', None, host),
            )


class ResizeInPlaceTest(LeftMovesTestCase):
    """The migration has the first slot, the server the second."""

    def setUp(self):
        super().setUp()
        self.consumers[SECOND] = SERVER
        self.sizes[SERVER] = SIZES | {'VCPU': 2}

    def steps(self, wants, migration=IN_PLACE):
        found = self.find(dataclasses.replace(HERE, wants=wants), migration)
        self.assertEqual({FIRST}, {*found})
        return found[FIRST].steps

    def test_flavor_tells_whether_migration_or_server_has_what_is_needed(self):
        self.assertEqual((REBOOT,), self.steps(OLD))
        self.assertEqual((DELETE,), self.steps(NEW))
        self.owners[FIRST] = OWNER
        self.assertEqual((REBOOT,), self.steps(NEW))

    def test_flavor_counts_only_after_the_last_move_within_the_host(self):
        # Nova would not take them, whatever the flavor.
        for changes in ({'is_in_place': False}, {'is_last': False}):
            migration = dataclasses.replace(IN_PLACE, **changes)
            self.assertEqual((DELETE,), self.steps(OLD, migration))

    def assert_unclear(self, wants):
        reboot, words = self.steps(wants)
        self.assertEqual(REBOOT, reboot)
        self.assertIn('keep the allocations', words)

    def test_flavor_that_is_neither_or_both_is_unclear(self):
        self.assert_unclear({})
        self.assert_unclear(OLD | {'VCPU': 3})
        # Disks do not tell flavors apart.
        for more in ({}, {'DISK_GB': 20}):
            self.sizes[SERVER] = SIZES | more
            self.assert_unclear(OLD | {'DISK_GB': 10})
        self.assert_unclear(OLD)

    def test_class_that_only_one_has_tells(self):
        self.consumers[FIRST], self.sizes[SERVER] = MIGRATION, SIZES
        del self.consumers[SECOND]
        self.assertEqual((REBOOT,), self.steps(OLD))
        self.assertEqual((DELETE,), self.steps({'VCPU': 1, 'MEMORY_MB': 512}))

    def test_amounts_that_are_equal_need_not_be_the_flavors(self):
        # A device profile, or a port, requests it.
        self.assertEqual((REBOOT,), self.steps({'VCPU': 1}))
        self.assertEqual((DELETE,), self.steps({'VCPU': 2}))


class SilentNovaTest(LeftMovesTestCase):
    def find_without_nova(self):
        return left_moves.describe_silence(self.host(), 'HTTP 503.')

    def test_silence_deletes_and_removes_nothing(self):
        state = f'allocated to {MIGRATION}; Nova does not tell whether it is a'
        step = "delete nothing before Nova's API answers. HTTP 503."
        self.assertEqual(
            {FIRST: left_moves.SlotMove(f'{state} move', (step,))},
            self.find_without_nova(),
        )
        self.consumers = {}
        self.owners[FIRST] = OWNER
        self.stale_lpars = {LPAR: slot_providers.StaleLpar(SERVER, 'host2')}
        (finding,) = self.find_without_nova().values()
        self.assertIn('delete nothing', ' '.join(finding.steps))

    def test_instances_with_their_slots_are_known(self):
        self.consumers = {FIRST: SERVER}
        self.owners[FIRST] = OWNER
        self.assertEqual({}, self.find_without_nova())


class UnexplainedConsumerTest(LeftMovesTestCase):
    def find_consumers(self):
        host = self.host()
        return left_moves.find_unexplained(host.tree, host.io_slots)

    def test_consumer_without_the_slot_at_its_lpar_is_unexplained(self):
        self.consumers[SECOND] = SERVER
        self.owners = {FIRST: OWNER, SECOND: OWNER}
        self.assertEqual({MIGRATION}, self.find_consumers())
        self.owners[SECOND] = None
        self.assertEqual({MIGRATION, SERVER}, self.find_consumers())
        del self.owners[SECOND]
        self.assertEqual({MIGRATION, SERVER}, self.find_consumers())

    def test_consumer_that_is_no_migration_is_no_finding(self):
        self.assertEqual({}, self.find(THERE, None))


class WantsTest(unittest.TestCase):
    def test_groups_replace_or_add_to_sizes(self):
        for extra_specs, expected in (
            (None, {}),
            ({'hw:x': '1'}, {}),
            ({'resources:VCPU': '0'}, {'VCPU': 0}),
            ({'resources1:VCPU': '1'}, {'VCPU': 3}),
            (
                {
                    'resources2:CUSTOM_GPU': '1',
                    'resources1:CUSTOM_GPU': '1',
                    'resources:CUSTOM_GPU': '1',
                    'trait1:CUSTOM_X': 'required',
                },
                {'CUSTOM_GPU': 3},
            ),
            ({'resources1:CUSTOM_GPU': 'many'}, {}),
        ):
            with self.subTest(extra_specs):
                flavor = {'vcpus': 2, 'ram': 512, 'extra_specs': extra_specs}
                self.assertEqual(
                    {'VCPU': 2, 'MEMORY_MB': 512} | expected,
                    left_moves.read_wants(flavor),
                )

    def test_flavor_without_sizes_wants_nothing(self):
        self.assertEqual(
            {'VCPU': 0, 'MEMORY_MB': 0}, left_moves.read_wants({})
        )
