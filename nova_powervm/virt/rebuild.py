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

"""Refuses rebuilds so that the server continues as it was.

If the driver asks for it, Nova restores the state of the server, but two
actions of Nova would harm the server later: the API has already recorded the
new image, and nova-compute deletes the allocations after the refusal. This
module undoes both.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import utils
from nova.compute import task_states
from nova.image import glance
from oslo_log import log as logging

from nova_powervm import exception

LOG = logging.getLogger(__name__)

#: Key of an instance's system metadata for the image of its disk.
IMAGE_KEY = 'powervm_image_ref'


@dataclasses.dataclass(frozen=True, slots=True)
class _LostAllocations:
    """Allocations that Nova deletes after a refused rebuild."""

    instance: str
    host: str
    project: str
    user: str
    allocations: Any

    @property
    def command(self) -> str:
        """The command that recreates the allocations, for an administrator.

        ``nova-manage placement heal_allocations`` cannot do this: it allocates
        everything from the compute node's own provider.
        """
        held = [
            f'--allocation rp={uuid},{name}={amount}'
            for uuid, record in sorted(self.allocations.items())
            for name, amount in sorted(record['resources'].items())
        ]
        return ' '.join(
            [
                'openstack --os-placement-api-version 1.8 resource provider '
                'allocation set',
                f'--project-id {self.project} --user-id {self.user}',
                *held,
                self.instance,
            ]
        )


def record_image(instance: Any) -> None:
    """Record the image from which the disk of an instance is made.

    Nova saves this with the rest of the instance.
    """
    instance.system_metadata[IMAGE_KEY] = instance.image_ref


class RefusedRebuilds:
    """Undoes what Nova does to servers whose rebuild is refused.

    :param virtapi: Nova's VirtAPI.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi
        # By instance uuid: the next update, in any thread, recreates them.
        self._lost: dict[str, _LostAllocations] = {}
        # By instance uuid: context and allocations of a rebuild in progress.
        self._started: dict[str, tuple[Any, Any]] = {}

    @contextlib.contextmanager
    def refuse_on_error(
        self,
        context: Any,
        instance: Any,
        allocations: Any,
        *,
        evacuate: bool,
    ) -> Iterator[None]:
        """Refuse the rebuild that this block checks, if the check fails.

        :param context: The context of the request.
        :param instance: nova.objects.Instance.
        :param allocations: As Nova passed them to rebuild.
        :param evacuate: Whether this is an evacuation, without an old LPAR on
            this host.
        :raises nova.exception.InstanceFaultRollback: A rebuild is refused.
        :raises nova.exception.InstanceDeployFailure: An evacuation is
            refused.
        """
        try:
            yield
        except Exception as error:
            # After any other error Nova would set a running server to ERROR.
            if not evacuate:
                raise self.refuse(
                    context, instance, allocations, error
                ) from error
            if isinstance(error, exception.PowerVMError):
                raise nova_exception.InstanceDeployFailure(
                    reason=error.summary
                ) from error
            raise

    def record_start(
        self, context: Any, instance: Any, allocations: Any
    ) -> None:
        """Record that Nova starts a rebuild, whose first step is a stop.

        Until the guest is stopped, the rebuild can still be refused.

        :param context: The context of the request.
        :param instance: nova.objects.Instance.
        :param allocations: As Nova passed them to rebuild.
        """
        self._started[instance.uuid] = context, allocations

    @contextlib.contextmanager
    def refuse_if_stop_fails(self, instance: Any) -> Iterator[None]:
        """Refuse the rebuild of an instance if this block cannot stop it.

        For an instance that is not being rebuilt, pass errors on.

        :raises nova.exception.InstanceFaultRollback: The block raised one of
            the driver's errors.
        """
        started = self._started.pop(instance.uuid, None)
        try:
            yield
        except exception.PowerVMError as error:
            if started and instance.task_state in task_states.rebuild_states:
                raise self.refuse(
                    started[0], instance, started[1], error
                ) from error
            raise

    def refuse(
        self,
        context: Any,
        instance: Any,
        allocations: Any,
        error: Exception,
    ) -> nova_exception.InstanceFaultRollback:
        """Return the exception after which a server stays as it was.

        :param context: The context of the request.
        :param instance: nova.objects.Instance; its image is restored.
        :param allocations: As Nova passed them to rebuild.
        :param error: The reason for the refusal.
        """
        reason = (
            error.summary
            if isinstance(error, exception.PowerVMError)
            else str(error)
        )
        LOG.error('The rebuild is refused: %s', error, instance=instance)
        if allocations:
            self._lost[instance.uuid] = _LostAllocations(
                instance.uuid,
                instance.host,
                instance.project_id,
                instance.user_id,
                allocations,
            )
        _restore_image(context, instance)
        return nova_exception.InstanceFaultRollback(
            nova_exception.InstanceDeployFailure(reason=reason)
        )

    def restore_allocations(self) -> None:
        """Recreate the allocations that Nova has deleted.

        Call this at the start of each update of the provider tree. Nova makes
        one as soon as the server has its old state again; before that, Nova
        may not have deleted the allocations yet. If Placement or Nova does
        not answer, the next update tries again; until then, a device in use
        may be offered.
        """
        for lost in [*self._lost.values()]:
            self._restore_one(lost)

    def _restore_one(self, lost: _LostAllocations) -> None:
        context = nova_context.get_admin_context()
        try:
            # An instance that was deleted or moved holds nothing here.
            instance = objects.Instance.get_by_uuid(
                context, lost.instance, expected_attrs=[]
            )
            if instance.task_state in task_states.rebuild_states:
                return
            done = instance.host != lost.host or self._put_allocations(
                context, lost
            )
        except nova_exception.InstanceNotFound:
            done = True
        except Exception as error:
            # Whatever Placement or the database raises, an update of the
            # provider tree must not fail because of one instance.
            LOG.warning(
                'The allocations of instance %(instance)s cannot be recreated '
                'now; the next cycle tries again: %(error)s',
                {'instance': lost.instance, 'error': error},
            )
            return
        self._lost.pop(lost.instance, None)
        if not done:
            LOG.error(
                'The rebuild of instance %(instance)s was refused. Nova has '
                'deleted its allocations, and they could not be recreated. '
                'Run `%(command)s`.',
                {'instance': lost.instance, 'command': lost.command},
            )

    def _put_allocations(self, context: Any, lost: _LostAllocations) -> bool:
        client = self._virtapi.reportclient
        present = client.get_allocs_for_consumer(context, lost.instance)
        if present['allocations']:
            return True
        return bool(
            client.put_allocations(
                context,
                lost.instance,
                {
                    'allocations': {
                        uuid: {'resources': dict(held['resources'])}
                        for uuid, held in lost.allocations.items()
                    },
                    'project_id': lost.project,
                    'user_id': lost.user,
                    'consumer_generation': None,
                },
            )
        )


def _restore_image(context: Any, instance: Any) -> None:
    """Restore the image of the disk in Nova's record of the instance."""
    metadata = instance.system_metadata
    old = metadata.get(IMAGE_KEY)
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
    for key in list(metadata):
        if key.startswith(utils.SM_IMAGE_PROP_PREFIX):
            del metadata[key]
    metadata.update(
        utils.get_system_metadata_from_image(known, instance.flavor),
        image_base_image_ref=old,
    )
    instance.image_ref = old
    # The driver refuses images that have these.
    instance.kernel_id = instance.ramdisk_id = ''
    try:
        instance.save()
    except nova_exception.NovaException as error:
        LOG.warning(
            "Nova's record still names the new image: %s",
            error,
            instance=instance,
        )
