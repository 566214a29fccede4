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

"""What is checked on both hosts before a guest is stopped for a move."""

from typing import Any

from nova.compute import rpcapi

from nova_powervm import exception
from nova_powervm.lpar import moves
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.ops import apply
from nova_powervm.ops import disk_interfaces
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_moves
from nova_powervm.virt import shared_storage
from nova_powervm.virt import translation
from nova_powervm.virt import vifs
from nova_powervm.virt.unsupported import build_requests

#: What the source sends to the destination, and what that answers.
_POOL = 'pool'
_MOVED = 'moved'
_REFUSAL = 'refusal'


class MoveChecks:
    """Refuses moves that could not be finished.

    :param lpars: Makes LPARs what they should be.
    :param describes: Describes instances.
    :param disks: The disk driver.
    :param storage: The storage that hosts share.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        lpars: apply.LparOps,
        describes: descriptions.Descriptions,
        disks: disk_interfaces.Disks,
        storage: shared_storage.SharedStorage,
        host: str,
    ) -> None:
        self._lpars = lpars
        self._descriptions = describes
        self._disks = disks
        self._storage = storage
        self._host = host

    def check_move(
        self,
        context: Any,
        instance: Any,
        move: Any,
        flavor: Any,
    ) -> None:
        """Check all that can be known before a guest is stopped for a move.

        What its present LPAR prevents is in the plan of its departure.

        :raises exception.PowerVMError: The move is refused.
        """
        refused = [
            *moves.refused_disk_changes(
                instance_moves.disk_sizes(instance.flavor),
                instance_moves.disk_sizes(flavor),
            ),
            *build_requests.refused_specs(flavor),
        ]
        if refused:
            raise exception.MoveRefused(reason='; '.join(refused))
        if instance_moves.is_within_host(move):
            self._lpars.check(
                operations.RESIZE, self._describe_target(instance, flavor)
            )
        else:
            self._check_other_host(context, instance, move)
        if flavor.root_gb > instance.flavor.root_gb:
            self._disks.check_growth(
                translation.lpar_of(instance), flavor.root_gb
            )

    def _check_other_host(
        self, context: Any, instance: Any, move: Any
    ) -> None:
        """Ask the destination whether it can continue an instance.

        Nova has no call for this. The one that asks about shared storage fits,
        and answers without changing anything.
        """
        pool = self._storage.pool
        if pool is None or not self._storage.kept_disks(instance):
            raise exception.MoveRefused(
                reason='its disks are not in a shared storage pool '
                '([powervm]disk_driver), so no other host sees them',
            )
        answer = rpcapi.ComputeAPI().check_instance_shared_storage(
            context,
            {
                _POOL: pool.identity(),
                'lpar': translation.lpar_of(instance),
                _MOVED: instance.uuid,
            },
            instance=instance,
            host=move.dest_compute,
        )
        if not isinstance(answer, dict):
            answer = {_REFUSAL: 'its driver cannot receive instances'}
        if answer[_REFUSAL]:
            raise exception.MoveRefused(
                reason=f'host {move.dest_compute} cannot run it: '
                f'{answer[_REFUSAL]}',
            )

    def answer(self, context: Any, data: dict[str, str]) -> Any:
        """Answer a host that shares its storage, or wants to move here.

        :param data: What :meth:`.SharedStorage.describe` or
            :meth:`check_move` of the other host sends.
        :returns: Whether the storage is shared; for a move, what prevents it.
        """
        is_shared = self._storage.is_shared(data)
        if _MOVED not in data:
            return is_shared
        if not is_shared:
            return {_REFUSAL: 'it does not see the same shared storage pool'}
        try:
            self._check_arrival(context, data[_MOVED])
        except exception.PowerVMError as error:
            return {_REFUSAL: str(error)}
        return {_REFUSAL: None}

    def _check_arrival(self, context: Any, uuid: str) -> None:
        """Check whether this host can run an instance that moves here."""
        instance = instance_moves.read_moving(uuid)
        self._lpars.check(
            operations.ARRIVAL,
            self._describe_target(
                instance,
                instance.new_flavor,
                ports=vifs.ports(instance.get_network_info()),
            ),
        )

    def _describe_target(
        self, instance: Any, flavor: Any, **rest: Any
    ) -> spec.Wanted:
        """Describe an instance as its move is to leave it."""
        return self._descriptions.moving(
            instance,
            flavor,
            moved_slots=instance_moves.moved_slots(instance, self._host),
            power_on=False,
            **rest,
        )
