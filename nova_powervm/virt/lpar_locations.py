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

"""Tells on which host an LPAR is, which Nova may not know.

PowerVM moves an LPAR by itself, also if nova-compute is killed meanwhile. A
nova-compute that starts calls the migration failed, and Nova has no way to
tell it the new host. Until the LPAR is where Nova records it, nothing may be
done that would make a second LPAR, delete its disks or unmap its volumes.

The other host is asked by Nova's call about shared storage: see
:mod:`nova_powervm.virt.moves`.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import rpcapi
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.ops import interfaces
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

#: Key of a question: the uuid of the LPAR that a host may have.
LOCATED = 'located'
_SIGHT = 'sight'
_CURE = 'Move it back: see "Live migrations" in the page on stuck servers'


class LparLocations:
    """Asks other hosts for LPARs, and answers such hosts.

    :param partitions: The host's LPARs.
    :param nodename: Nova's name of this host.
    """

    def __init__(
        self, partitions: interfaces.Partitions, nodename: str
    ) -> None:
        self._partitions = partitions
        self._nodename = nodename

    def here(self, lpar_uuid: str) -> live_migration.Sight | None:
        """Look for an LPAR on this host.

        :raises exception.PowerVMError: The host does not answer.
        """
        lpar = self._partitions.find(lpar_uuid)
        if lpar is None:
            return None
        return live_migration.Sight(lpar.state, lpar.migration_state)

    def answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Answer another host that looks for an LPAR."""
        sight = self.here(data[LOCATED])
        if sight is None:
            return {_SIGHT: None}
        return {_SIGHT: [sight.state, sight.migration_state]}

    def there(
        self, context: Any, instance: Any, host: str
    ) -> live_migration.Sight | None:
        """Have another host look for the LPAR of an instance.

        :param host: The host, as in ``instance.host``.
        :raises exception.LparUnlocated: It gives no answer.
        """
        try:
            answer = rpcapi.ComputeAPI().check_instance_shared_storage(
                context,
                {LOCATED: translation.lpar_of(instance)},
                instance=instance,
                host=host,
            )
            sight = answer[_SIGHT]
            return None if sight is None else live_migration.Sight(*sight)
        except Exception as error:
            # Any error of Nova's RPC, or of the driver there.
            raise exception.LparUnlocated(
                host=host, reason=str(error).partition('\n')[0]
            ) from error

    def check(self, instance: Any) -> None:
        """Refuse an operation if the LPAR may be on another host.

        Ask only if the end of a live migration is unknown, and the LPAR is not
        here.

        :param instance: nova.objects.Instance, which Nova records on this
            host, or which is evacuated to it.
        :raises exception.LparElsewhere: It is on the other host.
        :raises exception.LparUnlocated: The other host gives no answer.
        """
        if instance.deleted and 'system_metadata' not in instance:
            return
        host = system_metadata.live_migration(instance.system_metadata)
        if host is None:
            return
        sight = self.here(translation.lpar_of(instance))
        if sight is not None and not sight.is_settled:
            raise exception.LparElsewhere(
                state=sight.state,
                reason='its live migration has failed, and the host cannot '
                'clean up while the other is down. nova-compute keeps trying'
                if sight.is_to_recover
                else 'it is being migrated live. Wait for the end, or abort '
                'the migration',
            )
        if sight is not None and instance.host != self._nodename:
            raise exception.LparElsewhere(
                state=sight.state,
                reason='a live migration has brought it to this host already. '
                f'{_CURE}',
            )
        # Nova records an instance on the destination only when it is there.
        if sight is None and host not in (self._nodename, instance.host):
            self._check_there(instance, host)

    def _check_there(self, instance: Any, host: str) -> None:
        context = nova_context.get_admin_context()
        if is_gone(context, host):
            LOG.warning(
                'A live migration may have moved the server to host %(host)s, '
                'which an administrator has declared to be down. The server '
                'goes on without it.',
                {'host': host},
                instance=instance,
            )
            return
        sight = self.there(context, instance, host)
        if sight is not None:
            raise exception.LparElsewhere(
                state=sight.state,
                reason=exception.PrivateText(
                    f'a live migration has brought it to host {host}, which '
                    f'Nova does not know. {_CURE}',
                    'a live migration has brought it to a host that Nova does '
                    'not know. An administrator has to move it back',
                ),
            )


def is_gone(context: Any, host: str) -> bool:
    """Return whether an administrator says that a host runs no servers.

    Nova evacuates servers on the same word. It deletes the service of a host
    that has no server on record, although the LPAR may be there.
    """
    with contextlib.suppress(nova_exception.NotFound):
        service = objects.Service.get_by_compute_host(context, host)
        return bool(service.forced_down)
    return False
