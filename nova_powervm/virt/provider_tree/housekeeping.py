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

"""What is put in order in Placement between Nova's updates.

Nova calls get_available_resource without its lock, once for each cycle, so
this is where it is done. None of it may fail a cycle.
"""

from collections.abc import Iterable
from typing import Any

from keystoneauth1 import exceptions as keystone
from nova import context as nova_context
from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm.devices import names
from nova_powervm.devices import planned
from nova_powervm.devices import slot_providers

LOG = logging.getLogger(__name__)

#: The most traits that are deleted in one cycle.
TRAITS_AT_ONCE = 20
#: Placement's first version with traits.
_VERSION = '1.6'
#: Placement deleted the trait, does not know it, or somebody has it.
_SETTLED = (204, 404, 409)


class Housekeeping:
    """Finds providers that vanished, and deletes traits that nobody has.

    :param virtapi: What nova-compute hands to its driver.
    """

    def __init__(self, virtapi: Any) -> None:
        self._virtapi = virtapi
        self._cycle_ended = True
        # Replaced as a whole, never changed: Nova's lock protects only the
        # one who adds to it.
        self._abandoned: frozenset[str] = frozenset()

    def before_cycle(self, root: str) -> None:
        """Do what there is to do before the host is read.

        :param root: Uuid of the compute node's provider.
        """
        try:
            if not self._cycle_ended:
                self._look_for_vanished(root)
            self._delete_traits()
        except (
            keystone.ClientException,
            nova_exception.ResourceProviderRetrievalFailed,
        ) as error:
            LOG.warning('Placement could not be put in order: %s', error)
        self._cycle_ended = False

    def updated(self) -> None:
        """Note that Nova has got as far as to ask for the provider tree."""
        self._cycle_ended = True

    def planned(
        self,
        before: Iterable[slot_providers.Provider],
        plan: planned.Plan,
    ) -> None:
        """Note what a new plan leaves behind.

        :param before: The providers that were there.
        :param plan: What has become of them.
        """
        kept = frozenset().union(*(entry.traits for entry in plan.entries))
        had = frozenset().union(
            *(
                provider.traits
                for provider in before
                if names.slot_of_provider(provider.name) is not None
            )
        )
        self._abandoned = (
            self._abandoned | frozenset(filter(names.is_of_slot, had))
        ) - kept

    def _look_for_vanished(self, root: str) -> None:
        """Have Nova read its tree anew if somebody deleted a part of it.

        Nova asks for the allocations of each provider that it remembers
        before it calls the driver. Placement does not know one that was
        deleted behind its back, and the cycle ends there, for up to
        ``[compute]resource_provider_association_refresh`` seconds.
        """
        client = self._virtapi.reportclient
        try:
            remembered = client._provider_tree.get_provider_uuids(root)
        except ValueError:
            # Nova reads the tree in any case.
            return
        found = client.get_providers_in_tree(
            nova_context.get_admin_context(), root
        )
        vanished = set(remembered) - {provider['uuid'] for provider in found}
        if vanished:
            LOG.warning(
                'Somebody has deleted providers of this host in Placement: '
                '%(uuids)s. Those of slots are made anew.',
                {'uuids': ', '.join(sorted(vanished))},
            )
            client.invalidate_resource_provider(root, cacheonly=True)

    def _delete_traits(self) -> None:
        """Delete traits of slots that are gone, unless another host has them.

        A trait that is not deleted because of an error is tried again.
        """
        for trait in sorted(self._abandoned)[:TRAITS_AT_ONCE]:
            answer = self._virtapi.reportclient.delete(
                f'/traits/{trait}', version=_VERSION
            )
            if answer.status_code not in _SETTLED:
                LOG.warning(
                    'Trait %(trait)s could not be deleted: HTTP %(status)d',
                    {'trait': trait, 'status': answer.status_code},
                )
                return
            LOG.debug('Deleting trait %s: %d', trait, answer.status_code)
            self._abandoned -= {trait}
