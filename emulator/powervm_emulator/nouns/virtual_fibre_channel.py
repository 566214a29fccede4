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

"""Virtual Fibre Channel mappings, which Virtual I/O Servers list.

Those of captures are served, and whatever a client posts of them is kept.
"""

import collections
from collections.abc import Iterator

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping

Partition = partition_module.Partition


def check(
    host: host_module.Host, vios: Partition, body: content.Element
) -> None:
    """Refuse new mappings to ports that a server does not have, and twins.

    :raises errors.Refused: one names such a port, or worldwide port names
        that another one has.
    """
    known = collections.Counter(_names(vios.element))
    others = {
        name
        for server in scsi_mapping.servers(vios, host)
        if server is not vios
        for name in _names(server.element)
    }
    for name, count in collections.Counter(_names(body)).items():
        if count > max(known[name], name not in others):
            raise errors.Refused(
                f'The worldwide port name {name} is that of another virtual '
                'Fibre Channel adapter.'
            )
    path = 'PhysicalFibreChannelPort'
    ports = {
        content.text(port, 'PortName')
        for port in vios.element.iter(f'{{{content.UOM_NS}}}{path}')
    }
    ports.update(_ports(vios.element))
    for port in _ports(body):
        if port not in ports:
            raise errors.Refused(
                f'{vios.name} has no Fibre Channel port {port!r} to map.'
            )


def _names(element: content.Element) -> Iterator[str]:
    """Yield the worldwide port names of the clients of a server."""
    path = f'{scsi_mapping.FIBRE_CHANNEL}/*/ClientAdapter/WWPNs'
    for names in content.find_all(element, path):
        yield from str(names.text or '').upper().split()


def _ports(element: content.Element) -> Iterator[str]:
    """Yield the names of the ports that the mappings of a server name."""
    path = f'{scsi_mapping.FIBRE_CHANNEL}/*'
    for mapping in content.find_all(element, path):
        for name in ('Port/PortName', 'ServerAdapter/MapPort'):
            port = content.text(mapping, name)
            if port:
                yield port
