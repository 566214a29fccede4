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
from collections import Counter
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from email import utils
from typing import TYPE_CHECKING
from typing import Any
from typing import TextIO
from typing import cast

import os_traits
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.rules import placement_tree

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base

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
_SECTION = 'section [placement]'
_ONE_UNIT = {'total': 1, 'reserved': 0}
_Record = Mapping[str, Any]
_Found = placement_tree.Provider | None


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
    app: 'base.App', parsed_args: argparse.Namespace
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
    """Reads the providers of compute nodes.

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
        :raises exception.PowerVMError: Placement can't be read.
        """
        found = self._list(name=node)
        if not found:
            raise errors.NodeUnknown(node=node)
        root = found[0]
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
            answer = self._get(
                '/allocation_candidates',
                in_tree=root,
                resources=f'{resource_class}:1',
                limit='1',
            )
            found: Mapping[str, _Record] = answer['provider_summaries']
            if found:
                return found
        return {}

    def _read_all(
        self, read: Callable[[_Record], _Found], records: Sequence[_Record]
    ) -> tuple[placement_tree.Provider, ...]:
        """Read providers in their order; the first error ends it all."""
        found = []
        pool = futures.ThreadPoolExecutor(CONNECTIONS, 'powervm-placement')
        try:
            for number, provider in enumerate(
                pool.map(read, records), start=1
            ):
                self._show(f'Placement: {number} of {len(records)} providers')
                if provider is not None:
                    found.append(provider)
        finally:
            pool.shutdown(cancel_futures=True)
            self._show('')
        return tuple(found)

    def _read_member(self, record: _Record, summary: _Record | None) -> _Found:
        """Read what a summary does not tell of a provider.

        :param summary: None if there is none.
        """
        if summary is None:
            return self._read_provider(record)
        capacities = summary['resources'].values()
        found = None
        with _unless(404):
            uuid = record['uuid']
            rest: dict[str, Any] = {
                'inventory': dict.fromkeys(summary['resources'], _ONE_UNIT)
            }
            if any(each['capacity'] != 1 for each in capacities):
                rest = self._read_inventory(uuid)
            if any(each['used'] for each in capacities):
                rest['consumers'] = self._consumers(uuid)
            # The traits are older than the inventory's own generation.
            rest['generation'] = record['generation']
            traits = frozenset(summary['traits'])
            found = _make_provider(record, traits=traits, **rest)
        return found

    def _show(self, text: str) -> None:
        """Show how far it is in a line that the next one replaces."""
        if self._terminal:
            self._terminal.write(f'\r\033[K{text}')
            self._terminal.flush()

    def provider(self, uuid: str) -> _Found:
        """Read one provider with four requests; return None if it is missing.

        :raises exception.PowerVMError: Placement can't be read.
        """
        for record in self._list(uuid=uuid):
            return self._read_provider(record)
        return None

    def consumer(self, uuid: str) -> placement_tree.Consumer | None:
        """Read a consumer with one request; return None without allocations.

        :raises exception.PowerVMError: Placement can't be read.
        """
        answer = self._get(f'/allocations/{uuid}')
        if not answer['allocations']:
            return None
        return placement_tree.Consumer(
            uuid,
            (answer['project_id'], answer['user_id']),
            frozenset(answer['allocations']),
        )

    def node_of(self, provider: str) -> str:
        """Return the name of the node that a provider belongs to.

        :raises exception.PowerVMError: Placement can't be read.
        """
        members = self._list(in_tree=provider)
        roots = [m['name'] for m in members if not m['parent_provider_uuid']]
        return str(roots[0]) if roots else provider

    def associated_traits(self) -> frozenset[str]:
        """List the traits that any provider has, with one request.

        :raises exception.PowerVMError: Placement can't be read.
        """
        answer = self._get('/traits', associated='true')
        return frozenset(answer['traits'])

    def unused_traits(self, prefix: str) -> frozenset[str]:
        """List the traits that no provider has, with one request.

        :param prefix: The beginning of their names.
        :raises exception.PowerVMError: Placement can't be read.
        """
        answer = self._get(
            '/traits', name=f'startswith:{prefix}', associated='false'
        )
        return frozenset(answer['traits'])

    def remove_traits(self, traits: Sequence[str]) -> frozenset[str]:
        """Remove traits, one after the other.

        Placement reads all its traits for each; more at a time would keep it
        from other work.

        :returns: Those that are gone, without those that a provider has.
        :raises exception.PowerVMError: Placement refused a removal or can't
            be reached; those before are removed.
        """
        gone = set()
        for number, trait in enumerate(traits, start=1):
            self._show(f'Placement: {number} of {len(traits)} traits')
            with _unless(409):
                with _unless(404):
                    self._ask('DELETE', f'/traits/{trait}')
                gone.add(trait)
        self._show('')
        return frozenset(gone)

    def offering(self, resource_class: str) -> tuple[str, ...] | None:
        """List the providers with a free unit of a class, with one request.

        :returns: Their names; None if the class does not exist.
        :raises exception.PowerVMError: Placement can't be read.
        """
        offering = None
        # Placement answers 400 for a class that does not exist.
        with _unless(400):
            found = self._list(resources=f'{resource_class}:1')
            offering = tuple(provider['name'] for provider in found)
        return offering

    def count_free(
        self, resource_class: str, traits: Collection[str]
    ) -> tuple[int, ...]:
        """Count the free devices of each host that has any, with one request.

        :param traits: What each of these devices has.
        :returns: A number for each host; none if the class or a trait does not
            exist.
        :raises exception.PowerVMError: Placement can't be read.
        """
        counts: tuple[int, ...] = ()
        query = {'required': ','.join(sorted(traits))} if traits else {}
        # Placement answers 400 for what does not exist.
        with _unless(400):
            found = self._list(resources=f'{resource_class}:1', **query)
            roots = Counter(each['root_provider_uuid'] for each in found)
            counts = tuple(roots.values())
        return counts

    def count_nodes(self) -> int:
        """Count the compute nodes of the cloud, with one request.

        :raises exception.PowerVMError: Placement can't be read.
        """
        return len(self._list(required=os_traits.COMPUTE_NODE))

    def max_microversion(self) -> str:
        """Return the highest microversion that Placement supports.

        :raises exception.PowerVMError: Placement can't be read.
        """
        versions = self._get('/')['versions']
        return str(versions[0]['max_version'])

    def write_inventory(
        self,
        provider: placement_tree.Provider,
        resource_class: str,
        record: _Record,
    ) -> bool:
        """Replace one inventory record, unless the provider has changed.

        :returns: False if the provider has changed since it was read.
        :raises exception.PowerVMError: Placement refused the write or can't
            be reached.
        """
        url = f'inventories/{resource_class}'
        return self._replace(provider, url, **record)

    def write_traits(
        self,
        provider: placement_tree.Provider,
        traits: Collection[str],
    ) -> bool:
        """Replace the traits of a provider, unless it has changed.

        :returns: False if the provider has changed since it was read.
        :raises exception.PowerVMError: Placement refused the write or can't
            be reached.
        """
        for trait in sorted(set(traits) - provider.traits):
            self._ask('PUT', f'/traits/{trait}')
        return self._replace(provider, 'traits', traits=sorted(traits))

    def _replace(
        self,
        provider: placement_tree.Provider,
        part: str,
        **content: Any,
    ) -> bool:
        """Replace a part of a provider; return False if it has changed."""
        generation = {'resource_provider_generation': provider.generation}
        is_written = False
        with _unless(409):
            self._ask(
                'PUT',
                f'/resource_providers/{provider.uuid}/{part}',
                json={**generation, **content},
            )
            is_written = True
        return is_written

    def _read_provider(self, record: _Record) -> _Found:
        uuid = record['uuid']
        found = None
        with _unless(404):
            found = _make_provider(
                record,
                # Read first, so that the rest is not older than it.
                **self._read_inventory(uuid),
                traits=frozenset(
                    self._get(f'/resource_providers/{uuid}/traits')['traits']
                ),
                consumers=self._consumers(uuid),
            )
        return found

    def _read_inventory(self, uuid: str) -> dict[str, Any]:
        """Read the inventory of a provider, with its generation and time."""
        answer = self._ask('GET', f'/resource_providers/{uuid}/inventories')
        content = answer.json()
        return {
            'generation': content['resource_provider_generation'],
            'inventory': content['inventories'],
            'written_at': _read_time(answer.headers.get('Last-Modified')),
        }

    def _consumers(self, uuid: str) -> Mapping[str, Mapping[str, int]]:
        answer = self._get(f'/resource_providers/{uuid}/allocations')
        return {
            consumer: record['resources']
            for consumer, record in answer['allocations'].items()
        }

    def _list(self, **query: str) -> list[dict[str, Any]]:
        answer = self._get('/resource_providers', **query)
        return cast(list[dict[str, Any]], answer['resource_providers'])

    def _get(self, url: str, **query: str) -> Any:
        return self._ask('GET', url, params=query).json()

    def _ask(self, method: str, url: str, **options: Any) -> Any:
        with _translated(url):
            return self._client.request(
                url, method, microversion=MICROVERSION, **options
            )


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
def _unless(status: int) -> Iterator[None]:
    """Leave the block if Placement answers with an expected error."""
    try:
        yield
    except errors.PlacementError as error:
        if error.fields['status'] != status:
            raise


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
