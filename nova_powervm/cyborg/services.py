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

"""What Placement and Cyborg's API say about the slots of this host."""

import urllib.parse
from collections.abc import Collection
from typing import Any

import openstack.exceptions
from cyborg.common import exception as cyborg_exception
from cyborg.common import placement_client
from cyborg.common import utils
from cyborg.conf import CONF
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions

from nova_powervm import exception
from nova_powervm.cyborg import facts
from nova_powervm.devices import names

# Knows in_tree, and consumers of allocations by provider.
_MICROVERSION = '1.36'
_OK, _NOT_FOUND = 200, 404

#: Providers by the DRC index of their slot.
Providers = dict[int, facts.Provider]


class HostProviders:
    """The providers of slots below the compute node's provider."""

    def __init__(self) -> None:
        self._client = placement_client.PlacementClient()
        self._host: tuple[str, str] | None = None

    @property
    def host(self) -> tuple[str, str]:
        """Name and uuid of the compute node's provider.

        The agent looks it up by the same names in the same order when it
        starts. The name is part of the names of all slots, so it stays.

        :raises exception.ProvidersUnknown: Placement did not answer.
        :raises exception.ConfigurationError: It does not exist.
        """
        if self._host is None:
            candidates = [CONF.agent.resource_provider_name, CONF.host]
            for name in candidates:
                query = urllib.parse.urlencode({'name': name})
                answer = self._get(f'/resource_providers?{query}')
                if answer and answer['resource_providers']:
                    self._host = name, answer['resource_providers'][0]['uuid']
                    return self._host
            raise exception.ConfigurationError(
                reason='Placement has no provider with the name '
                f'{" or ".join(map(repr, candidates))}. Set '
                '[agent]resource_provider_name in cyborg.conf to the '
                "compute node's hypervisor_hostname, and check that "
                'nova-compute is running.'
            )
        return self._host

    def read(self, indexes: Collection[int]) -> tuple[Providers, Providers]:
        """Read the providers of Cyborg's and of Nova's slots.

        :param indexes: DRC indexes of slots whose providers of Nova's are
            read, beside those of the slots that Cyborg has.
        :returns: Both by DRC index, Cyborg's first.
        :raises exception.ProvidersUnknown: Placement did not answer.
        """
        name, root = self.host
        answer = self._get(f'/resource_providers?in_tree={root}')
        children = (answer or {}).get('resource_providers', [])
        if root not in {child['uuid'] for child in children}:
            self._host = None
            raise exception.ProvidersUnknown(
                path=f'/resource_providers?in_tree={root}',
                reason=f"provider '{name}' has been replaced by another one",
            )
        cyborg_children: dict[int, Any] = {}
        nova_children: dict[int, Any] = {}
        for child in children:
            index = names.slot_of_cyborg_provider(child['name'], name)
            if index is not None:
                cyborg_children[index] = child
            index = names.slot_of_provider(child['name'])
            if index is not None and child['parent_provider_uuid'] == root:
                nova_children[index] = child
        both = nova_children.keys() & {*indexes, *cyborg_children}
        return self._read_all(cyborg_children), self._read_all(
            {index: nova_children[index] for index in both}
        )

    def _read_all(self, children: dict[int, Any]) -> Providers:
        providers = {i: self._read_one(child) for i, child in children.items()}
        return {i: provider for i, provider in providers.items() if provider}

    def _read_one(self, child: Any) -> facts.Provider | None:
        """Read a provider; None if it has been deleted in the meantime."""
        path = f'/resource_providers/{child["uuid"]}'
        answers = [
            self._get(f'{path}/{part}')
            for part in ('inventories', 'traits', 'allocations')
        ]
        if None in answers:
            return None
        inventories, traits, allocations = answers
        return facts.Provider(
            uuid=child['uuid'],
            name=child['name'],
            reserved={
                name: record['reserved']
                for name, record in inventories['inventories'].items()
            },
            traits=frozenset(traits['traits']),
            consumers=tuple(sorted(allocations['allocations'])),
        )

    def _get(self, path: str) -> Any:
        """Return the answer to a request; None for the status 404.

        :raises exception.ProvidersUnknown: Placement did not answer, or with
            an error.
        """
        try:
            answer = self._client.get(path, version=_MICROVERSION)
        except (
            keystone_exceptions.ClientException,
            openstack.exceptions.SDKException,
            cyborg_exception.CyborgException,
        ) as error:
            raise exception.ProvidersUnknown(
                path=path, reason=error
            ) from error
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.status_code != _OK:
            raise exception.ProvidersUnknown(
                path=path, reason=f'HTTP {answer.status_code}'
            )
        return answer.json()


def find_bound_providers() -> frozenset[str]:
    """Ask Cyborg's API which providers requests are bound to.

    Cyborg's tables refer from a request to the device. Without the device
    Cyborg answers no question about any request any more.

    :returns: Uuids of providers.
    :raises exception.CyborgUnanswered: Cyborg did not answer, or would not
        tell everything to this user.
    """
    path = 'accelerator_requests'
    session = _session()
    # Cyborg shows other users only the requests of their own projects.
    if 'admin' not in _roles(session):
        raise exception.CyborgUnanswered(
            path=path,
            reason='it would tell everything only to a user with the role '
            'admin',
        )
    return frozenset(
        str(request['device_rp_uuid'])
        for request in _list(path, 'arqs')
        if request['device_rp_uuid']
    )


def _roles(session: Any) -> Collection[str]:
    """Return the names of the roles that keystone gives a session's user."""
    try:
        names_of_roles: list[str] = session.auth.get_access(session).role_names
        return names_of_roles
    except keystone_exceptions.ClientException as error:
        raise exception.CyborgUnanswered(
            path='accelerator_requests', reason=error
        ) from error
    except AttributeError:
        # A plugin without keystone, whose user has no roles.
        return ()


def _session() -> Any:
    # The session of Cyborg's client of Placement: Cyborg's configuration has
    # no credentials for its own API.
    return utils.get_sdk_adapter('placement').session


def find_unbindable_slots(host: str) -> frozenset[int]:
    """Ask Cyborg's API which slots it knows without their provider.

    A conductor that is killed just after it has written to Placement leaves
    such a slot. It looks right there, but no request can be bound to it, and
    no report changes that.

    :param host: The name of the compute node's provider.
    :returns: DRC indexes.
    :raises exception.CyborgUnanswered: Cyborg did not answer.
    """
    indexes = {
        names.slot_of_cyborg_provider(deployable['name'], host)
        for deployable in _list('deployables', 'deployables')
        if not deployable.get('rp_uuid')
    }
    return frozenset(index for index in indexes if index is not None)


def _list(path: str, key: str) -> list[Any]:
    """Return the resources of a kind that Cyborg's API lists.

    :raises exception.CyborgUnanswered: Cyborg did not answer, or with an
        error.
    """
    try:
        cyborg = adapter.Adapter(
            _session(),
            service_type='accelerator',
            interface=CONF.placement.valid_interfaces,
            region_name=CONF.placement.region_name,
        )
        resources: list[Any] = cyborg.get(f'/{path}').json()[key]
        return resources
    except (
        keystone_exceptions.ClientException,
        openstack.exceptions.SDKException,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        raise exception.CyborgUnanswered(path=path, reason=error) from error
