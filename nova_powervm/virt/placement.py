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

"""Placement, asked through nova-compute's own report client."""

from collections.abc import Collection
from typing import Any

from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm.domain import planning

LOG = logging.getLogger(__name__)


class ReportClientPlacement:
    """Asks about allocations.

    :param virtapi: What nova-compute hands to its driver; its report client
        is the one that the resource tracker uses.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi

    def consumers(
        self, providers: Collection[planning.Provider]
    ) -> planning.Allocations:
        """Find who holds these providers, with two requests for each.

        Never raises: a provider that Placement gives no answer about is left
        out, and so counts as allocated.
        """
        found: dict[str, tuple[str, ...]] = {}
        reserved: set[str] = set()
        for provider in providers:
            try:
                consumers = self._consumers(provider.uuid)
                if self._is_reserved(provider.uuid):
                    reserved.add(provider.uuid)
            except (
                nova_exception.ResourceProviderAllocationRetrievalFailed,
                keystone.ClientException,
            ) as error:
                LOG.warning(
                    "Placement did not say who holds provider '%(name)s' "
                    '(%(error)s); it counts as allocated.',
                    {'name': provider.name, 'error': error},
                )
            else:
                found[provider.uuid] = consumers
        return planning.Allocations(found, reserved)

    def _consumers(self, uuid: str) -> tuple[str, ...]:
        client = self._virtapi.reportclient
        answer = client.get_allocations_for_resource_provider(
            nova_context.get_admin_context(), uuid
        )
        return tuple(answer.allocations)

    def _is_reserved(self, uuid: str) -> bool:
        answer = self._virtapi.reportclient.get(
            f'/resource_providers/{uuid}/inventories'
        )
        if not answer:
            raise nova_exception.ResourceProviderAllocationRetrievalFailed(
                rp_uuid=uuid, error=answer.text
            )
        inventories = answer.json()['inventories'].values()
        return any(record['reserved'] for record in inventories)
