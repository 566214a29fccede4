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

"""The devices that a management partition sees, through pypowervm."""

import copy
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import logical_partition

from powervm_emulator import fixture
from powervm_emulator import host_root

from . import base
from . import pools
from . import storage

MB = 1 << 20
DATA = b'\1boot sector' + bytes(2 * MB) + b'end'


def wait_until(holds):
    """Wait until a function returns something that is true; return it."""
    deadline = time.monotonic() + 10
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise AssertionError('it does not come true')
        time.sleep(0.005)
    return found


class Files:
    """What a program on the management partition does with its files."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory)

    def links(self):
        """Return the names of the disks that are there."""
        return sorted(
            path.name for path in (self.root / 'dev/disk/by-id').iterdir()
        )

    def scans(self):
        """Return the files that scan an adapter each."""
        pattern = 'sys/bus/vio/devices/3*/host*/scsi_host/host*/scan'
        return sorted(self.root.glob(pattern))

    def scan(self, slot):
        """Scan the adapter in a slot."""
        (found,) = self.root.glob(
            f'sys/bus/vio/devices/{0x30000000 + slot:x}'
            '/host*/scsi_host/host*/scan'
        )
        with found.open('a') as file:
            file.write('- - -')

    def device(self, udid):
        """Return the device with a UDID; None if there is none."""
        found = [*self.root.glob(f'dev/disk/by-id/*{udid[-32:]}')]
        return found[0].resolve() if found else None

    def delete(self, device):
        """Remove a device."""
        path = self.root / f'sys/block/{device.name}/device/delete'
        with path.open('a') as file:
            file.write('1')

    def appeared(self, mapping):
        """Scan for a mapped disk, and return its device."""
        self.scan(mapping.client_adapter.lpar_slot_num)
        udid = mapping.backing_storage.udid
        return wait_until(functools.partial(self.device, udid))


class HostRootTestCase(base.EmulatorTestCase):
    is_alone = True

    def setUp(self):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.files = Files(directory)
        start = functools.partial(base.start, host_root=directory)
        self.enterContext(unittest.mock.patch.object(base, 'start', start))
        super().setUp()

    def partition(self, name='novalink'):
        """Read and return a logical partition."""
        (found,) = (
            lpar
            for lpar in logical_partition.LPAR.get(self.adapter)
            if lpar.name == name
        )
        return found


class PoolDeviceTest(HostRootTestCase, pools.PoolTestCase):
    def setUp(self):
        super().setUp()
        self.novalink = self.partition()
        self.unit = self.client.unit()
        self.client.upload(self.unit, DATA)

    def map(self, **options):
        """Map the unit to the management partition."""
        return self.client.map(self.novalink, self.unit, **options)

    def test_scan_makes_mapped_unit_appear_with_all_bytes(self):
        mapping = self.map()
        self.assertEqual([], self.files.links())
        device = self.files.appeared(mapping)
        self.assertEqual(1024 * MB, device.stat().st_size)
        with device.open('rb') as file:
            self.assertEqual(DATA, file.read(len(DATA)))
            self.assertEqual(bytes(MB), file.read(MB))
        # Zeros take no space.
        self.assertLess(device.stat().st_blocks * 512, 2 * MB)

    def test_device_has_what_was_written_before_its_scan(self):
        self.write(self.unit, b'guest', 5 * MB)
        device = self.files.appeared(self.map())
        self.write(self.unit, b'later', 5 * MB)
        with device.open('rb') as file:
            file.seek(5 * MB)
            self.assertEqual(b'guest', file.read(5))

    def test_scan_of_other_adapter_shows_nothing(self):
        mapping = self.map()
        other = self.client.unit('disk2')
        second = self.client.map(self.novalink, other, fuse_limit=1)
        self.files.appeared(second)
        self.assertIsNone(self.files.device(mapping.backing_storage.udid))

    def test_deleted_device_appears_again_while_it_is_mapped(self):
        mapping = self.map()
        for _ in range(2):
            device = self.files.appeared(mapping)
            self.files.delete(device)
            wait_until(lambda: not self.files.links())
            self.assertFalse(device.exists())

    def test_disk_is_below_its_adapter_as_in_linux(self):
        mapping = self.map()
        other = self.client.unit('disk2')
        second = self.client.map(self.novalink, other, fuse_limit=1)
        for each in mapping, second:
            device = self.files.appeared(each)
            block = self.files.root / 'sys/block' / device.name
            slot = each.client_adapter.lpar_slot_num
            adapter = self.files.root / f'sys/bus/vio/devices/3{slot:07x}'
            for path in block, adapter:
                self.assertTrue(path.is_symlink())
            (found,) = adapter.glob('host*/target*/*:*:*:*/block/*')
            self.assertEqual(found.resolve(), block.resolve())
            self.assertEqual(
                found.resolve().parents[1], (block / 'device').resolve()
            )
            sectors = int((block / 'size').read_text())
            self.assertEqual(device.stat().st_size, sectors * 512)
            vio = (self.files.root / 'sys/devices/vio').resolve()
            self.assertTrue((block / 'device').resolve().is_relative_to(vio))

    def test_adapter_stays_until_its_disks_are_deleted(self):
        device = self.files.appeared(self.map())
        self.client.unmap(self.novalink)
        self.assertEqual(1, len(self.files.scans()))
        self.files.delete(device)
        wait_until(lambda: not self.files.links())
        self.assertEqual([], self.files.scans())
        for path in 'sys/block', 'sys/bus/vio/devices', 'sys/devices/vio':
            self.assertEqual([], os.listdir(self.files.root / path))

    def test_unmapped_device_stays_without_bytes_until_deleted(self):
        device = self.files.appeared(self.map())
        with device.open('rb') as reader:
            self.client.unmap(self.novalink)
            self.assertEqual(DATA, reader.read(len(DATA)))
        self.assertEqual(b'', device.read_bytes())
        # A scan does not give it back.
        mapping = self.map()
        self.files.scan(mapping.client_adapter.lpar_slot_num)
        self.files.scan(mapping.client_adapter.lpar_slot_num)
        self.assertEqual(b'', device.read_bytes())
        self.files.delete(device)
        wait_until(lambda: not self.files.links())
        with self.files.appeared(mapping).open('rb') as file:
            self.assertEqual(DATA, file.read(len(DATA)))

    def test_unit_of_client_is_in_use_while_it_is_mapped(self):
        client = self.create()
        self.client.map(client, self.unit)
        self.assertFalse(self.shown_unit('disk1')['in_use'])
        self.map()
        self.assertTrue(self.shown_unit('disk1')['in_use'])
        self.client.unmap(self.novalink)
        self.assertFalse(self.shown_unit('disk1')['in_use'])

    def test_disks_of_other_partitions_have_no_adapter(self):
        self.client.map(self.create(), self.unit)
        self.assertEqual([], self.files.scans())

    def test_server_that_stops_shows_nothing(self):
        mapping = self.map()
        self.control.set_partition('vios1', 'not activated')
        self.assertEqual([], self.files.scans())
        self.control.set_partition('vios1', 'running')
        self.files.appeared(mapping)

    def test_new_world_leaves_no_adapter(self):
        device = self.files.appeared(self.map())
        self.control.reset()
        self.assertEqual(b'', device.read_bytes())
        self.files.delete(device)
        wait_until(lambda: not self.files.links())
        self.assertEqual([], self.files.scans())

    def test_stop_leaves_directory_empty(self):
        self.files.appeared(self.map())
        self.emulator.stop()
        self.assertEqual([], list(self.files.root.iterdir()))


class SiteTest(unittest.TestCase):
    def test_host_shows_what_is_mapped_to_its_own_partition(self):
        base.quieten(self)
        second = pools.world()
        second['systems'][0] |= {'name': 'host2', 'serial': 'EMU0002'}
        directories = [
            self.enterContext(tempfile.TemporaryDirectory()) for _ in range(2)
        ]
        site = self.enterContext(
            fixture.Site([pools.world(), second], host_roots=directories)
        )
        adapter = base.adapter_for(site.emulators[1])
        self.addCleanup(base.forget, adapter.session)
        client = pools.Client(adapter)
        (novalink,) = logical_partition.LPAR.get(adapter)
        client.map(novalink, client.unit())
        self.assertEqual(
            [0, 1], [len(Files(each).scans()) for each in directories]
        )


class GroupDeviceTest(HostRootTestCase, storage.StorageTestCase):
    def test_scan_makes_virtual_disk_appear(self):
        disk = self.disk()
        self.upload(self.file(disk.udid), DATA)
        device = self.files.appeared(self.map(self.partition(), disk))
        self.assertEqual(2048 * MB, device.stat().st_size)
        with device.open('rb') as file:
            self.assertEqual(DATA, file.read(len(DATA)))


def world_of_server():
    """Return a world whose management partition has the disks itself."""
    world = copy.deepcopy(pools.WORLD)
    del world['clusters']
    (system,) = world['systems']
    system['partitions'] = []
    system['virtual_io_servers'] = [
        {
            'name': 'novalink',
            'state': 'running',
            'memory': 4096,
            'processors': 1,
            'management': True,
            'volume_groups': [{'name': 'image_pool', 'capacity': 20}],
        }
    ]
    return world


class ManagementServerTest(HostRootTestCase, storage.StorageTestCase):
    world = world_of_server()

    def test_backing_device_is_file_with_bytes_of_disk(self):
        disk = self.disk()
        self.upload(self.file(disk.udid), DATA)
        mapping = self.map(self.create(), disk)
        name = mapping.server_adapter.backing_dev_name
        self.assertEqual('/dev/image_pool/disk1', name)
        path = self.files.root / name.lstrip('/')
        self.assertEqual(2048 * MB, path.stat().st_size)
        with path.open('rb') as file:
            self.assertEqual(DATA, file.read(len(DATA)))
        self.upload(self.file(disk.udid), b'other')
        with path.open('rb') as file:
            self.assertEqual(b'other' + DATA[5:], file.read(len(DATA)))
        self.assertEqual([], self.files.scans())

    def test_backing_device_goes_with_its_mapping(self):
        disk = self.disk()
        client = self.create()
        self.map(client, disk)
        path = self.files.root / 'dev/image_pool/disk1'
        self.assertTrue(path.exists())
        vios = self.vios()
        scsi_mapper.remove_maps(vios, client.uuid)
        vios.update()
        self.assertFalse(path.exists())


class DirectoryTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.root = pathlib.Path(directory)

    def refused(self, message):
        """Assert that an emulator refuses the directory."""
        with self.assertRaisesRegex(host_root.HostRootError, message):
            fixture.Emulator(host_root=str(self.root))

    def test_directory_with_other_files_is_left_as_it_is(self):
        (self.root / 'dev').mkdir()
        (self.root / 'dev/mine').write_text('mine')
        self.refused('is not empty')
        self.assertEqual('mine', (self.root / 'dev/mine').read_text())

    def test_directory_of_other_emulator_is_refused(self):
        with fixture.Emulator(host_root=str(self.root)):
            self.refused('another emulator uses')

    def test_file_is_refused(self):
        self.root = self.root / 'file'
        self.root.touch()
        self.refused('cannot use')

    def test_command_takes_directory_of_killed_one(self):
        for number in range(2):
            with subprocess.Popen(
                [
                    *(sys.executable, '-m', 'powervm_emulator'),
                    *('--host-root', str(self.root)),
                ],
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                process.stdout.readline()
                self.assertTrue((self.root / 'dev/disk/by-id').is_dir())
                left = self.root / 'dev/left'
                self.assertFalse(left.exists())
                left.touch()
                process.send_signal(
                    signal.SIGTERM if number else signal.SIGKILL
                )
        self.assertEqual([], os.listdir(self.root))

    def test_command_refuses_directories_for_some_hosts_only(self):
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'powervm_emulator'),
                *('--host-root', str(self.root), '--host-root', '/x'),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(1, done.returncode)
        self.assertIn('ports: 1, host roots: 2', done.stderr)
