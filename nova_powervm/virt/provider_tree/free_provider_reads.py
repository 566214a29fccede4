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

"""Skips reading the allocations of free providers.

In each update Nova's resource tracker reads the allocations of every provider
of the tree, with one request each, and uses the answers only if providers are
reshaped. Placement can list in one request all providers that have a unit
left. A provider that has only one unit, and has it left, has no allocation.
"""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import nova.conf
from keystoneauth1 import exceptions as keystone
from nova import exception as nova_exception
from nova import version
from oslo_log import log as logging

from nova_powervm.devices import claims

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

#: The releases whose report client and resource tracker were checked.
TESTED = ('34.0',)
_METHOD = 'get_allocations_for_provider_tree'
#: Placement's first version with ``in_tree`` and ``resources``.
VERSION = '1.14'

_Allocations = dict[str, Any]


def why_unsupported() -> str | None:
    """Return the reason why reads cannot be skipped; None if they can."""
    if CONF.pci.report_in_placement:
        return (
            '[pci]report_in_placement is set, and needs the allocations that '
            'would be skipped'
        )
    running = version.version_string()
    if '.'.join(running.split('.')[:2]) not in TESTED:
        return (
            f'this is nova {running}, and it was tested with '
            f'{", ".join(TESTED)}'
        )
    return None


def install(
    client: Any, providers: Callable[[], Mapping[str, claims.SlotProvider]]
) -> None:
    """Replace a report client's method, or log why this is impossible.

    :param client: nova-compute's own report client; no other one is changed.
    :param providers: Returns the slot providers by uuid.
    """
    reason = why_unsupported()
    if reason:
        LOG.warning(
            '[powervm]skip_free_provider_reads is off: %(reason)s. Unset it.',
            {'reason': reason},
        )
        return
    if isinstance(getattr(client, _METHOD), _SkipFreeProviders):
        # From a driver that was started earlier in this process.
        uninstall(client)
    setattr(client, _METHOD, _SkipFreeProviders(client, providers))
    LOG.info('Skipping reads of the allocations of free devices.')


def uninstall(client: Any) -> None:
    """Restore a report client's own method."""
    vars(client).pop(_METHOD, None)


class _SkipFreeProviders:
    """Replaces get_allocations_for_provider_tree of a report client."""

    def __init__(
        self,
        client: Any,
        providers: Callable[[], Mapping[str, claims.SlotProvider]],
    ) -> None:
        self._client = client
        self._providers = providers

    def __call__(self, context: Any, nodename: str) -> _Allocations:
        """Return the same result as the original method.

        :returns: Consumer uuid to allocation record, as in the answer to
            ``GET /allocations/{consumer}``.
        :raises nova.exception.ResourceProviderUpdateConflict: A provider was
            deleted in Placement; Nova reads its tree again and retries at
            once.
        """
        tree = self._client._provider_tree  # noqa: SLF001 - see TESTED
        root, *below = tree.get_provider_uuids(name_or_uuid=nodename)
        free = self._find_free(context, tree, root, below)
        consumers: set[str] = set()
        for uuid in (root, *(u for u in below if u not in free)):
            consumers.update(self._read_consumers(context, root, uuid))
        return {
            consumer: self._client.get_allocs_for_consumer(context, consumer)
            for consumer in consumers
        }

    def _find_free(
        self, context: Any, tree: Any, root: str, below: list[str]
    ) -> frozenset[str]:
        """Find the slot providers that certainly have no allocation.

        These are the ones with only one unit of one class, at the generation
        that Nova remembers, and with that unit left now.
        """
        providers = self._providers()
        single = {
            uuid: next(iter(providers[uuid].resource_classes))
            for uuid in below
            if uuid in providers and len(providers[uuid].resource_classes) == 1
        }
        classes = set(single.values())
        if len(classes) >= len(single):
            # This would need as many requests as it saves.
            return frozenset()
        available: dict[str, tuple[str, int]] = {}
        for name in classes:
            for provider in self._find_with_unit_left(context, root, name):
                available[provider['uuid']] = name, provider['generation']
        return frozenset(
            uuid
            for uuid, name in single.items()
            if available.get(uuid) == (name, tree.data(uuid).generation)
            and not tree.has_inventory_changed(uuid, {name: {'total': 1}})
        )

    def _find_with_unit_left(
        self, context: Any, root: str, resource_class: str
    ) -> list[Any]:
        """Ask which providers have a unit left; return none on error."""
        try:
            answer = self._client.get(
                f'/resource_providers?in_tree={root}'
                f'&resources={resource_class}:1',
                version=VERSION,
                global_request_id=context.global_id,
            )
        except keystone.ClientException as error:
            LOG.debug('Placement does not report what is free: %s', error)
            return []
        return answer.json()['resource_providers'] if answer else []

    def _read_consumers(self, context: Any, root: str, uuid: str) -> Any:
        client = self._client
        try:
            return client.get_allocations_for_resource_provider(
                context, uuid
            ).allocations
        except nova_exception.ResourceProviderAllocationRetrievalFailed:
            present = client.get_providers_in_tree(context, root)
            if any(provider['uuid'] == uuid for provider in present):
                raise
            LOG.warning(
                'Provider %s of this host was deleted in Placement. It is '
                'created again.',
                uuid,
            )
            client.invalidate_resource_provider(root, cacheonly=True)
            raise nova_exception.ResourceProviderUpdateConflict(
                uuid=uuid, generation=0, error='it was deleted'
            ) from None
