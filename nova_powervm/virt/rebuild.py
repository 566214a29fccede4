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

"""Refuses rebuilds so that servers stay as they were.

After almost any error of a rebuild, nova-compute deletes the server's
allocations (``rebuild_instance``, ``except Exception``), and Placement does
not take back those of a one-time-use device. InstanceNotFound is the one error
after which it deletes nothing; but then it takes the server for deleted, and
leaves its task and the image that the API has recorded.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from nova.compute import vm_states
from nova.image import glance
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.virt import action_events
from nova_powervm.virt import nova_errors
from nova_powervm.virt import record_changes
from nova_powervm.virt import system_metadata

LOG = logging.getLogger(__name__)

#: Name of the event that records a refused rebuild.
EVENT = 'powervm_rebuild'


class RebuildRefused(nova_exception.InstanceNotFound):
    """The rebuild of a server is refused; the server stays as it was."""

    msg_fmt = 'The rebuild of instance %(instance_id)s is refused: %(reason)s'


def record_image(instance: Any) -> None:
    """Record the image from which the disk of an instance is made.

    Nova saves this with the rest of the instance. When it unshelves one, it
    builds it from an image that it deletes afterwards, and keeps the original
    one in its record: so does this.
    """
    if instance.vm_state == vm_states.SHELVED_OFFLOADED:
        return
    system_metadata.IMAGE.write(instance.system_metadata, instance.image_ref)


@contextlib.contextmanager
def refused_on_error(
    context: Any, instance: Any, *, evacuate: bool
) -> Iterator[None]:
    """Refuse the rebuild that this block checks, if the check fails.

    :param context: The context of the request.
    :param instance: nova.objects.Instance.
    :param evacuate: Whether this is an evacuation, without an old LPAR on
        this host.
    :raises RebuildRefused: A rebuild is refused.
    :raises nova.exception.InstanceDeployFailure: An evacuation is refused;
        Nova has to remove its allocations on this host.
    """
    try:
        yield
    except Exception as error:
        # After any other error Nova would set a running server to ERROR.
        if not evacuate:
            raise _refuse(context, instance, error) from error
        if isinstance(error, exception.PowerVMError):
            raise nova_exception.InstanceDeployFailure(
                reason=nova_errors.for_users(error)
            ) from error
        raise


@contextlib.contextmanager
def refused_if_stop_fails(instance: Any) -> Iterator[None]:
    """Refuse the rebuild of an instance if this block cannot stop it.

    The stop is the first step of a rebuild, after the checks. For an instance
    that is not being rebuilt, pass errors on.

    :raises RebuildRefused: The block raised one of the driver's errors.
    """
    try:
        yield
    except exception.PowerVMError as error:
        if instance.task_state not in task_states.rebuild_states:
            raise
        raise _refuse(_find_context(instance), instance, error) from error


def _find_context(instance: Any) -> Any:
    """Return a context of the request for the last action on an instance.

    Nova passes none to a stop. Without the request, the refusal gets no event.
    """
    context = nova_context.get_admin_context()
    try:
        (action,) = objects.InstanceActionList.get_by_instance_uuid(
            context, instance.uuid, limit=1
        )
    except Exception:
        # After an error of the database, Nova would delete the allocations.
        LOG.exception(
            'The request for the rebuild is not known, so its action gets '
            'no event',
            instance=instance,
        )
    else:
        context.request_id = action.request_id
    return context


def _refuse(context: Any, instance: Any, error: Exception) -> RebuildRefused:
    """Make Nova's record of a server what it was, and return the exception.

    Nova records neither a fault nor a failed event, so this does.

    :raises nova.exception.UnexpectedDeletingTaskStateError: The server is
        being deleted meanwhile, which Nova goes on with.
    """
    reason = nova_errors.for_users(error)
    LOG.error('The rebuild is refused: %s', error, instance=instance)
    _put_back_image(context, instance)
    refused = RebuildRefused(instance_id=instance.uuid, reason=reason)
    try:
        record_changes.end_refused_rebuild(instance)
        compute_utils.add_instance_fault_from_exc(
            context, instance, refused, sys.exc_info()
        )
    except nova_exception.UnexpectedDeletingTaskStateError:
        raise
    except Exception:
        # Any error of the database: the refusal matters more.
        LOG.exception(
            'The server is as it was, but Nova may show it in REBUILD. Run '
            '`openstack server set --state active %s`',
            instance.uuid,
            instance=instance,
        )
    action_events.record_failure(context, instance, EVENT, refused)
    return refused


def _put_back_image(context: Any, instance: Any) -> None:
    """Put the image of the disk back into the record, without saving it."""
    old = system_metadata.IMAGE.read(instance.system_metadata)
    if not old or old == instance.image_ref:
        return
    try:
        known = glance.API().get(context, old)
    except Exception as error:
        # Nova passes on any error of Glance's client; the refusal matters
        # more than the properties.
        LOG.warning(
            'The properties of the old image %(image)s are lost: %(error)s',
            {'image': old, 'error': error},
            instance=instance,
        )
        known = {}
    record_changes.put_back_image(instance, old, known)
