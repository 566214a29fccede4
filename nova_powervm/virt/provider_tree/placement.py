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

"""Requests to Placement through nova-compute's own report client."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from email import utils
from typing import Any

import tenacity
from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import slot_providers
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)

#: Microversion of requests: 1.14 added queries of trees, and 1.26 allows to
#: reserve a whole inventory.
_VERSION = '1.26'
#: Attempts to burn a device, whose provider may change at the same time.
_TRIES = 3


class ReportClientPlacement(interfaces.Placement):
    """Reads allocations and burns devices.

    :param virtapi: Nova's VirtAPI, whose report client the resource tracker
        uses as well.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi

    def get_allocations(
        self, providers: Collection[slot_providers.Provider]
    ) -> slot_providers.Allocations:
        """Send two requests per provider, and omit those without an answer."""
        allocations: dict[str, Mapping[str, Collection[str]]] = {}
        reserved: set[str] = set()
        for provider in providers:
            try:
                consumers = self._read_consumers(provider.uuid)
                if self._is_reserved(provider):
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
                allocations[provider.uuid] = consumers
        return slot_providers.Allocations(allocations, reserved)

    def _read_consumers(self, uuid: str) -> dict[str, frozenset[str]]:
        client = self._virtapi.reportclient
        answer = client.get_allocations_for_resource_provider(
            nova_context.get_admin_context(), uuid
        )
        return {
            consumer: frozenset(allocation['resources'])
            for consumer, allocation in answer.allocations.items()
        }

    def get_consumers(
        self, providers: Collection[str]
    ) -> Mapping[str, Collection[str]]:
        consumers: dict[str, Collection[str]] = {}
        for uuid in sorted(providers):
            try:
                consumers[uuid] = frozenset(self._read_consumers(uuid))
            except (
                nova_exception.ResourceProviderAllocationRetrievalFailed,
                keystone.ClientException,
            ) as error:
                LOG.warning(
                    'Placement did not say whether provider %(uuid)s is still '
                    'allocated: %(error)s',
                    {'uuid': uuid, 'error': error},
                )
        return consumers

    def allocated_to(self, consumer: str) -> Mapping[str, Mapping[str, Any]]:
        answer = ask(self._virtapi.reportclient, f'/allocations/{consumer}')
        allocations: Mapping[str, Mapping[str, Any]] = answer['allocations']
        return allocations

    def is_burned(self, uuid: str, classes: Collection[str]) -> bool:
        path = _inventories(uuid)
        return _is_burned(path, ask(self._virtapi.reportclient, path), classes)

    def read_written_at(self, uuid: str) -> float | None:
        """Return when a provider's inventory was written last.

        :returns: Seconds since 1970; None if Placement does not tell.
        """
        answer = self._virtapi.reportclient.get(
            _inventories(uuid), version=_VERSION
        )
        header = answer.headers.get('Last-Modified')
        return (
            utils.parsedate_to_datetime(header).timestamp() if header else None
        )

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(exception.PlacementUnanswered),
        stop=tenacity.stop_after_attempt(_TRIES),
        reraise=True,
    )
    def burn(self, uuid: str, classes: Collection[str]) -> bool:
        """Reserve all inventory of a provider, and read it back.

        What Placement reports afterwards counts, even if the write seemed to
        fail. Invalidate Nova's cache, so that no update writes the old
        inventory.
        """
        client = self._virtapi.reportclient
        path = _inventories(uuid)
        answer = ask(client, path)
        if _is_burned(path, answer, classes):
            return False
        failure: exception.PlacementUnanswered | None = None
        try:
            send(client, path, _burned(answer, classes))
        except exception.PlacementUnanswered as error:
            failure = error
        finally:
            client.invalidate_resource_provider(uuid, cacheonly=True)
        if not _is_burned(path, ask(client, path), classes):
            raise failure or exception.PlacementUnanswered(
                request=f'PUT {path}', reason='it has not reserved the device'
            )
        return True

    def _is_reserved(self, provider: slot_providers.Provider) -> bool:
        answer = self._virtapi.reportclient.get(_inventories(provider.uuid))
        if not answer:
            raise nova_exception.ResourceProviderAllocationRetrievalFailed(
                rp_uuid=provider.uuid, error=answer.text
            )
        # Ignore what Nova adds from provider.yaml.
        return any(
            record['reserved']
            for name, record in answer.json()['inventories'].items()
            if name in provider.inventory
        )


def _inventories(uuid: str) -> str:
    return f'/resource_providers/{uuid}/inventories'


def _is_burned(path: str, answer: Any, classes: Collection[str]) -> bool:
    records = [
        record
        for name, record in answer['inventories'].items()
        if not classes or name in classes
    ]
    if not records:
        raise exception.PlacementUnanswered(
            request=f'GET {path}', reason='the provider has no inventory'
        )
    return all(record['reserved'] >= record['total'] for record in records)


def _burned(answer: Any, classes: Collection[str]) -> Any:
    """Return an inventory from Placement with classes reserved."""
    return answer | {
        'inventories': {
            name: record
            if classes and name not in classes
            else record | {'reserved': record['total']}
            for name, record in answer['inventories'].items()
        }
    }


def in_tree(member: str) -> str:
    """Return the path of a request for the providers of a tree.

    :param member: Uuid of any provider of the tree.
    """
    return f'/resource_providers?in_tree={member}'


def ask(client: Any, path: str) -> Any:
    """Send a GET to Placement and return the content of its answer.

    :param client: nova-compute's report client.
    :param path: The path with the query.
    :raises exception.PlacementUnanswered: Placement did not answer, or
        answered with an error.
    """
    return _answer(f'GET {path}', lambda: client.get(path, version=_VERSION))


def send(client: Any, path: str, content: Any) -> Any:
    """Send a PUT to Placement and return the content of its answer.

    :param client: nova-compute's report client.
    :param path: The path of the resource to replace.
    :param content: The new content.
    :raises exception.PlacementUnanswered: Placement did not answer, or
        answered with an error.
    """
    return _answer(
        f'PUT {path}', lambda: client.put(path, content, version=_VERSION)
    )


def _answer(request: str, call: Callable[[], Any]) -> Any:
    try:
        answer = call()
        if answer:
            return answer.json()
        reason = f'{answer.status_code} {answer.text}'
    except (keystone.ClientException, ValueError) as error:
        raise exception.PlacementUnanswered(
            request=request, reason=error
        ) from error
    raise exception.PlacementUnanswered(request=request, reason=reason)
