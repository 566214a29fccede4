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

"""Which elements of pypowervm's captures the emulator's documents have.

``python3 -m tests.elements`` writes the tables of the page. With ``--list``,
it prints each absent element with its place instead.
"""

import argparse
import collections
import dataclasses
import logging
import pathlib
import textwrap
import warnings

from . import element_documents
from . import element_paths

COMMAND = 'python3 -m tests.elements'
PAGE = pathlib.Path(__file__).parents[1] / 'doc' / 'source' / 'elements.rst'
NOUNS = (
    'ManagedSystem',
    'LogicalPartition',
    'VirtualIOServer',
    'VolumeGroup',
    'Cluster',
    'SharedStoragePool',
    'Tier',
    'LogicalUnit',
    'NetworkBridge',
    'VirtualNetwork',
    'VirtualSwitch',
    'ClientNetworkAdapter',
    'SharedProcessorPool',
    'ManagementConsole',
    'JobResponse',
    'Event',
)
HMC_ONLY = 'HMC only'
# Why elements are absent on purpose: a reason, and below it nouns with paths.
# A path stands for all below it, too.
_REASONS = """
No capture of NovaLink has an LPAR, and its Virtual I/O Servers do not have it.
  LogicalPartition: CurrentAllocatedBarrierSynchronizationRegisterArrays
    IsCallHomeEnabled IsConnectionMonitoringEnabled
    IsRedundantErrorPathReportingEnabled IsTimeReferencePartition
    IsVirtualTrustedPlatformModuleEnabled
    PartitionCapabilities/InternalAndExternalIntrusionDetectionCapable
    PartitionMemoryConfiguration/MemoryExpansionHardwareAccessEnabled
    PartitionMemoryConfiguration/MemoryEncryptionHardwareAccessEnabled
    ProcessorPool
NovaLink has no partition profiles.
  LogicalPartition: AssociatedPartitionProfile CurrentProfileSync
    PartitionProfiles
The emulated host has no OptiConnect.
  LogicalPartition: PartitionIOConfiguration/HighSpeedLinkOpticonnectPool
    PartitionIOConfiguration/VirtualOpticonnectPool
    UsesHighSpeedLinkOpticonnect UsesVirtualOpticonnect
One captured LPAR has it, and it is empty.
  LogicalPartition: PartitionIOConfiguration/EthernetAdapterCapabilities
The emulated host has no InfiniBand adapters.
  LogicalPartition: PartitionIOConfiguration/HostChannelAdapters
  VirtualIOServer: PartitionIOConfiguration/HostChannelAdapters
The emulated host has no Host Ethernet Adapters.
  LogicalPartition: HostEthernetAdapterLogicalPorts
    HostEthernetAdapterLogicalPort
The emulator keeps no times of reference codes.
  LogicalPartition: ReferenceCodeFull
The emulated host has no persistent memory.
  LogicalPartition: AssociatedPersistentMemoryConfiguration
The adapters are served below their partition, which has no links.
  LogicalPartition: VirtualSCSIClientAdapters
The emulated firmware writes no NVRAM. What a client has written is kept.
  LogicalPartition: PartitionNVRAM
The emulated firmware has no sources to boot IBM i from.
  LogicalPartition: DesignatedIPLSource
It repeats adapters that are elsewhere in the server.
  VirtualIOServer: PartitionIOConfiguration/ProfileVirtualIOAdapters
The emulator does not list free devices: it accepts any name of one.
  VirtualIOServer: FreeIOAdaptersForLinkAggregation/IOAdapterChoice
    FreeEthenetBackingDevicesForSEA/IOAdapterChoice
The servers have no address on their devices.
  VirtualIOServer:
    SharedEthernetAdapters/SharedEthernetAdapter/IPInterface/IPAddress
    SharedEthernetAdapters/SharedEthernetAdapter/IPInterface/SubnetMask
    SharedEthernetAdapters/SharedEthernetAdapter/BackingDeviceChoice/EthernetBackingDevice/IPInterface/IPAddress
    SharedEthernetAdapters/SharedEthernetAdapter/BackingDeviceChoice/EthernetBackingDevice/IPInterface/SubnetMask
  NetworkBridge:
    SharedEthernetAdapters/SharedEthernetAdapter/IPInterface/IPAddress
    SharedEthernetAdapters/SharedEthernetAdapter/IPInterface/SubnetMask
    SharedEthernetAdapters/SharedEthernetAdapter/BackingDeviceChoice/EthernetBackingDevice/IPInterface/IPAddress
    SharedEthernetAdapters/SharedEthernetAdapter/BackingDeviceChoice/EthernetBackingDevice/IPInterface/SubnetMask
The emulated storage has no limits of speed and no encryption.
  VolumeGroup: PhysicalVolumes/PhysicalVolume/ReadIOPS
    PhysicalVolumes/PhysicalVolume/WriteIOPS VirtualDisks/VirtualDisk/ReadIOPS
    VirtualDisks/VirtualDisk/WriteIOPS VirtualDisks/VirtualDisk/EncryptionState
    VirtualDisks/VirtualDisk/EncryptionAgent
One captured group has it. pypowervm knows it of disks only.
  VolumeGroup: PartitionSize
Two captured volumes have it. pypowervm does not know it.
  VolumeGroup: PhysicalVolumes/PhysicalVolume/Usage
The emulated bridges have no control channel.
  NetworkBridge: ControlChannelID
The jobs of the emulator have one step.
  JobResponse: Progress/CompletedTasks Progress/DiscreteProgress
The emulated host has no virtual Fibre Channel.
  LogicalPartition: VirtualFibreChannelClientAdapters
  VirtualIOServer: VirtualFibreChannelMappings
The emulator refuses new mappings of this kind.
  VirtualIOServer:
    VirtualSCSIMappings/VirtualSCSIMapping/Storage/PhysicalVolume
    VirtualSCSIMappings/VirtualSCSIMapping/TargetDevice/PhysicalVolumeVirtualTargetDevice
The emulated console has no keys until a client adds them.
  ManagementConsole: AuthorizedKeys/AuthorizedKey
The emulator is not written in Java.
  JobResponse: ResponseException/StackTrace
"""


def _absent_on_purpose():
    """Return the reasons by noun and path."""
    found, reason, noun = {}, '', ''
    for line in _REASONS.strip().splitlines():
        if not line.startswith(' '):
            reason = line
            continue
        for word in line.split():
            if word.endswith(':'):
                noun = word.rstrip(':')
            else:
                found[noun, word] = reason
    return found


ABSENT = _absent_on_purpose()
_STRAY = (
    'One captured resource has it at another place. pypowervm inserts it '
    'where the emulator has it.'
)
# Why siblings are in another order on purpose, by noun, path of the parent
# and the sibling that is out of place.
OUT_OF_ORDER = {
    ('LogicalPartition', '', 'Uptime'): _STRAY,
    ('VirtualIOServer', '', 'IsManagementPartition'): _STRAY,
}
# The line of the page above what is written anew.
_MARK = '.. The command above makes what follows.\n'


@dataclasses.dataclass(frozen=True)
class Noun:
    """A noun with its comparison.

    :ivar counts: of captured resources, by whether NovaLink served them.
    """

    name: str
    counts: collections.Counter
    comparison: element_paths.Comparison

    def why_absent(self, path):
        """Return why an element is absent, or nothing."""
        for (noun, prefix), reason in ABSENT.items():
            if noun == self.name and f'{path}/'.startswith(f'{prefix}/'):
                return reason
        if self.counts[True] and not self.is_of_novalink(path):
            return HMC_ONLY
        return ''

    def why_out_of_order(self, swap):
        """Return why siblings are out of order, or nothing."""
        for name in (swap.first, swap.second):
            reason = OUT_OF_ORDER.get((self.name, swap.parent, name))
            if reason:
                return reason
        return ''

    def is_of_novalink(self, path):
        """Whether a capture of NovaLink has an element."""
        return path in self.comparison.preferred.paths

    def below(self, path):
        """Return the number of captured elements below a path."""
        return sum(
            other.startswith(f'{path}/')
            for other in self.comparison.captured.paths
        )


def nouns():
    """Return all nouns, each compared with what the emulator serves."""
    found = collections.defaultdict(list)
    for capture in element_documents.captured():
        found[capture.noun].append(capture)
    served = element_documents.served()
    return [_noun(name, found[name], served[name]) for name in NOUNS]


def _noun(name, captures, served):
    shapes = [
        element_paths.Shape(capture.element for capture in chosen)
        for chosen in (
            [capture for capture in captures if capture.is_novalink],
            captures,
        )
    ]
    return Noun(
        name,
        collections.Counter(capture.is_novalink for capture in captures),
        element_paths.Comparison(*shapes, element_paths.Shape(served)),
    )


def page(found):
    """Return the page as it should be: its introduction, and new tables.

    :raises ValueError: the page has no line that ends the introduction.
    """
    introduction, mark, _ = PAGE.read_text().partition(_MARK)
    if not mark:
        raise ValueError(f'{PAGE} has no line {_MARK.strip()!r}')
    lines = [
        *_table((14, 12, 12, 12, 25, 25), _summary(found)),
        *(line for noun in found for line in _section(noun)),
    ]
    tables = '\n'.join(lines).rstrip()
    return f'{introduction}{mark}\n{tables}\n'


def listing(found):
    """Return a line for each element that is absent or out of order."""
    return [line for noun in found for line in _listing(noun)]


def _summary(found):
    yield (
        'Noun',
        'Captured from NovaLink',
        'Captured from others',
        'Elements present',
        'Of those captured from NovaLink',
        'Order',
    )
    for noun in found:
        captured = noun.comparison.expected()
        novalink = [path for path in captured if noun.is_of_novalink(path)]
        yield (
            f'`{noun.name}`_' if _differs(noun) else noun.name,
            str(noun.counts[True]),
            str(noun.counts[False]),
            _present(noun, captured),
            _present(noun, novalink) if novalink else '',
            _order(noun),
        )


def _present(noun, paths):
    here = sum(path in noun.comparison.served.paths for path in paths)
    return f'{here} of {len(paths)}'


def _order(noun):
    swaps = noun.comparison.swaps()
    unexplained = [swap for swap in swaps if not noun.why_out_of_order(swap)]
    if unexplained:
        return f'pairs out of order: {len(unexplained)}'
    return 'right, except on purpose' if swaps else 'right'


def _differs(noun):
    return bool([*_absent(noun), *_swaps(noun)])


def _section(noun):
    if not _differs(noun):
        return
    yield from (noun.name, '-' * len(noun.name), '')
    absent = list(_absent(noun))
    if absent:
        head = ('In', 'Absent', 'Why')
        yield from _table((30, 50, 20), [head, *absent])
    swaps = list(_swaps(noun))
    if swaps:
        head = ('In', 'Out of order', 'Captured before', 'Why')
        yield from _table((20, 30, 30, 20), [head, *swaps])


def _absent(noun):
    rows = collections.defaultdict(list)
    for path in noun.comparison.absent_roots():
        why = noun.why_absent(path)
        if why == HMC_ONLY:
            continue
        key = element_paths.parent_of(path), why
        below = noun.below(path)
        name = _literal(path.rpartition('/')[2])
        rows[key].append(f'{name} (+{below})' if below else name)
    for (parent, why), names in rows.items():
        yield _steps(parent), ', '.join(names), why


def _swaps(noun):
    rows = collections.defaultdict(list)
    for swap in noun.comparison.swaps():
        key = swap.parent, swap.first, noun.why_out_of_order(swap)
        rows[key].append(_literal(swap.second))
    for (parent, name, why), others in rows.items():
        yield _steps(parent), _literal(name), ', '.join(others), why


def _steps(path):
    """Return a path that can be broken into lines."""
    return ' / '.join(map(_literal, path.split('/'))) if path else 'the root'


def _literal(name):
    return f'``{name}``'


def _table(widths, rows):
    yield from ('.. list-table::', '   :header-rows: 1')
    yield from (f'   :widths: {" ".join(map(str, widths))}', '')
    for row in rows:
        for number, cell in enumerate(row):
            yield from textwrap.wrap(
                f'{"  " if number else "* "}- {cell}',
                width=90,
                initial_indent='   ',
                subsequent_indent='       ',
                break_long_words=False,
                break_on_hyphens=False,
            )
    yield ''


def _listing(noun):
    last = {}
    comparison = noun.comparison
    for path in comparison.expected():
        parent, _, name = path.rpartition('/')
        after, last[parent] = last.get(parent, 'nothing'), name
        if path not in comparison.served.paths:
            why = noun.why_absent(path)
            yield f'{noun.name}: {path}: absent, after {after}. {why}'.strip()
    for swap in comparison.swaps():
        why = noun.why_out_of_order(swap)
        yield (
            f'{noun.name}: {swap.parent or "the root"}: {swap.first} is not '
            f'before {swap.second}. {why}'
        ).strip()


def main():
    """Write the tables of the page, or print the list."""
    parser = argparse.ArgumentParser(description=__doc__, prog=COMMAND)
    parser.add_argument(
        '--list',
        action='store_true',
        help='print each element that is absent or out of order',
    )
    arguments = parser.parse_args()
    # pypowervm warns of HTTP without TLS.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter('ignore')
    found = nouns()
    if arguments.list:
        print('\n'.join(listing(found)))
    else:
        PAGE.write_text(page(found))


if __name__ == '__main__':
    main()
