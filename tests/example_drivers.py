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
"""The smallest disk driver, VIF driver and volume driver that work.

Tests install them as entry points, as a package of somebody else would.
"""

import collections
import contextlib
import dataclasses
import functools
import pathlib
import sys
import tempfile
from typing import ClassVar

import fixtures

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from nova_powervm.ops import drivers
from nova_powervm.powervm import plugins
from nova_powervm.powervm.disk import base
from nova_powervm.powervm.volume import volume_mappings

#: The name of all drivers.
VIF_TYPE = VOLUME_TYPE = 'example'

_ENTRY_POINTS = f"""\
[{plugins.DISK_DRIVERS}]
{VIF_TYPE} = {__name__}:ExampleDisks
broken = {__name__}:there_is_no_such_driver
unfinished = {__name__}:UnfinishedDisks

[{plugins.VIF_DRIVERS}]
{VIF_TYPE} = {__name__}:ExampleVifDriver

[{plugins.VOLUME_DRIVERS}]
{VOLUME_TYPE} = {__name__}:ExampleVolumes
"""


class InstalledDrivers(fixtures.Fixture):
    """A distribution with the drivers of this module."""

    def _setUp(self):
        self.useFixture(
            fixtures.MonkeyPatch('sys.path', [*sys.path, _folder().name])
        )
        # stevedore remembers what a process has found.
        self.useFixture(
            fixtures.MonkeyPatch(
                'stevedore.ExtensionManager.ENTRY_POINT_CACHE', {}
            )
        )


@functools.cache
def _folder():
    """Install the distribution; stevedore reads each path for a second."""
    folder = tempfile.TemporaryDirectory()
    info = pathlib.Path(folder.name, 'powervm_example_drivers-1.0.dist-info')
    info.mkdir()
    (info / 'METADATA').write_text(
        'Metadata-Version: 2.1\nName: powervm-example-drivers\nVersion: 1.0\n'
    )
    (info / 'entry_points.txt').write_text(_ENTRY_POINTS)
    return folder


class ExampleDisks(base.DiskDriver):
    """Makes disks that nobody can read, and remembers them.

    It has only what each driver must have: its disks cannot grow or be read,
    and there are no config drives.

    :param context: What each disk driver is made with.
    """

    #: The one that was made last.
    last: ClassVar['ExampleDisks']

    def __init__(self, context):
        # Any process may have several hosts; a test has one.
        type(self).last = self
        self.context = context
        #: Name to size in bytes.
        self.made = {}
        #: LPAR uuid to names.
        self.mapped = collections.defaultdict(list)

    def capacity(self):
        return host_values.DiskCapacity(total_gb=100, used_gb=0, reserved_gb=0)

    def make_root(self, lpar, disk, described, contents, source):
        return self._make(lpar, disk, sum(map(len, source())))

    def make_blank(self, lpar, disk):
        return self._make(lpar, disk, disk.size_gb * storage.GIB)

    def _make(self, lpar, disk, size):
        name = storage.disk_name(lpar, disk.role)
        self.made[name] = size
        return storage.Stored(name, None)

    def attach(self, lpar, stored):
        self.mapped[lpar] += [each.name for each in stored]

    def attached(self, lpar, *, by_all_paths=False):
        return set(self.mapped[lpar])

    def swap_fits(self, lpar, swap):
        size = self.made.get(storage.disk_name(lpar, storage.SWAP))
        return size == (swap and swap.size_gb * storage.GIB)

    def fit_swap(self, lpar, swap):
        if not self.swap_fits(lpar, swap):
            name = storage.disk_name(lpar, storage.SWAP)
            if self.made.pop(name, None) is not None:
                self.mapped[lpar].remove(name)
            if swap is not None:
                self.attach(lpar, [self.make_blank(lpar, swap)])

    def stems(self):
        return {storage.stem_of(name) for name in self.made}

    def remove_stems(self, stems):
        for name in list(self.made):
            if storage.stem_of(name) in stems:
                del self.made[name]

    def remove(self, lpar, *, delete=True):
        self.mapped.pop(lpar, None)
        if delete:
            self.remove_stems({storage.stem(lpar)})

    def unmap_deleted(self, lpar_uuids=None):
        """Do nothing: no LPAR is deleted without :meth:`remove`."""

    def forget_uploads(self):
        """Do nothing: nothing is sent."""


class UnfinishedDisks(ExampleDisks):
    """A driver whose author has forgotten a method."""

    remove = base.DiskDriver.remove


@dataclasses.dataclass(frozen=True, slots=True)
class ExampleAdapter(network_ports.Adapter):
    """Connects to nothing."""

    vif_type: ClassVar[str] = VIF_TYPE

    def __str__(self):
        return self.mac


class ExampleVifDriver:
    """Remembers the adapters that it should make.

    :param context: What each VIF driver is made with.
    """

    #: The one that was made last.
    last: ClassVar['ExampleVifDriver']

    def __init__(self, context=None):
        type(self).last = self
        self.context = context
        #: LPAR uuid to its adapters.
        self.made = collections.defaultdict(list)
        #: Ids of ports that can't be connected.
        self.refused = frozenset()
        self.called = []

    def macs(self, lpar):
        """Give the MAC addresses of an LPAR's adapters."""
        return [adapter.mac for adapter in self.made[lpar]]

    def check(self, port):
        if port.id in self.refused:
            raise exception.PortRefused(port=port.id, reason='a test says so')

    def using(self, ports):
        return contextlib.nullcontext()

    def connect(self, ports):
        return [network_ports.Connection(port) for port in ports]

    def provide(self, connections, metadata):
        pass

    def adapters(self, lpar):
        return list(self.made[lpar])

    def serves(self, adapter, port):
        return True

    def plug(self, lpar, connection):
        adapter = ExampleAdapter(connection.port.mac)
        if adapter not in self.made[lpar.uuid]:
            self.made[lpar.uuid].append(adapter)

    def unplug(self, lpar, mac, only=None):
        self.made[lpar] = [a for a in self.made[lpar] if a.mac != mac]

    def release(self, metadata):
        self.called.append('release')

    def tidy(self):
        self.called.append('tidy')


class ExampleVolumes:
    """Connects disks that a Virtual I/O Server has of itself.

    Cinder says by their UDIDs which ones they are.

    :param context: What each volume driver is made with.
    """

    #: The one that was made last.
    last: ClassVar['ExampleVolumes']

    def __init__(self, context):
        type(self).last = self
        self._mappings = volume_mappings.VolumeMappings(
            context.adapter, context.system
        )
        #: Whether the host answers none of its questions.
        self.is_silent = False

    def _servers(self):
        if self.is_silent:
            raise exception.RestSilent(server='example', reason='silent')
        return self._mappings.read()

    def connector(self, lpar=None, ports=()):
        self._servers()
        return {'example': 'this host'}

    def check_arrival(self, number, virtual_slots):
        self._servers()

    def check(self, volume):
        if not volume.data.get('udid'):
            raise exception.VolumeRefused(
                volume=volume.id, reason='Cinder does not say its UDID'
            )

    def connected(self, lpar_uuid, wanted):
        return {
            mapping.volume_id: volumes.Connected(slots={0: mapping.slot})
            for server in self._servers()
            for mapping in server.mapped
            if mapping.lpar_uuid == lpar_uuid and mapping.kind == VOLUME_TYPE
        }

    def find(self, volume, lpar_uuid):
        udid = volume.data['udid']
        for server in self._servers():
            disk = server.disk(udid)
            if disk:
                return drivers.LocatedVolume(
                    volume.with_udid(udid), (server, disk)
                )
        raise exception.VolumeMissing(
            volume=volume.id, found=0, needed=1, reason='no server has it'
        )

    def forget(self, located):
        pass

    def connect(self, located, lpar):
        server, disk = located.handle
        volume = located.volume
        taken = volume_mappings.taken_slots(self._servers(), lpar.uuid)
        slot = volumes.choose_slot(volume, 0, lpar.virtual_slots, taken)
        self._mappings.map(server, lpar.uuid, disk, volume, slot)
        return {0: slot}

    def disconnect(self, volume, lpar_uuid):
        self._unmap(lpar_uuid, lambda mapping: mapping.volume_id == volume.id)

    def elsewhere(self, wanted):
        return ()

    def check_disconnection(self, lpar_uuid, wanted):
        self._servers()

    def check_removal(self, lpar_uuid, wanted):
        self._servers()

    def remove(self, lpar_uuid, wanted=()):
        self._unmap(lpar_uuid, lambda mapping: True)

    def _unmap(self, lpar_uuid, is_meant):
        for server in self._servers():
            self._mappings.unmap(
                server,
                lambda mapping: (
                    mapping.lpar_uuid == lpar_uuid
                    and mapping.kind == VOLUME_TYPE
                    and is_meant(mapping)
                ),
            )

    def resize(self, volume, lpar_uuid):
        (size,) = (
            server.disk(volume.data['udid']).size for server in self._servers()
        )
        return size
