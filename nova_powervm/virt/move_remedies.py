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

"""How an interrupted move is ended in Nova's records and in Placement."""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import power_state
from nova.compute import rpcapi
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.network import neutron
from oslo_log import log as logging

from nova_powervm.lpar import interrupted_move
from nova_powervm.lpar.interrupted_move import Remedy
from nova_powervm.virt import move_allocations
from nova_powervm.virt import move_records

LOG = logging.getLogger(__name__)

_FAULT = (
    'The move of the server to host %(host)s was interrupted. Reboot the '
    'server hard: it is built there'
)
_SOURCE_FAULT = (
    'The move of the server to host %(host)s was interrupted. Reboot the '
    'server hard: it stays on its host, with its flavor and devices'
)
_REVERT_FAULT = (
    'The revert of the move of the server to host %(host)s was interrupted. '
    'Reboot the server hard: it has its old flavor and devices again'
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Interrupted:
    """An interrupted move: its records, and the row that it fits."""

    context: Any
    migration: Any
    instance: Any
    row: interrupted_move.Row

    def save(self) -> None:
        """Save the instance, unless somebody continues the move."""
        self.instance.save(expected_task_state=list(self.row.tasks))


class MoveRemedies:
    """Changes the records of interrupted moves.

    Each remedy starts with what does no harm if it is repeated: a nova-compute
    that is killed here finds the move interrupted at its next start.

    :param virtapi: Nova's VirtAPI.
    :param host: This host, as in ``instance.host``.
    """

    def __init__(self, virtapi: Any, host: str) -> None:
        self._allocations = move_allocations.MoveAllocations(virtapi)
        self._host = host
        self._network = neutron.API()
        self._by_remedy: Mapping[Remedy, Callable[[_Interrupted], None]] = {
            Remedy.TAKE_BACK: self._take_back,
            Remedy.FAIL_AT_SOURCE: self._fail_at_source,
            Remedy.FAIL: self._fail,
            Remedy.FAIL_UNFINISHED: self._fail_unfinished,
            Remedy.FAIL_REVERT: self._fail_revert,
            Remedy.AWAIT_DECISION: self._await_decision,
            Remedy.REPEAT_REVERT: self._repeat_revert,
            Remedy.FINISH_REVERT: self._finish_revert,
            Remedy.REPEAT_CONFIRM: self._repeat_confirm,
            Remedy.CONFIRM: self._confirm,
        }

    def apply(
        self, migration: Any, instance: Any, row: interrupted_move.Row
    ) -> None:
        """End a move.

        :param migration: Its record.
        :param instance: Its instance.
        :param row: The situation, with its remedy.
        :raises nova.exception.NovaException: Nova or Placement did not answer.
        :raises nova.exception.UnexpectedTaskStateError: Somebody continues the
            move.
        """
        LOG.warning(
            'The move from host %(source)s to host %(destination)s was '
            'interrupted (migration %(migration)s, status %(status)s, task '
            '%(task)s): %(remedy)s.',
            {
                'source': migration.source_compute,
                'destination': migration.dest_compute,
                'migration': migration.uuid,
                'status': migration.status,
                'task': instance.task_state,
                'remedy': _WORDS[row.remedy],
            },
            instance=instance,
        )
        self._by_remedy[row.remedy](
            _Interrupted(
                nova_context.get_admin_context(), migration, instance, row
            )
        )

    def _take_back(self, move: _Interrupted) -> None:
        move.instance.task_state = None
        move.save()
        self._allocations.give_back(
            move.context, move.migration, move.instance
        )
        _set_status(move.migration, move_records.FAILED)

    def _fail_at_source(self, move: _Interrupted) -> None:
        self._allocations.give_back(
            move.context, move.migration, move.instance
        )
        _set_error(move, _SOURCE_FAULT, move.migration.dest_compute)
        _set_status(move.migration, move_records.FAILED)

    def _fail(self, move: _Interrupted) -> None:
        """Do what Nova does if the destination cannot finish a move.

        But keep the new flavor: the allocations on this host are for it.
        """
        self._allocations.delete(move.context, move.migration)
        _set_status(move.migration, 'error')
        _set_error(move, _FAULT, self._host)

    def _fail_unfinished(self, move: _Interrupted) -> None:
        self._network.migrate_instance_finish(
            move.context, move.instance, move.migration, None
        )
        move.instance.apply_migration_context()
        self._fail(move)

    def _fail_revert(self, move: _Interrupted) -> None:
        """Do what Nova does if the source cannot finish a revert."""
        self._allocations.give_back(
            move.context, move.migration, move.instance
        )
        back = move.migration.obj_clone()
        back.dest_compute = move.migration.source_compute
        self._network.migrate_instance_finish(
            move.context, move.instance, back, None
        )
        _forget_flavors(move.instance)
        _set_error(move, _REVERT_FAULT, move.migration.dest_compute)
        _set_status(move.migration, 'error')

    def _await_decision(self, move: _Interrupted) -> None:
        _set_status(move.migration, 'finished')
        move.instance.vm_state = vm_states.RESIZED
        move.instance.task_state = None
        move.save()

    def _repeat_revert(self, move: _Interrupted) -> None:
        """Send Nova's message to this host again.

        Nobody may confirm the move instead: the LPAR may be gone.
        """
        rpcapi.ComputeAPI().revert_resize(
            move.context, move.instance, move.migration, self._host, None
        )

    def _finish_revert(self, move: _Interrupted) -> None:
        rpcapi.ComputeAPI().finish_revert_resize(
            move.context, move.instance, move.migration, self._host, None
        )

    def _repeat_confirm(self, move: _Interrupted) -> None:
        """Send Nova's message to this host again.

        Nobody may revert the move instead: the LPAR of the source may be gone,
        and the root disk may have grown.
        """
        rpcapi.ComputeAPI().confirm_resize(
            move.context, move.instance, move.migration, self._host
        )

    def _confirm(self, move: _Interrupted) -> None:
        """Do what Nova does once the source has given up its claim."""
        self._allocations.delete(move.context, move.migration)
        move.instance.drop_migration_context()
        _forget_flavors(move.instance)
        is_off = move.instance.power_state == power_state.SHUTDOWN
        move.instance.vm_state = (
            vm_states.STOPPED if is_off else vm_states.ACTIVE
        )
        move.instance.task_state = None
        move.save()


_WORDS = {
    Remedy.TAKE_BACK: 'the server stays on the source',
    Remedy.FAIL_AT_SOURCE: (
        'the server is in ERROR on the source; reboot it hard'
    ),
    Remedy.FAIL: 'the server is in ERROR; reboot it hard',
    Remedy.FAIL_UNFINISHED: 'the server is in ERROR; reboot it hard',
    Remedy.FAIL_REVERT: 'the server is in ERROR on the source; reboot it hard',
    Remedy.AWAIT_DECISION: 'confirm or revert it',
    Remedy.REPEAT_REVERT: 'the revert is repeated',
    Remedy.FINISH_REVERT: 'the revert is continued',
    Remedy.REPEAT_CONFIRM: 'the confirmation is repeated',
    Remedy.CONFIRM: 'the server is confirmed',
}


def _set_status(migration: Any, status: str) -> None:
    migration.status = status
    migration.save()


def _set_error(move: _Interrupted, words: str, host: str) -> None:
    """Let the user see what to do."""
    move.instance.vm_state = vm_states.ERROR
    move.instance.task_state = None
    move.save()
    compute_utils.add_instance_fault_from_exc(
        move.context,
        move.instance,
        nova_exception.NovaException(words % {'host': host}),
    )


def _forget_flavors(instance: Any) -> None:
    """Forget what Nova kept of the move with the instance."""
    instance.old_flavor = None
    instance.new_flavor = None
    instance.system_metadata.pop('old_vm_state', None)
