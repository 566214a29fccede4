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

"""What the two hosts of a move ask each other before a guest is stopped.

Nova has no call for this. The one that asks about shared storage fits, and
answers without changing anything: ``check_instance_shared_storage``.
"""

import contextlib
import dataclasses
from typing import Any

from nova.compute import rpcapi

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.ops import apply
from nova_powervm.virt import burn_limit
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_claims
from nova_powervm.virt import instance_moves
from nova_powervm.virt import nova_errors
from nova_powervm.virt import shared_storage
from nova_powervm.virt import translation
from nova_powervm.virt import vifs

# What one host sends, and what the other answers.
_POOL = 'pool'
_LPAR = 'lpar'
#: Uuid of an instance that moves to the host that is asked.
_MOVED = 'moved'
#: Uuid of one that comes back to it.
_RETURNED = 'returned'
_REFUSAL = 'refusal'

#: The LPAR on the source, while the guest still runs with its disks elsewhere.
_SLOTS_BACK = dataclasses.replace(
    operations.RETURN,
    creates=operations.Creation.NO,
    adapters=operations.Adapters.NO,
    disks=operations.Disks.NO,
)


class MoveQuestions:
    """Asks the other host of a move whether it can do its part, and answers.

    :param lpars: Makes LPARs what they should be.
    :param describes: Describes instances.
    :param found: Finds the allocations of instances.
    :param storage: The storage that hosts share.
    :param limit: The limit of one-time-use devices of a project.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        lpars: apply.LparOps,
        describes: descriptions.Descriptions,
        found: instance_claims.InstanceClaims,
        storage: shared_storage.SharedStorage,
        limit: burn_limit.BurnLimit,
        host: str,
    ) -> None:
        self._lpars = lpars
        self._descriptions = describes
        self._claims = found
        self._storage = storage
        self._burn_limit = limit
        self._host = host

    def ask_to_take(self, context: Any, instance: Any, host: str) -> None:
        """Ask the destination whether it can run an instance.

        :raises exception.MoveRefused: It cannot.
        """
        if not self._storage.kept_disks(instance):
            raise exception.MoveRefused(
                reason='its disks are not in a shared storage pool '
                '([powervm]disk_driver), so no other host sees them',
            )
        self._ask(context, instance, host, _MOVED)

    def ask_to_take_back(self, context: Any, instance: Any, host: str) -> None:
        """Ask the source whether its LPAR of an instance can have its slots.

        :raises exception.MoveRefused: It cannot.
        """
        self._ask(context, instance, host, _RETURNED)

    def _ask(
        self, context: Any, instance: Any, host: str, question: str
    ) -> None:
        pool = self._storage.pool
        answer = rpcapi.ComputeAPI().check_instance_shared_storage(
            context,
            {
                _POOL: None if pool is None else pool.identity(),
                _LPAR: translation.lpar_of(instance),
                question: instance.uuid,
            },
            instance=instance,
            host=host,
        )
        if not isinstance(answer, dict):
            answer = {_REFUSAL: 'its driver cannot receive instances'}
        if answer[_REFUSAL]:
            raise exception.MoveRefused(
                reason=exception.PrivateText(
                    f'host {host} cannot run it: {answer[_REFUSAL]}',
                    f'the other host cannot run it: {answer[_REFUSAL]}',
                )
            )

    def answer(self, context: Any, data: dict[str, str]) -> Any:
        """Answer a host that shares its storage, or moves an instance.

        :param data: What :meth:`.SharedStorage.describe` or this class of the
            other host sends.
        :returns: Whether the storage is shared; for a move, what prevents it.
        """
        is_shared = self._storage.is_shared(data)
        if not {_MOVED, _RETURNED} & data.keys():
            return is_shared
        if not is_shared:
            return {_REFUSAL: 'it does not see the same shared storage pool'}
        try:
            if _MOVED in data:
                self._check_arrival(data[_MOVED])
            else:
                self._check_return(data[_RETURNED])
        except exception.PowerVMError as error:
            return {_REFUSAL: nova_errors.for_users(error)}
        return {_REFUSAL: None}

    def _check_arrival(self, uuid: str) -> None:
        instance = instance_moves.read_moving(uuid)
        wanted = self._descriptions.moving(
            instance,
            instance.new_flavor,
            moved_slots=instance_moves.moved_slots(instance, self._host),
            ports=vifs.ports(instance.get_network_info()),
            power_on=False,
            runs_later=instance_moves.is_running(instance),
        )
        self._lpars.check(operations.ARRIVAL, wanted)
        self._burn_limit.check_move(instance, wanted.slots)

    def _check_return(self, uuid: str) -> None:
        """Check the LPAR of the source; one that is lost is made anew."""
        instance = instance_moves.read_moving(uuid)
        with contextlib.suppress(exception.PartitionNotFound):
            self._lpars.check(
                _SLOTS_BACK,
                self._descriptions.recorded(
                    instance,
                    held=self._claims.find(instance),
                    power_on=False,
                ),
            )
