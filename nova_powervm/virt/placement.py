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
        """Find who holds allocations of these providers, one request each.

        Never raises: a provider that Placement gives no answer about is left
        out, and so counts as allocated.
        """
        context = nova_context.get_admin_context()
        client = self._virtapi.reportclient
        found: dict[str, tuple[str, ...]] = {}
        for provider in providers:
            try:
                answer = client.get_allocations_for_resource_provider(
                    context, provider.uuid
                )
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
                found[provider.uuid] = tuple(answer.allocations)
        return planning.Allocations(found)
