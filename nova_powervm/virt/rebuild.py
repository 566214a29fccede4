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

"""A server whose rebuild is refused goes on as it was.

Nova sets it back to its old state if the driver asks for that, and has done
two things by then that would harm it later: its API has given the server the
new image, and after the refusal nova-compute deletes the server's allocations.
Both are put right here.
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

#: In the system metadata of an instance: the image that its disk is made of.
IMAGE_KEY = 'powervm_image_ref'


@dataclasses.dataclass(frozen=True, slots=True)
class _LostAllocations:
    """Allocations that Nova is about to delete."""

    instance: str
    host: str
    project: str
    user: str
    allocations: Any

    @property
    def command(self) -> str:
        """What makes the allocations again, for an administrator.

        ``nova-manage placement heal_allocations`` can't: it takes all that a
        flavor asks for from the compute node's own provider.
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
    """Note which image the disk of an instance is made of.

    Nova saves it together with the rest of the instance.
    """
    instance.system_metadata[IMAGE_KEY] = instance.image_ref


class RefusedRebuilds:
    """Puts right what Nova does to servers whose rebuild is refused.

    :param virtapi: What nova-compute hands to its driver.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi
        # By instance: the next update of any thread makes them again.
        self._lost: dict[str, _LostAllocations] = {}
        # What Nova handed over for a rebuild that goes on, by instance.
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

        :param context: Of the request.
        :param instance: nova.objects.Instance.
        :param allocations: As Nova handed them to rebuild.
        :param evacuate: Whether it is an evacuation, which has no old LPAR to
            go on with.
        :raises nova.exception.InstanceFaultRollback: It is no evacuation.
        :raises nova.exception.InstanceDeployFailure: It is one.
        """
        try:
            yield
        except Exception as error:
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
        """Note that Nova takes the first step of a rebuild now.

        It stops the guest, and as long as it has not done that nothing is
        lost.

        :param context: Of the request.
        :param instance: nova.objects.Instance.
        :param allocations: As Nova handed them to rebuild.
        """
        self._started[instance.uuid] = context, allocations

    @contextlib.contextmanager
    def refuse_if_stop_fails(self, instance: Any) -> Iterator[None]:
        """Refuse the rebuild of an instance that this block can't stop.

        An instance that is not being rebuilt is none of its business.

        :raises nova.exception.InstanceFaultRollback: Instead of an error of
            ours.
        """
        started = self._started.pop(instance.uuid, None)
        try:
            yield
        except exception.PowerVMError as error:
            if started and instance.task_state in task_states.rebuild_states:
                raise self.refuse(
                    started[0], instance, started[1], error
                ) from (error)
            raise

    def refuse(
        self,
        context: Any,
        instance: Any,
        allocations: Any,
        error: Exception,
    ) -> nova_exception.InstanceFaultRollback:
        """Give what has Nova leave a server as it was.

        :param context: Of the request.
        :param instance: nova.objects.Instance; it gets its old image back.
        :param allocations: As Nova handed them to rebuild.
        :param error: Why it is refused.
        """
        reason = (
            error.summary
            if isinstance(error, exception.PowerVMError)
            else str(error)
        )
        LOG.error('It is not rebuilt: %s', error, instance=instance)
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

    def restore_allocations(self) -> bool:
        """Make allocations again that Nova has deleted.

        Call it at the beginning of an update of the provider tree: Nova
        updates it as soon as a server has its old state again. Until then it
        may still be about to delete them. What Placement or Nova gives no
        answer about is tried again in the next update.

        :returns: Whether all is well; if not, a device may be offered that
            somebody has.
        """
        return all(
            [self._restore_one(lost) for lost in [*self._lost.values()]]
        )

    def _restore_one(self, lost: _LostAllocations) -> bool:
        context = nova_context.get_admin_context()
        try:
            # One that was deleted or moved meanwhile shall hold nothing here.
            instance = objects.Instance.get_by_uuid(
                context, lost.instance, expected_attrs=[]
            )
            if instance.task_state in task_states.rebuild_states:
                return True
            done = instance.host != lost.host or self._put_allocations(
                context, lost
            )
        except nova_exception.InstanceNotFound:
            done = True
        except Exception as error:
            LOG.warning(
                'Allocations of instance %(instance)s can not be made again '
                'now; it is tried in the next cycle: %(error)s',
                {'instance': lost.instance, 'error': error},
            )
            return False
        self._lost.pop(lost.instance, None)
        if not done:
            LOG.error(
                'The rebuild of instance %(instance)s was refused. Nova has '
                'deleted its allocations, and they could not be made again. '
                'Run `%(command)s`.',
                {'instance': lost.instance, 'command': lost.command},
            )
        return done

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
    """Have Nova's record name the image that is on the disk."""
    metadata = instance.system_metadata
    old = metadata.get(IMAGE_KEY)
    if not old or old == instance.image_ref:
        return
    try:
        known = glance.API().get(context, old)
    except Exception as error:
        LOG.warning(
            'The properties of its old image %(image)s are lost: %(error)s',
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
    # This driver builds none that has them.
    instance.kernel_id = instance.ramdisk_id = ''
    try:
        instance.save()
    except nova_exception.NovaException as error:
        LOG.warning(
            'Its record names another image: %s', error, instance=instance
        )
