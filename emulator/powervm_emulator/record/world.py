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

"""Writing what was read as a world document."""

from typing import TYPE_CHECKING
from typing import Any

import yaml
from lxml import etree

from powervm_emulator.core import content
from powervm_emulator.record import recording as recording_module

Node = recording_module.Node
Recording = recording_module.Recording
JSON = dict[str, Any]
_KEYS = {
    'VirtualSwitch': 'virtual_switches',
    'VirtualNetwork': 'virtual_networks',
    'NetworkBridge': 'network_bridges',
    'VirtualIOServer': 'virtual_io_servers',
    'LogicalPartition': 'partitions',
    'VolumeGroup': 'volume_groups',
    'ClientNetworkAdapter': 'adapters',
    'Tier': 'tiers',
    'LogicalUnit': 'logical_units',
}
#: What worlds never have.
NEVER = (
    'contents of disks and media, files that are being uploaded',
    'jobs, events, sessions and passwords',
)


class _Text(str):
    """Text that YAML shows in lines of its own."""


if TYPE_CHECKING:
    _SafeDumper = yaml.SafeDumper
else:
    # The one in C is many times as fast, and not everywhere.
    _SafeDumper = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)


class _Dumper(_SafeDumper):
    """Writes documents of XML so that people can read them."""

    def ignore_aliases(self, _data: object) -> bool:
        """Write everything where it is used."""
        return True


def _show(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    # Of the class str itself: the dumper in C takes no other.
    plain = str(text)
    return dumper.represent_scalar('tag:yaml.org,2002:str', plain, style='|')


_Dumper.add_representer(_Text, _show)


def write(found: Recording) -> str:
    """Return the world as YAML, after a comment on what it does not have."""
    lines = [
        'A world of powervm-emulator, recorded from a REST server.',
        'Not in it:',
        *(f'* {words}' for words in (*NEVER, *found.missing)),
    ]
    comment = ''.join(f'# {line}\n' for line in lines)
    return comment + yaml.dump(
        document(found),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=10**6,
    )


def document(found: Recording) -> JSON:
    """Return the world as values of YAML."""
    made: JSON = {'systems': [_describe(node) for node in found.systems]}
    clusters = [
        cluster
        for node in found.clusters
        if (cluster := _cluster(found, node)) is not None
    ]
    if clusters:
        made['clusters'] = clusters
    made['management_consoles'] = [_describe(node) for node in found.consoles]
    return made


def _describe(node: Node) -> JSON:
    return {
        'capture': _capture(node),
        **{
            _KEYS[kind]: [_describe(one) for one in children]
            for kind, children in node.children.items()
        },
    }


def _capture(node: Node) -> JSON:
    element = content.copy(node.capture.element)
    etree.indent(element)
    text = etree.tostring(element, encoding='unicode')
    return {'uuid': node.capture.uuid, 'document': _Text(f'{text}\n')}


def _cluster(found: Recording, node: Node) -> JSON | None:
    """Return a cluster with its pool; None if its pool was not read."""
    wanted = content.target(node.capture.element, 'ClusterSharedStoragePool')
    for pool in found.pools:
        if pool.capture.uuid.lower() == wanted.lower():
            return {
                'capture': _capture(node),
                'nodes': _nodes(found, node),
                'captured_pool': _describe(pool),
            }
    found.missing.append('Cluster: one whose SharedStoragePool was not read')
    return None


def _nodes(found: Recording, cluster: Node) -> list[str]:
    """Return the names of the servers here that are nodes of a cluster."""
    uuids = {
        content.target(one, 'VirtualIOServer').upper()
        for one in content.find_all(cluster.capture.element, 'Node/Node')
    }
    return [
        recording_module.name_of(server)
        for system in found.systems
        for server in system.children['VirtualIOServer']
        if server.capture.uuid.upper() in uuids
    ]
