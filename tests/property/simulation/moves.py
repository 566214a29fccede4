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

"""What Nova's manager does with resizes and cold migrations.

The driver's own methods are called, in the order and with the records of
Nova's manager.
"""

import contextlib

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states

from nova_powervm.lpar import operations
from tests.property.simulation import cloud
from tests.property.simulation import records

_NO_PORTS = ()


def _context():
    return nova_context.get_admin_context()


class Moves(cloud.Nova):
    """Nova with moves between its hosts and within them."""

    def move_of(self, instance):
        """Return the last move of an instance."""
        moves = [
            migration
            for migration in self.database.of(instance)
            if migration.kind == records.RESIZE
        ]
        return moves[-1] if moves else None

    def resize(self, instance, node, wish, troubles=()):
        """Resize an instance, or migrate it, until a user has to confirm.

        :param troubles: Pairs of a host and the trouble of its process.
        :returns: Whether it waits for this; None if Placement has no room.
        """
        wanted = self.candidate(node, wish.groups)
        if wanted is None:
            return None
        migration = self.database.add_migration(
            instance, node, records.RESIZE, wish
        )
        self.placement.move(instance.uuid, migration.uuid)
        self.placement.allocate(instance.uuid, wanted)
        instance.task, instance.new = task_states.RESIZE_PREP, wish
        lpar = instance.node.host.lpars[instance.lpar]
        instance.is_stopped = lpar.state == 'not activated'
        with self._all_troubled(troubles):
            return (
                self._prepare(migration)
                and self._leave(migration)
                and self._arrive(migration)
            )

    @contextlib.contextmanager
    def _all_troubled(self, troubles):
        with contextlib.ExitStack() as stack:
            for node, trouble in troubles:
                stack.enter_context(self.troubled(node, trouble))
            yield

    def _prepare(self, migration):
        """Claim the new devices on the destination."""
        instance, node = migration.instance, migration.target

        def claim():
            allocations = node.compute.allocations_of(instance.uuid)
            instance.context = records.context_of(
                migration, node.compute.tracker.claim(allocations)
            )
            self.update(node)

        done = self.attempt(node, claim)
        if not done and node.compute:
            self._give_back(migration)
            self._end(migration, 'error', 'error')
        return done

    def _give_back(self, migration):
        """Give the instance the allocations that the move holds."""
        if migration.uuid in self.placement.allocations:
            self.placement.free(migration.instance.uuid)
            self.placement.move(migration.uuid, migration.instance.uuid)

    def _end(self, migration, status, state):
        instance = migration.instance
        migration.status, instance.state = status, state
        instance.task, instance.is_stopped = None, False

    def _leave(self, migration):
        """Stop the instance on the source."""
        instance, node = migration.instance, migration.source
        migration.status = 'migrating'
        instance.task = task_states.RESIZE_MIGRATING
        with self.burning_nothing():
            done = self.attempt(
                node,
                lambda: node.compute.driver.migrate_disk_and_power_off(
                    _context(),
                    instance.record,
                    '127.0.0.1',
                    instance.new.flavor(instance.specs_of(instance.new)),
                    _NO_PORTS,
                    instance.blank_disks(),
                    60,
                    10,
                ),
            )
        if done:
            migration.status, migration.has_left = 'post-migrating', True
            instance.old, instance.node = instance.wish, migration.target
            instance.task = task_states.RESIZE_MIGRATED
        elif node.compute:
            self.require(
                isinstance(self.failure, nova_exception.InstanceFaultRollback),
                'a move that cannot begin is refused',
                self.failure,
            )
            self._give_back(migration)
            self._end(migration, 'error', 'active')
        return done

    def _arrive(self, migration):
        """Continue the instance on the destination."""
        instance, node = migration.instance, migration.target
        instance.swap_mb = instance.new.swap_mb
        if node.compute is None:
            return False
        done = self.attempt(node, lambda: self._finish(migration))
        if done:
            self._end(migration, 'finished', 'resized')
        elif node.compute:
            instance.wish = instance.old
            self._end(migration, 'error', 'error')
            self.placement.free(migration.uuid)
        return done

    def _finish(self, migration):
        instance, node = migration.instance, migration.target
        instance.wish = instance.new
        instance.resources = instance.context.new_resources
        instance.task = task_states.RESIZE_FINISH
        allocations = node.compute.client.get_allocs_for_consumer(
            _context(), instance.uuid
        )
        record = instance.record
        with self.serving(instance):
            node.compute.driver.finish_migration(
                _context(),
                migration.record(),
                record,
                '',
                _NO_PORTS,
                objects.ImageMeta.from_dict({}),
                True,
                allocations['allocations'],
                instance.blank_disks(),
                not instance.is_stopped,
            )
        record.save()

    def confirm(self, instance, trouble=None):
        """Confirm a move, which the source does.

        If the state was set while an earlier move awaited this, Nova confirms
        that one.
        """
        migration = self.database.first(instance, 'finished')
        migration.status = 'confirming'
        with self.troubled(migration.source, trouble):
            return self._confirm(migration)

    def _confirm(self, migration):
        instance, node = migration.instance, migration.source
        done = self.attempt(node, lambda: self._clean_source(migration))
        if node.compute:
            self.placement.free(migration.uuid)
            instance.old = instance.new = None
            self._end(
                migration,
                'confirmed' if done else 'error',
                'active' if done else 'error',
            )
        return done

    def _clean_source(self, migration):
        instance, node = migration.instance, migration.source
        if instance.context is None:
            raise nova_exception.NovaException('no migration context')
        record = instance.record
        node.compute.driver.confirm_migration(
            _context(), migration.record(), record, _NO_PORTS
        )
        migration.status = 'confirmed'
        node.compute.tracker.release(instance.context.old_resources)
        self.update(node)
        record.drop_migration_context()
        record.save()

    def revert(self, instance, troubles=()):
        """Revert a move, which the destination begins."""
        migration = self.database.first(instance, 'finished')
        migration.status = 'reverting'
        instance.task = task_states.RESIZE_REVERTING
        with self._all_troubled(troubles):
            return self._clean_target(migration) and self._return(migration)

    def _clean_target(self, migration):
        instance, node = migration.instance, migration.target

        def work():
            # Nova says so if it cannot ask whether the storage is shared.
            node.compute.driver.destroy(
                _context(), instance.record, _NO_PORTS, None, True
            )
            migration.status = 'reverted'
            node.compute.tracker.release(instance.context.new_resources)
            self.update(node)
            instance.resources = instance.context.old_resources

        done = self.attempt(node, work)
        if not done and node.compute:
            is_refused = isinstance(
                self.failure, nova_exception.InstanceFaultRollback
            )
            self._end(migration, 'error', 'active' if is_refused else 'error')
        return done

    def _return(self, migration):
        instance, node = migration.instance, migration.source
        if node.compute is None:
            return False

        def work():
            instance.swap_mb = instance.old.swap_mb
            instance.wish, instance.node = instance.old, node
            self._give_back(migration)
            self._put_back(migration)
            instance.context = None

        done = self.attempt(node, work)
        if node.compute:
            instance.old = instance.new = None
            self._end(
                migration,
                'reverted' if done else 'error',
                'active' if done else 'error',
            )
        return done

    def _put_back(self, migration):
        instance = migration.instance
        record = instance.record
        with self.serving(instance):
            instance.node.compute.driver.finish_revert_migration(
                _context(),
                record,
                _NO_PORTS,
                migration.record(),
                instance.blank_disks(),
                not instance.is_stopped,
            )
        record.save()

    def recover(self, instance, trouble=None):
        """Reboot an instance hard, as its user does when it is in ERROR."""
        node, record = instance.node, instance.record

        def work():
            node.compute.driver.reboot(
                _context(), record, None, 'HARD', instance.blank_disks()
            )
            record.save()

        with self.troubled(node, trouble), self.serving(instance):
            done = self.attempt(node, work)
        instance.state = 'active' if done else 'error'
        return done

    def set_state(self, instance, state):
        """Set the state of an instance, as an administrator does.

        Nova keeps its migration as it is.
        """
        instance.state, instance.task = state, None

    def end_finished(self, migration):
        """End a move that awaits no user, as a confirmation window does."""
        instance = migration.instance
        self.require(
            (instance.state, instance.task) != ('resized', None),
            'a move is confirmed before its window is over',
            instance,
        )
        migration.status = 'error'

    def delete(self, instance, trouble=None):
        """Delete an instance; Nova confirms its move first."""
        migration = self.database.first(instance, 'finished', 'confirming')
        if instance.state == 'resized' and migration:
            if migration.source.compute is None:
                return
            instance.task = task_states.DELETING
            migration.status = 'confirming'
            if not self._confirm(migration):
                return
        super().delete(instance, trouble)

    def left_allocations(self):
        """Return the moves of instances that are gone, with allocations."""
        return [
            migration
            for migration in self.database.migrations
            if migration.uuid in self.placement.allocations
            and migration.instance.state == 'gone'
            and not any(
                migration.instance.lpar in node.host.lpars
                for node in self.nodes
            )
        ]

    def _init_instance(self, node, instance):
        """Do what Nova does for an instance while nova-compute starts."""
        if instance.task == task_states.RESIZE_PREP:
            instance.task = None
        if instance.task == task_states.RESIZE_MIGRATING:
            self.attempt(node, lambda: self._put_back(self.move_of(instance)))
            if node.compute is None:
                return
            instance.task = None
        with self.serving(instance):
            resumed = self.attempt(
                node, lambda: self._start(operations.START, instance)
            )
        if instance.task and not resumed and node.compute:
            instance.state = 'error'
