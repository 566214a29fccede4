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

"""Client of Placement with the credentials in nova.conf.

The commands use no report client and no cache: they read the data that they
show, without a second for the import of Nova. This module creates no
providers. It writes inventory records and traits, on the provider generation
that was read, and removes traits that no provider has.
"""

import argparse
import contextlib
import datetime
import functools
from collections import Counter
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from email import utils
from typing import Any
from typing import TextIO
from typing import cast

import os_traits
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.rules import placement_tree

#: Lowest that suffices: 1.26 lets reserved equal the total; 1.31 tells of
#: whole trees, each as one.
MICROVERSION = '1.31'
GROUP = 'placement'
#: Timeout in seconds, unless [placement]timeout is set: a user is waiting.
DEFAULT_TIMEOUT = 60
#: Requests at the same time; a session of requests keeps ten connections.
CONNECTIONS = 8
#: The classes of each host. As long as a unit of one of them is free,
#: Placement tells of the whole tree in one answer.
HOST_CLASSES = ('VCPU', 'DISK_GB', 'MEMORY_MB')
_PROVIDERS = '/resource_providers'
# HTTP status of an answer.
_BAD_REQUEST, _GONE, _CHANGED = 400, 404, 409
_SECTION = 'section [placement]'
_ONE_UNIT = {'total': 1, 'reserved': 0}
_Record = Mapping[str, Any]
_Read = Callable[[_Record], placement_tree.Provider]


def add_node_option(
    parser: argparse._ActionsContainer, *, optional: bool = False
) -> None:
    """Add the option that selects the compute node.

    :param optional: Whether the command can do without Placement.
    """
    group = parser.add_argument_group(
        'Placement',
        'used if section [placement] of nova.conf has credentials; with '
        '--system-xml only if --node is given, too'
        if optional
        else 'used with the credentials in section [placement] of nova.conf',
    )
    choice = group.add_mutually_exclusive_group()
    choice.add_argument(
        '--node',
        metavar='NAME',
        help='name of the compute node and of its provider in Placement '
        '(default: [DEFAULT]host in nova.conf)',
    )
    if optional:
        choice.add_argument(
            '--no-placement', action='store_true', help='do not ask Placement'
        )


def read_node(
    app: base.App, parsed_args: argparse.Namespace
) -> tuple['PlacementClient', placement_tree.Tree]:
    """Read the providers of the compute node that the options select.

    :returns: The client, for further requests, and the providers.
    :raises exception.PowerVMError: Placement can't be read.
    """
    client = connect_placement(app.config.conf, app.terminal)
    node = parsed_args.node or app.config.nodename
    return client, client.tree(node)


def connect_placement(
    conf: cfg.ConfigOpts, terminal: TextIO | None = None
) -> 'PlacementClient':
    """Create a client from section [placement] of nova.conf.

    The options and their defaults are those of nova-compute. No request is
    sent yet.

    :param conf: Configuration with parsed files; gets the options registered.
    :param terminal: Where to show how far it is; None to show nothing.
    :raises errors.PlacementNotConfigured: The section is missing or
        incomplete.
    """
    session = load_session(conf)
    with _translated(_SECTION):
        return PlacementClient(
            loading.load_adapter_from_conf_options(
                conf, GROUP, session=session
            ),
            terminal,
        )


def load_session(conf: cfg.ConfigOpts) -> Any:
    """Create a session with the credentials in section [placement].

    :raises errors.PlacementNotConfigured: The section is missing or
        incomplete.
    """
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    options = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(
        options,
        valid_interfaces=['internal', 'public'],
        service_type='placement',
    )
    conf.register_opts(options, group=GROUP)
    with _translated(_SECTION):
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        if auth is None:
            raise errors.PlacementNotConfigured(
                reason='there is no auth_type in its section [placement]'
            )
        session = loading.load_session_from_conf_options(
            conf, GROUP, auth=auth
        )
        session.timeout = session.timeout or DEFAULT_TIMEOUT
        return session


class PlacementClient:
    """Reads providers, and changes single ones.

    All methods raise :class:`nova_powervm.exception.PowerVMError` if Placement
    can't be reached, or refuses a request.

    :param client: An adapter for Placement.
    :param terminal: Where to show how far it is; None to show nothing.
    """

    def __init__(
        self, client: adapter.Adapter, terminal: TextIO | None = None
    ) -> None:
        self._client = client
        self._terminal = terminal

    def tree(self, node: str) -> placement_tree.Tree:
        """Read the providers of a compute node.

        Sends four requests, one for each provider that is allocated, and one
        for each whose capacity is not the one unit of a device. If nothing of
        the host is left, sends three for each provider. :data:`CONNECTIONS`
        providers are read at the same time. One that is deleted in the
        meantime is left out.

        :returns: The providers. The inventory of a device with its one unit to
            give has only the total, and nothing reserved.
        :raises errors.NodeUnknown: The provider does not exist.
        """
        named = self._list(name=node)
        if not named:
            raise errors.NodeUnknown(node=node)
        root = named[0]
        members = self._list(in_tree=root['uuid'])
        # Asked after the generations, which any change increases.
        summaries = self._read_summaries(root['uuid'])
        # Direct children first: only they can be slot providers.
        below = sorted(
            (m for m in members if m['uuid'] != root['uuid']),
            key=lambda m: (
                m['parent_provider_uuid'] != root['uuid'],
                m['name'],
            ),
        )
        return placement_tree.Tree(
            node=node,
            root=_make_provider(root, consumers=self._consumers(root['uuid'])),
            below=self._read_all(
                lambda member: self._read_member(
                    member, summaries.get(member['uuid'])
                ),
                below,
            ),
        )

    def _read_summaries(self, root: str) -> Mapping[str, _Record]:
        """Read capacities, used units and traits of a whole tree at once.

        Placement tells them beside what it could allocate there.

        :returns: Provider uuid to summary; nothing if the host is full.
        """
        for resource_class in HOST_CLASSES:
            summaries: Mapping[str, _Record] = self._get(
                '/allocation_candidates',
                in_tree=root,
                resources=f'{resource_class}:1',
                limit='1',
            )['provider_summaries']
            if summaries:
                return summaries
        return {}

    def _read_all(
        self, read: _Read, records: Sequence[_Record]
    ) -> tuple[placement_tree.Provider, ...]:
        """Read providers in their order; the first error ends it all."""
        providers = []
        pool = futures.ThreadPoolExecutor(CONNECTIONS, 'powervm-placement')
        try:
            for number, provider in enumerate(
                pool.map(functools.partial(_unless_deleted, read), records),
                start=1,
            ):
                self._show(f'Placement: {number} of {len(records)} providers')
                if provider is not None:
                    providers.append(provider)
        finally:
            pool.shutdown(cancel_futures=True)
            self._show('')
        return tuple(providers)

    def _read_member(
        self, record: _Record, summary: _Record | None
    ) -> placement_tree.Provider:
        """Read what a summary does not tell of a provider.

        :param summary: None if there is none.
        """
        if summary is None:
            return self._read_provider(record)
        uuid, capacities = record['uuid'], summary['resources'].values()
        rest: dict[str, Any] = {
            'inventory': dict.fromkeys(summary['resources'], _ONE_UNIT)
        }
        if any(each['capacity'] != 1 for each in capacities):
            rest = self._read_inventory(uuid)
        if any(each['used'] for each in capacities):
            rest['consumers'] = self._consumers(uuid)
        # The traits are older than the inventory's own generation.
        rest['generation'] = record['generation']
        return _make_provider(
            record, traits=frozenset(summary['traits']), **rest
        )

    def _show(self, text: str) -> None:
        """Show how far it is in a line that the next one replaces."""
        if self._terminal:
            self._terminal.write(f'\r\033[K{text}')
            self._terminal.flush()

    def provider(self, uuid: str) -> placement_tree.Provider | None:
        """Read one provider with four requests; None if it is missing."""
        for record in self._list(uuid=uuid):
            return _unless_deleted(self._read_provider, record)
        return None

    def consumer(self, uuid: str) -> placement_tree.Consumer | None:
        """Read a consumer with one request; None without allocations."""
        answer = self._get(f'/allocations/{uuid}')
        if not answer['allocations']:
            return None
        return placement_tree.Consumer(
            uuid,
            (answer['project_id'], answer['user_id']),
            frozenset(answer['allocations']),
        )

    def node_of(self, provider: str) -> str:
        """Return the name of the node that a provider belongs to."""
        members = self._list(in_tree=provider)
        roots = [m['name'] for m in members if not m['parent_provider_uuid']]
        return str(roots[0]) if roots else provider

    def associated_traits(self) -> frozenset[str]:
        """List the traits that any provider has, with one request."""
        return frozenset(self._get('/traits', associated='true')['traits'])

    def unused_traits(self, prefix: str) -> frozenset[str]:
        """List the traits that no provider has, with one request.

        :param prefix: The beginning of their names.
        """
        answer = self._get(
            '/traits', name=f'startswith:{prefix}', associated='false'
        )
        return frozenset(answer['traits'])

    def remove_traits(self, traits: Sequence[str]) -> frozenset[str]:
        """Remove traits, one after the other; an error keeps the rest.

        Placement reads all its traits for each; more at a time would keep it
        from other work.

        :returns: Those that are gone, without those that a provider has.
        """
        gone = set()
        for number, trait in enumerate(traits, start=1):
            self._show(f'Placement: {number} of {len(traits)} traits')
            answer = self._ask('DELETE', f'/traits/{trait}', (_GONE, _CHANGED))
            if answer.status_code != _CHANGED:
                gone.add(trait)
        self._show('')
        return frozenset(gone)

    def offering(self, resource_class: str) -> tuple[str, ...] | None:
        """List the providers with a free unit of a class, with one request.

        :returns: Their names; None if the class does not exist.
        """
        records = self._list_free(resource_class)
        return (
            None
            if records is None
            else tuple(each['name'] for each in records)
        )

    def count_free(
        self, resource_class: str, traits: Collection[str]
    ) -> tuple[int, ...]:
        """Count the free devices of each host that has any, with one request.

        :param traits: What each of these devices has.
        :returns: A number for each host; none if the class or a trait does not
            exist.
        """
        records = self._list_free(resource_class, traits) or ()
        roots = Counter(record['root_provider_uuid'] for record in records)
        return tuple(roots.values())

    def _list_free(
        self, resource_class: str, traits: Collection[str] = ()
    ) -> list[_Record] | None:
        """List providers; None if the class or a trait does not exist."""
        query = {'resources': f'{resource_class}:1'}
        if traits:
            query['required'] = ','.join(sorted(traits))
        answer = self._ask('GET', _PROVIDERS, (_BAD_REQUEST,), params=query)
        return answer.json()['resource_providers'] if answer else None

    def count_nodes(self) -> int:
        """Count the compute nodes of the cloud, with one request."""
        return len(self._list(required=os_traits.COMPUTE_NODE))

    def max_microversion(self) -> str:
        """Return the highest microversion that Placement supports."""
        return str(self._get('/')['versions'][0]['max_version'])

    def write_inventory(
        self,
        provider: placement_tree.Provider,
        resource_class: str,
        record: _Record,
    ) -> bool:
        """Replace one inventory record.

        :returns: False if the provider has changed since it was read.
        """
        url = f'inventories/{resource_class}'
        return self._replace(provider, url, **record)

    def write_traits(
        self, provider: placement_tree.Provider, traits: Collection[str]
    ) -> bool:
        """Replace the traits of a provider.

        :returns: False if the provider has changed since it was read.
        """
        for trait in sorted(set(traits) - provider.traits):
            self._ask('PUT', f'/traits/{trait}')
        return self._replace(provider, 'traits', traits=sorted(traits))

    def _replace(
        self, provider: placement_tree.Provider, part: str, **content: Any
    ) -> bool:
        """Replace a part of a provider; return False if it has changed."""
        generation = {'resource_provider_generation': provider.generation}
        return bool(
            self._ask(
                'PUT',
                f'{_PROVIDERS}/{provider.uuid}/{part}',
                (_CHANGED,),
                json={**generation, **content},
            )
        )

    def _read_provider(self, record: _Record) -> placement_tree.Provider:
        uuid = record['uuid']
        return _make_provider(
            record,
            # Read first, so that the rest is not older than it.
            **self._read_inventory(uuid),
            traits=frozenset(
                self._get(f'{_PROVIDERS}/{uuid}/traits')['traits']
            ),
            consumers=self._consumers(uuid),
        )

    def _read_inventory(self, uuid: str) -> dict[str, Any]:
        """Read the inventory of a provider, with its generation and time."""
        answer = self._ask('GET', f'{_PROVIDERS}/{uuid}/inventories')
        content = answer.json()
        return {
            'generation': content['resource_provider_generation'],
            'inventory': content['inventories'],
            'written_at': _read_time(answer.headers.get('Last-Modified')),
        }

    def _consumers(self, uuid: str) -> Mapping[str, Mapping[str, int]]:
        answer = self._get(f'{_PROVIDERS}/{uuid}/allocations')
        return {
            consumer: record['resources']
            for consumer, record in answer['allocations'].items()
        }

    def _list(self, **query: str) -> list[_Record]:
        answer = self._get(_PROVIDERS, **query)
        return cast(list[_Record], answer['resource_providers'])

    def _get(self, url: str, **query: str) -> Any:
        return self._ask('GET', url, params=query).json()

    def _ask(
        self,
        method: str,
        url: str,
        expected: Collection[int] = (),
        **options: Any,
    ) -> Any:
        """Send a request.

        :param expected: The errors that are answers, by their status.
        :returns: The answer, which is false for an error.
        """
        with _translated(url):
            answer = self._client.request(
                url,
                method,
                microversion=MICROVERSION,
                raise_exc=False,
                **options,
            )
            if not answer and answer.status_code not in expected:
                raise keystone.from_response(answer, method, url)
            return answer


def _unless_deleted(
    read: _Read, record: _Record
) -> placement_tree.Provider | None:
    """Read a provider; return None if it was deleted meanwhile."""
    try:
        return read(record)
    except errors.PlacementError as error:
        if error.fields['status'] != _GONE:
            raise
        return None


def _make_provider(record: _Record, **rest: Any) -> placement_tree.Provider:
    return placement_tree.Provider(
        **{
            'uuid': record['uuid'],
            'name': record['name'],
            'parent_uuid': record['parent_provider_uuid'],
            'generation': record['generation'],
            **rest,
        }
    )


def _read_time(header: str | None) -> datetime.datetime | None:
    """Read the time in a header; None if there is none."""
    try:
        return utils.parsedate_to_datetime(header or '')
    except ValueError:
        return None


@contextlib.contextmanager
def _translated(action: str) -> Iterator[None]:
    """Translate exceptions of keystoneauth."""
    try:
        yield
    except (
        keystone.AuthPluginException,
        keystone.MissingAuthMethods,
    ) as error:
        raise errors.PlacementNotConfigured(
            reason=errors.one_line(error)
        ) from error
    except (
        keystone.Unauthorized,
        keystone.Forbidden,
        keystone.AuthorizationFailure,
    ) as error:
        raise errors.PlacementRefused(reason=errors.one_line(error)) from error
    except keystone.HttpError as error:
        raise errors.PlacementError(
            request=action,
            status=error.http_status,
            reason=(error.details or error.message or '').strip(),
        ) from error
    except keystone.ClientException as error:
        raise errors.PlacementUnreachable(
            reason=f'{action}: {errors.one_line(error)}'
        ) from error
