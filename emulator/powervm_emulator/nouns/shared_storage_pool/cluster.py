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

"""Clusters, as each host shows them."""

from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import resource
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.shared_storage_pool import model
from powervm_emulator.nouns.shared_storage_pool import volumes

Element = content.Element
Host = host_module.Host
Partition = partition_module.Partition

KIND = 'Cluster'
UP = 'Up'
DOWN = 'Down'
_REPOSITORY_GB = 10


class Cluster(resource.Resource):
    """A Cluster as one host shows it.

    Only for its own Virtual I/O Servers does it know the resource.

    :param captured: whether its nodes are those of a capture, of which not
        all need be here.
    """

    def __init__(
        self, pool: model.Pool, element: Element, captured: bool = False
    ) -> None:
        super().__init__(KIND, pool.cluster_uuid, element)
        self.pool = pool
        self.captured = captured


def is_up(vios: Partition) -> bool:
    """Whether a Virtual I/O Server takes part in its cluster."""
    return vios.state == partition_module.RUNNING


def check_up(vios: Partition) -> None:
    """Refuse what only a running node can do.

    :raises errors.Refused: the server is not running.
    """
    if not is_up(vios):
        raise errors.Refused(
            f'{vios.name} is no active node of its cluster: its state is '
            f'{vios.state}.'
        )


def build(
    host: Host, pool: model.Pool, captured: Element | None = None
) -> None:
    """Give a host the cluster of a pool.

    :param captured: what the host shows of it.
    """
    if captured is None:
        made = Cluster(pool, _element(host, pool))
    else:
        made = Cluster(pool, captured, captured=True)
    host.add(made, quiet=True)


def show(host: Host, pool: model.Pool) -> None:
    """Show the nodes of a cluster as they are now, on one host."""
    found = host.find(KIND, pool.cluster_uuid)
    if not isinstance(found, Cluster):
        return
    nodes = _captured_nodes if found.captured else _described_nodes
    wanted = nodes(host, found)
    present = content.section(found.element, 'Node')
    if etree.tostring(wanted) != etree.tostring(present):
        content.replace(found.element, wanted)
        host.touch(found, 'Other')


def _described_nodes(host: Host, found: Cluster) -> Element:
    return _nodes(host, found.pool)


def _captured_nodes(host: Host, found: Cluster) -> Element:
    """Return the captured nodes, with the states of those that are here."""
    nodes = content.copy(content.section(found.element, 'Node'))
    states = {vios.uuid: _state(vios) for vios in _members(host, found.pool)}
    for node in content.find_all(nodes, 'Node'):
        uuid = content.target(node, partition_module.VIOS).upper()
        if uuid in states:
            content.put(node, 'State', states[uuid])
    return nodes


def summary(host: Host, pool: model.Pool) -> resource.JSON:
    """Summarize a cluster and its nodes."""
    return {
        'name': pool.cluster_name,
        'uuid': pool.cluster_uuid,
        'nodes': [
            {
                'name': vios.name,
                'system': vios.system.name,
                'state': _state(vios),
            }
            for vios in _members(host, pool)
        ],
    }


def _element(host: Host, pool: model.Pool) -> Element:
    repository = content.new(
        'RepositoryDisk', volumes.volume(pool.identity, 0, _REPOSITORY_GB)
    )
    return content.new(
        KIND,
        content.leaf('ClusterName', pool.cluster_name),
        content.leaf('ClusterID', f'22{pool.identity}'),
        repository,
        content.link(pool.path, 'ClusterSharedStoragePool'),
        _nodes(host, pool),
    )


def _members(host: Host, pool: model.Pool) -> list[Partition]:
    """Return the servers of all hosts that are nodes, and are there."""
    found = [
        other.find(partition_module.VIOS, uuid)
        for other in host.site.sharers(pool.uuid)
        for uuid in other.pools[pool.uuid]
    ]
    return [vios for vios in found if isinstance(vios, Partition)]


def _nodes(host: Host, pool: model.Pool) -> Element:
    nodes = [_node(host, vios) for vios in _members(host, pool)]
    return content.new('Node', *nodes)


def _node(host: Host, vios: Partition) -> Element:
    system = vios.system
    node = content.new(
        'Node',
        content.leaf('HostName', _host_name(vios)),
        content.leaf('PartitionID', vios.id),
        content.copy(content.section(system.element, managed_system.MTMS)),
        content.leaf('State', _state(vios)),
    )
    if host.find(vios.kind, vios.uuid) is vios:
        node.append(content.leaf('PartitionName', vios.name))
        node.append(content.link(vios.event_path, vios.kind))
    elements.fill(node)
    elements.sort(node)
    return node


def _host_name(vios: Partition) -> str:
    return f'{vios.name}-{vios.system.serial}.example.com'.lower()


def _state(vios: Partition) -> str:
    return UP if is_up(vios) else DOWN
