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

"""Reading all of a host or an HMC that a world can express."""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.record import reader as reader_module

Capture = captures.Capture
_VIOS_GROUPS = 'ViosFCMapping,ViosNetwork,ViosSCSIMapping,ViosStorage'
_HREF = re.compile('/rest/api/(?:uom|web)/(?:.*/)?([A-Za-z0-9]+)/[^/]+$')


@dataclasses.dataclass
class Node:
    """A resource, and those below it by kind."""

    capture: Capture
    children: dict[str, list['Node']] = dataclasses.field(default_factory=dict)

    def walk(self) -> Iterator['Node']:
        """Yield this one and all below it."""
        yield self
        for nodes in self.children.values():
            for node in nodes:
                yield from node.walk()


@dataclasses.dataclass
class Recording:
    """What was read, and in words what was not.

    :ivar pools: the SharedStoragePools.
    :ivar consoles: the ManagementConsoles.
    """

    systems: list[Node] = dataclasses.field(default_factory=list)
    clusters: list[Node] = dataclasses.field(default_factory=list)
    pools: list[Node] = dataclasses.field(default_factory=list)
    consoles: list[Node] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Yield all that was read."""
        roots = self.systems, self.clusters, self.pools, self.consoles
        for node in itertools.chain(*roots):
            yield from node.walk()


#: Below each kind: the query of a feed, and what is read of its entries.
_BELOW: dict[str, dict[str, str]] = {
    'ManagedSystem': {
        'VirtualIOServer': f'?group={_VIOS_GROUPS}',
        'LogicalPartition': '',
        'VirtualSwitch': '',
        'VirtualNetwork': '',
        'NetworkBridge': '',
    },
    'VirtualIOServer': {'VolumeGroup': '', 'ClientNetworkAdapter': ''},
    'LogicalPartition': {'ClientNetworkAdapter': ''},
    'SharedStoragePool': {'Tier': ''},
    'Tier': {'LogicalUnit': ''},
}


def read(reader: reader_module.Reader) -> Recording:
    """Read the server.

    :raises reader_module.RecordError: there is no system.
    """
    found = Recording()
    try:
        systems = reader.read('ManagedSystem')
    except reader_module.ReadError as error:
        raise reader_module.RecordError(
            f'cannot read the systems: {error}'
        ) from error
    if not systems:
        raise reader_module.RecordError('the server has no system')
    found.systems = [_node(reader, found, one) for one in systems]
    found.clusters = _nodes(reader, found, 'Cluster')
    if found.clusters:
        found.pools = _nodes(reader, found, 'SharedStoragePool')
    found.consoles = _nodes(reader, found, 'ManagementConsole')
    found.missing += _linked(found)
    return found


def _nodes(
    reader: reader_module.Reader, found: Recording, path: str
) -> list[Node]:
    try:
        captured = reader.read(path)
    except reader_module.ReadError as error:
        found.missing.append(f'{path.partition("?")[0]}: {error}')
        return []
    return [_node(reader, found, one) for one in captured]


def _node(
    reader: reader_module.Reader, found: Recording, capture: Capture
) -> Node:
    below = {
        kind: _nodes(
            reader, found, f'{capture.kind}/{capture.uuid}/{kind}{query}'
        )
        for kind, query in _BELOW.get(capture.kind, {}).items()
    }
    return Node(capture, below)


def _linked(found: Recording) -> list[str]:
    """Return which kinds of resources were only seen as links."""
    known = {
        (node.capture.kind, node.capture.uuid.upper()) for node in found.walk()
    }
    unknown: Counter[str] = Counter()
    seen = set()
    for node in found.walk():
        for element in node.capture.element.iter():
            match = _HREF.search(str(element.get('href', '')))
            href = str(element.get('href', '')).partition('?')[0]
            key = match and (match[1], href.rpartition('/')[2].upper())
            if key and key not in known and key not in seen:
                seen.add(key)
                unknown[key[0]] += 1
    return [
        f'{kind}: {count} that others link to, which worlds do not have'
        for kind, count in sorted(unknown.items())
    ]


def name_of(node: Node, name: str = 'PartitionName') -> str:
    """Return the name of a resource."""
    return content.text(node.capture.element, name)
