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

"""Evacuations that ended with nova-compute, or that Nova has not ended.

Those to this host are given up in the first cycle. Those from this host whose
instances have come back are completed before Nova cleans up after them.
"""

from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.objects import fields
from oslo_log import log as logging

from nova_powervm.lpar import partition
from nova_powervm.virt import record_changes

LOG = logging.getLogger(__name__)

#: The status of a migration since its claim on the new host.
_CLAIMED = 'pre-migrating'
#: That which Nova gives it when the old host starts, even if the new one has
#: not ended it.
_CLEANED = 'completed'
#: That of an evacuation whose instance was recorded on the new host.
_DONE = 'done'

_FAULT = (
    'nova-compute of the new host ended during the evacuation. Evacuate the '
    'server again'
)


def complete_returned(host: str) -> None:
    """Complete the evacuations whose instances are back on this host.

    Nova cleans up after evacuations when nova-compute of the old host starts.
    If it did not end while its host was given up, that happens at a later
    start, and concerns the LPAR with which the instance has come back. Call
    this before.

    :param host: This host, the old one.
    :raises nova.exception.NovaException: Nova's database failed.
    """
    context = nova_context.get_admin_context()
    for migration in objects.MigrationList.get_by_filters(
        context,
        {
            'source_compute': host,
            'status': [_DONE],
            'migration_type': fields.MigrationType.EVACUATION,
        },
    ):
        for instance in objects.InstanceList.get_by_filters(
            context,
            {'uuid': [migration.instance_uuid], 'host': host},
            expected_attrs=[],
        ):
            LOG.warning(
                'Instance %(uuid)s has come back since its evacuation to host '
                '%(destination)s; marking the evacuation as completed.',
                {
                    'uuid': instance.uuid,
                    'destination': migration.dest_compute,
                },
            )
            record_changes.set_evacuation_completed(migration)


class InterruptedEvacuations:
    """Gives up the evacuations that nova-compute was killed in.

    Nova ends interrupted builds and rebuilds of a host's own instances when
    nova-compute starts. An instance that is being evacuated still belongs to
    its old host: Nova would leave its devices claimed on the new one, and the
    server without an end of its task.

    :param virtapi: Nova's VirtAPI.
    :param note_leftover: Called with the uuid of each LPAR to remove.
    """

    def __init__(
        self, virtapi: Any, note_leftover: Callable[[str], None]
    ) -> None:
        self._virtapi = virtapi
        self._note_leftover = note_leftover

    def give_up(self, host: str, node_uuid: str) -> None:
        """Do what Nova does if a build of an evacuation fails.

        Call this only while nova-compute starts: later, evacuations may be in
        progress. Start with what matters least, so that the next start
        repeats what was not completed.

        :param host: This host.
        :param node_uuid: The uuid of its compute node.
        :raises nova.exception.NovaException: Nova's database or Placement
            failed.
        """
        context = nova_context.get_admin_context()
        for migration in _interrupted(host):
            self._give_up(context, migration, host, node_uuid)

    def _give_up(
        self, context: Any, migration: Any, host: str, node_uuid: str
    ) -> None:
        uuid = migration.instance_uuid
        try:
            instance = objects.Instance.get_by_uuid(context, uuid)
        except nova_exception.InstanceNotFound:
            # Nova has deleted its allocations, but knows of no LPAR here.
            instance = None
        if instance and instance.host == host:
            # The build succeeded.
            return
        if migration.status == _CLEANED and (
            _has_newer(context, migration)
            or not _is_waiting(instance, migration)
        ):
            return
        LOG.warning(
            'nova-compute ended during the evacuation of instance %s to this '
            'host; removing what was built.',
            uuid,
        )
        self._note_leftover(partition.lpar_uuid(uuid))
        if instance:
            record_changes.remove_evacuation_claims(
                context, self._virtapi.reportclient, instance, node_uuid
            )
            if not _has_newer(context, migration):
                _set_error(context, instance)
        record_changes.set_evacuation_failed(migration)


def _interrupted(host: str) -> list[Any]:
    """Return the migrations of evacuations that were in progress."""
    return [
        migration
        for migration in objects.MigrationList.get_by_filters(
            # Nova deletes the migrations of an instance with it.
            nova_context.get_admin_context().elevated(read_deleted='yes'),
            {
                'host': host,
                'status': [_CLAIMED, _CLEANED],
                'migration_type': fields.MigrationType.EVACUATION,
            },
        )
        if migration.dest_compute == host
    ]


def _is_waiting(instance: Any, migration: Any) -> bool:
    """Return whether an instance still waits for the end of an evacuation."""
    return bool(
        instance
        and instance.host == migration.source_compute
        and instance.task_state in task_states.rebuild_states
    )


def _has_newer(context: Any, migration: Any) -> bool:
    """Return whether the instance has moved since, or was evacuated again."""
    return any(
        other.id > migration.id
        for other in objects.MigrationList.get_by_filters(
            context, {'instance_uuid': migration.instance_uuid}
        )
    )


def _set_error(context: Any, instance: Any) -> None:
    """Let the user see that the evacuation has failed."""
    fault = nova_exception.NovaException(_FAULT)
    compute_utils.add_instance_fault_from_exc(context, instance, fault)
    record_changes.set_error_of_evacuation(instance)
