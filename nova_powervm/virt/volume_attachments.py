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

"""Has Cinder map volumes that a server lost when its move was interrupted.

When a guest has stopped for its move,
``ComputeManager._terminate_volume_connections`` replaces the attachment of
each volume by one without a connector: the array maps the volume to no host,
and Nova's record of its paths is outdated. The host that continues the
instance gives the attachment its connector. If nova-compute is killed in
between, nothing in Nova does: a hard reboot passes the outdated record, and so
does Nova's start, which takes the move back.

No other host has such a volume: the source has disconnected it before.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova.virt import driver
from nova.volume import cinder
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.virt import record_changes

LOG = logging.getLogger(__name__)

#: Cinder's status of an attachment that Nova has completed.
_COMPLETE = 'attached'


def renew(
    context: Any,
    instance: Any,
    block_device_info: Any,
    connector: Callable[[], Mapping[str, Any]],
) -> list[str]:
    """Give attachments without a connector that of this host.

    Record the paths of each volume that Cinder has mapped since Nova recorded
    them.

    :param context: The context of Nova's request; at Nova's start one without
        a token, for which nova.conf needs the credentials in ``[cinder]``.
    :param instance: nova.objects.Instance.
    :param block_device_info: As Nova passes it to the driver; changed.
    :param connector: Returns the connector.
    :returns: The ids of the attachments to complete.
    :raises exception.PowerVMError: Cinder refused or did not answer, or this
        host can connect no volume.
    """
    volume_api = cinder.API()
    incomplete = []
    for disk in driver.block_device_info_get_mapping(block_device_info):
        attachment_id = disk.get('attachment_id')
        if not attachment_id:
            continue
        with _asking():
            found = volume_api.attachment_get(context, attachment_id)
        paths = found['connection_info']
        if paths and paths.get('status') == _COMPLETE:
            continue
        LOG.warning(
            'Something was interrupted before the server had its volume '
            '%(volume)s again. Cinder is asked for it.',
            {'volume': disk.volume_id},
            instance=instance,
        )
        if not paths:
            described = dict(connector())
            with _asking():
                volume_api.attachment_update(
                    context, attachment_id, described, disk['mount_device']
                )
        with _asking():
            record_changes.refresh_connection(
                context, instance, volume_api, disk
            )
        incomplete.append(attachment_id)
    return incomplete


def complete(context: Any, attachment_ids: Iterable[str]) -> None:
    """Have Cinder show volumes as in use that are connected by now.

    :raises exception.PowerVMError: Cinder refused or did not answer.
    """
    volume_api = cinder.API()
    for attachment_id in attachment_ids:
        with _asking():
            volume_api.attachment_complete(context, attachment_id)


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Translate the errors of Cinder, its client and Nova's."""
    try:
        yield
    except Exception as error:
        raise exception.VolumesImpossible(
            where='',
            reason=exception.PrivateText(
                f'Cinder does not give one back to the server: {error}',
                'Cinder does not give one back to the server',
            ),
        ) from error
