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

"""Command ``generate``: an inventory file from the devices of a host."""

import argparse
import contextlib
import dataclasses
import os
import tempfile
import textwrap
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import policy
from nova_powervm.devices import slots
from nova_powervm.inventory_file import parse
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import device_kinds

#: Only the owner can write the file, because it decides which devices
#: instances get. nova-compute reads it as a member of the file's group.
_MODE = 0o640
#: Selects the resource class by the kind of device.
AUTO_CLASS = 'auto'

# Properties that identify a type of device.
_TYPE = ('vendor_id', 'device_id', 'class')
_WIDTH = 72
_clean = pci_ids.printable


class Generate(base.Command):
    """Generate an inventory file from the devices of the host.

    The file has a paragraph for each type of free GPU, NVMe drive,
    cryptographic adapter and accelerator. Paragraphs for network and fabric
    adapters, storage controllers, and devices of an unknown kind are commented
    out, with the reason. Devices that are owned by a partition or in SR-IOV
    mode are only mentioned in a comment.
    """

    examples = """
        # Print the file
        nova-powervm-inventory generate

        # Write the file, with the classes CUSTOM_GPU, CUSTOM_NVME and so on
        nova-powervm-inventory generate --resource-class auto \\
            --output /etc/nova/inventory.yaml

        # Use a stored response of the REST API
        nova-powervm-inventory generate --system-xml system.xml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--resource-class',
            metavar='CLASS',
            help='resource class of all paragraphs, or auto for CUSTOM_GPU, '
            'CUSTOM_NVME, CUSTOM_CRYPTO, FPGA or CUSTOM_ACCELERATOR, '
            'depending on the device (default: none, which means '
            f'{policy.DEFAULT_RESOURCE_CLASS})',
        )
        parser.add_argument(
            '--output',
            metavar='FILE',
            help='write to this file, with mode 0640, instead of standard '
            'output',
        )
        parser.add_argument(
            '--force', action='store_true', help='replace an existing file'
        )
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser, optional=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print or write the file."""
        resource_class = parsed_args.resource_class
        if resource_class not in (None, AUTO_CLASS):
            problem = policy.problem_with_resource_class(resource_class)
            if problem:
                raise exception.ConfigurationError(
                    reason=f'--resource-class: {problem}; or auto'
                )
        if parsed_args.output and not parsed_args.force:
            # Fail before the host is read; write() checks again.
            _refuse_existing(parsed_args.output)
        pci_names = pci_ids.read_names()
        reading = host_reader.read_host(self.app, parsed_args)
        tree = surveys.read_optional_tree(
            self.app, parsed_args, reading.system.io_slots
        )
        text = generate_file(
            reading,
            pci_names,
            resource_class,
            tree.instance_lpars if tree else (),
        )
        if not parsed_args.output:
            self.app.stdout.write(text)
            return 0
        write(parsed_args.output, text, parsed_args.force)
        count = len(parse(text, parsed_args.output).paragraphs)
        print(
            f'{parsed_args.output} has {count} paragraph(s) now. Its mode is '
            '0640: let the group of nova-compute read it, for example with '
            f'chgrp nova {parsed_args.output}',
            file=self.app.stdout,
        )
        return 0


def write(path: str, text: str, replace: bool) -> None:
    """Write a file that only its owner can change.

    A reader finds the old file or the new one, and no part of one. Owner and
    group of the old one are kept if this user is allowed to.

    :param replace: Whether to replace an existing file.
    :raises exception.ConfigurationError: The file exists already.
    :raises OSError: The file can't be written.
    """
    target = os.path.realpath(path)
    try:
        descriptor, temporary = tempfile.mkstemp(
            prefix=os.path.basename(target), dir=os.path.dirname(target)
        )
    except OSError as error:
        # The user did not choose the name of the temporary file.
        raise OSError(error.errno, error.strerror, path) from error
    try:
        with open(descriptor, 'w', encoding='utf-8') as stream:
            os.fchmod(descriptor, _MODE)
            with contextlib.suppress(FileNotFoundError, PermissionError):
                old = os.stat(target)
                os.fchown(descriptor, old.st_uid, old.st_gid)
            stream.write(text)
        if replace:
            os.replace(temporary, target)
        else:
            _refuse_existing(path)
            # Unlike a rename, this fails if there is a file by now.
            os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _refuse_existing(path: str) -> None:
    if os.path.lexists(path):
        raise exception.ConfigurationError(
            reason=f'{path} exists already. Replace it with --force, or '
            'choose another --output.'
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """Slots with devices of one type, for one paragraph.

    :param identification: Properties that only these slots have in common.
    :param kind: Kind of the devices.
    :param free: Slots that are available to instances.
    :param taken: Other slots, each with the reason.
    """

    identification: dict[str, str]
    kind: device_kinds.DeviceKind
    free: list[slots.Slot]
    taken: list[tuple[slots.Slot, slots.Reason]]

    @property
    def name(self) -> str:
        """Unique name for the paragraph."""
        values = '-'.join(self.identification.values())
        return f'{self.kind.code}-{values}'.lower()


def generate_file(
    reading: host_reader.HostReading,
    pci_names: pci_ids.DeviceNames,
    resource_class: str | None = None,
    instance_lpars: Collection[str] = (),
) -> str:
    """Generate the text of the file.

    :param resource_class: That of all paragraphs; :data:`AUTO_CLASS` for
        one that says what the device is; None for the default of the file.
    :param instance_lpars: Upper-case uuids of the LPARs of instances, whose
        devices get paragraphs, too.
    :returns: A valid inventory file.
    """
    groups = _groups(reading.system.io_slots, instance_lpars)
    lines = list(_head(reading, resource_class))
    for kind in device_kinds.KINDS:
        for heading in _sections(kind, groups):
            lines += ['', *_comment(heading)]
            for group in _usable(kind, groups):
                lines += ['', *_paragraph(group, pci_names, resource_class)]
    lines += _left_out(groups, reading.system.io_slots, pci_names)
    return '\n'.join(lines) + '\n'


def _groups(
    io_slots: Collection[slots.Slot], instance_lpars: Collection[str]
) -> Sequence[_Group]:
    duplicated = slots.duplicated_indexes(io_slots)
    groups: dict[tuple[str, ...], _Group] = {}
    for slot in sorted(io_slots, key=lambda s: s.drc_name or ''):
        if slot.is_empty:
            continue
        identification = _identification(slot)
        group = groups.setdefault(
            tuple(identification.values()),
            _Group(identification, device_kinds.kind_of(slot), [], []),
        )
        reason = slots.reason_unavailable(slot, instance_lpars, duplicated)
        if reason:
            group.taken.append((slot, reason))
        else:
            group.free.append(slot)
    return sorted(groups.values(), key=lambda group: group.name)


def _identification(slot: slots.Slot) -> dict[str, str]:
    """Choose keys so that no slot matches two paragraphs.

    A slot that lacks one of the values can't match a paragraph with all of
    them. It gets a paragraph of its own, with its DRC index.
    """
    values = {key: policy.PROPERTIES[key].value_in(slot) for key in _TYPE}
    if None in values.values():
        return {'drc_index': slot.drc_hex}
    return {key: str(value) for key, value in values.items()}


def _head(
    reading: host_reader.HostReading, resource_class: str | None
) -> Iterator[str]:
    name, machine = _clean(reading.system.name), _clean(reading.system.machine)
    yield from _comment(
        f'Devices of {name} ({machine}) that are '
        'offered to instances. A device without a paragraph is not offered. '
        'nova-powervm-inventory generate created this file. Before you use it:'
    )
    yield from (
        '#  - remove the paragraphs of devices that instances must not get;',
        '#  - check the result with: nova-powervm-inventory show;',
        '#  - after each change run: nova-powervm-inventory validate.',
    )
    if resource_class is None:
        yield '#'
        yield from _comment(
            'Flavors request these devices with '
            f'resources1:{policy.DEFAULT_RESOURCE_CLASS}=1. Add a '
            'resource_class to a paragraph to request its devices by another '
            'name.'
        )
    if not reading.owners_known:
        yield '#'
        yield from _comment(
            f'{_clean(reading.source)} does not report the owners of all '
            'slots. Some of these slots may belong to a VIOS or another '
            'partition, and are not offered while they do.'
        )


def _sections(
    kind: device_kinds.DeviceKind, groups: Iterable[_Group]
) -> Iterator[str]:
    """Yield the heading of a kind, if the host has such devices."""
    if not _usable(kind, groups):
        return
    if kind.safe:
        yield f'---- {kind.title}'
    else:
        yield (
            f'---- {kind.title} are not offered, because {kind.doubt}. To '
            'offer one anyway, uncomment its paragraph.'
        )


def _usable(
    kind: device_kinds.DeviceKind, groups: Iterable[_Group]
) -> list[_Group]:
    return [group for group in groups if group.kind is kind and group.free]


def _paragraph(
    group: _Group, pci_names: pci_ids.DeviceNames, resource_class: str | None
) -> Iterator[str]:
    device = pci_names.describe(group.free[0])
    places = ', '.join(_place(slot) for slot in group.free)
    yield from _comment(f'{len(group.free)} x {device}: {places}')
    for slot, reason in group.taken:
        yield from _comment(f'not now: {_place(slot)}, {_clean(reason.text)}')
    mark = '' if group.kind.safe else '#'
    yield f'{mark}{group.name}:'
    yield f'{mark}  identification:'
    for key, value in group.identification.items():
        yield f'{mark}    {key}: "{value}"'
    chosen = (
        group.kind.resource_class
        if resource_class == AUTO_CLASS
        else resource_class
    )
    if chosen:
        yield f'{mark}  resource_class: {chosen}'


def _left_out(
    groups: Iterable[_Group],
    io_slots: Iterable[slots.Slot],
    pci_names: pci_ids.DeviceNames,
) -> Iterator[str]:
    taken = [
        f'{_place(slot)}, {pci_names.describe(slot)}: {_clean(reason.text)}'
        for group in groups
        if not group.free
        for slot, reason in group.taken
    ]
    if taken:
        yield ''
        yield from _comment(
            '---- Left out, because they are not available to instances now:'
        )
        for line in taken:
            yield from _comment(line, '#   ')
    empty = sum(slot.is_empty for slot in io_slots)
    if empty:
        yield ''
        yield f'# Empty slots: {empty}'


def _place(slot: slots.Slot) -> str:
    return _clean(slot.drc_name or f'slot {slot.drc_hex}')


def _comment(words: str, indent: str = '# ') -> Iterator[str]:
    """Wrap a text into comment lines; do not break words."""
    for line in textwrap.wrap(
        _clean(words), _WIDTH, break_long_words=False, break_on_hyphens=False
    ):
        yield indent + line
