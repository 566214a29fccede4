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

"""What the two consumers of a move hold in Placement."""

from typing import Any

from nova import exception as nova_exception


class MoveAllocations:
    """Reads and changes the allocations of moves.

    :param virtapi: Nova's VirtAPI.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi

    def of(self, context: Any, consumer: str) -> Any:
        """Return the allocations of a consumer by provider."""
        return self._virtapi.reportclient.get_allocs_for_consumer(
            context, consumer
        )['allocations']

    def give_back(self, context: Any, migration: Any, instance: Any) -> None:
        """Give the instance what the migration holds of the source."""
        if self.of(
            context, migration.uuid
        ) and not self._virtapi.reportclient.move_allocations(
            context, migration.uuid, instance.uuid
        ):
            raise nova_exception.AllocationMoveFailed(
                source_consumer=migration.uuid,
                target_consumer=instance.uuid,
                error='Placement refused',
            )

    def delete(self, context: Any, migration: Any) -> None:
        """Free what the migration holds of the source."""
        self._virtapi.reportclient.delete_allocation_for_instance(
            context, migration.uuid, consumer_type='migration', force=False
        )
