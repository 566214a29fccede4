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

"""Text that shows hosts, servers and providers to a person."""

import collections.abc
import textwrap

from demo import attachments as attachments_lib
from demo import cloud
from demo import cyborg_client
from demo import guest
from demo import host

_WIDTH = 76

#: The common prefix of generated traits, and its abbreviation.
_PREFIX = 'CUSTOM_POWERVM_IOSLOT_'
_SHORT = '~'


def table(
    heading: collections.abc.Sequence[str],
    rows: collections.abc.Iterable[collections.abc.Sequence[str]],
) -> list[str]:
    """Return the lines of a table with aligned columns."""
    cells = [list(heading), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        '  '.join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def slots(found: collections.abc.Iterable[host.Slot]) -> list[str]:
    """Return a table of the slots of a host."""
    return table(
        (
            'DRC index',
            'vendor:device',
            'class',
            'location',
            'owner',
            'description',
        ),
        (
            (
                slot.drc_index,
                slot.properties.get('vendor_id', '-')
                + ':'
                + slot.properties.get('device_id', '-'),
                slot.properties.get('class', '-'),
                slot.properties.get('drc_name', '-'),
                slot.owner or '-',
                slot.description,
            )
            for slot in found
        ),
    )


def offers(found: collections.abc.Mapping[str, list[str]]) -> list[str]:
    """Return one line per paragraph with the slots that it offers."""
    return [
        f'{name}: {", ".join(indexes) or "no slot"}'
        for name, indexes in found.items()
    ]


def devices(
    found: collections.abc.Iterable[cyborg_client.Device],
) -> list[str]:
    """Return a table of devices in Cyborg."""
    return table(
        ('device', 'vendor:model', 'status', 'resource provider'),
        (
            (
                device.uuid,
                f'{device.vendor}:{device.model}',
                device.status,
                device.provider,
            )
            for device in found
        ),
    )


def server(
    found: cloud.Server,
    partition: host.Partition | None,
    of_host: collections.abc.Iterable[host.Slot],
) -> list[str]:
    """Return lines about a server, its LPAR and the LPAR's slots."""
    lines = [f'server {found.name} {found.id} is {found.status}']
    if found.fault:
        lines.append(f'fault: {found.fault}')
    lines += ['', "According to the PowerVM host's REST API:"]
    if partition is None:
        return [*lines, f'there is no LPAR {found.instance_name}']
    return [
        *lines,
        f'LPAR {partition.name} {partition.uuid} is {partition.state}',
        f'slots in its profile: {", ".join(partition.slots) or "none"}',
        '',
        *slots(slot for slot in of_host if slot.owner == partition.name),
    ]


def attachments(found: attachments_lib.Attachments) -> list[str]:
    """Return one line per attachment of a server."""
    lines = [
        f'{item.kind} {item.name}: {item.size} GB, {len(item.contents)} bytes '
        f'uploaded, SHA-256 {guest.sha256(item.contents)}'
        for item in found.storage
    ]
    lines += [
        f'port {port.mac} is {port.status}, bound as {port.vif_type}'
        for port in found.ports
    ]
    lines += [
        f'adapter {adapter.mac} on VLAN {adapter.vlan}'
        for adapter in found.adapters
    ]
    for drive in found.config_drives:
        lines += [
            f'config drive: {key}: {value!r}'
            for key, value in drive.document().items()
        ]
    return lines


def usages(providers: collections.abc.Iterable[cloud.Provider]) -> list[str]:
    """Return a table of the usages of providers."""
    return table(
        ('provider', 'resource class', 'total', 'used'),
        (
            (
                provider.name,
                resource_class,
                str(inventory['total']),
                str(provider.usages.get(resource_class, 0)),
            )
            for provider in providers
            for resource_class, inventory in provider.inventories.items()
        ),
    )


def tree(providers: collections.abc.Sequence[cloud.Provider]) -> list[str]:
    """Return a drawing of a provider tree with two levels.

    :param providers: the root, followed by its children.
    """
    root, *children = providers
    lines = [root.name, *_details(root, '|' if children else ' ')]
    for position, child in enumerate(children, start=1):
        last = position == len(children)
        lines.append(f'+-- {child.name}')
        lines += _details(child, ' ' if last else '|')
    lines.append(f'({_SHORT} stands for {_PREFIX})')
    return lines


def _details(provider: cloud.Provider, line: str) -> list[str]:
    details = [f'uuid {provider.uuid}']
    if provider.parent:
        details[0] += f'  parent {provider.parent[:8]}..'
        details[0] += f'  root {provider.root[:8]}..'
    for resource_class, inventory in sorted(provider.inventories.items()):
        used = provider.usages.get(resource_class, 0)
        details.append(
            f'{resource_class} total {inventory["total"]}'
            f' reserved {inventory["reserved"]} used {used}'
        )
    short = (trait.replace(_PREFIX, _SHORT) for trait in provider.traits)
    details += textwrap.wrap(
        'traits ' + ' '.join(short),
        _WIDTH - 8,
        subsequent_indent='  ',
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [f'{line}     {detail}'.rstrip() for detail in details]
