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

"""Reading the root disk of an LPAR on the management partition.

pypowervm talks to the emulator, whose host root has the devices.
"""

import base64
import contextlib
import errno
import hashlib
import os
import pathlib
import resource
import threading
import types
import unittest.mock

from pypowervm import adapter as pvm_adapter

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import storage
from nova_powervm.powervm import management_partition
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm.disk import disk_reading
from nova_powervm.powervm.disk import ssp
from powervm_emulator import host_root
from tests.ops import base
from tests.ops import test_faults
from tests.ops import test_kills

#: As many bytes has a GB here: more than may be kept in memory.
GB = 32 << 20
MB = GB // 1024
CHUNK = 1 << 16
SAMPLE = 4 * MB
MANAGEMENT = 'novalink'


class ReadingTestCase(base.HostTestCase):
    """A service on the management partition, and an LPAR with a root disk."""

    is_local = True

    def setUp(self):
        base.make_gigabytes_small(self, GB)
        super().setUp()
        self.enterContext(
            unittest.mock.patch.object(disk_reading, '_UNDO_SECONDS', 0)
        )
        self.prepare()

    def prepare(self):
        """Have the host as it is before the disk is read."""
        self.wanted = self.spawn()
        self.uuid = self.wanted.lpar_uuid
        self.written = base.DATA
        self.forget()

    @property
    def root(self):
        """The root disk as the control plane shows it."""
        return self.stored()[storage.ROOT]

    def write(self, data, offset=0):
        """Write to the disk as the guest does."""
        sent = base64.b64encode(data).decode()
        self.control.write_disk(self.root['udid'], sent, offset)
        if offset < SAMPLE:
            old = self.written.ljust(offset + len(data), b'\0')
            self.written = old[:offset] + data + old[offset + len(data) :]

    def read(self):
        """Read the disk; return its size and its first bytes."""
        with self.disks.read_root(self.uuid) as found:
            return found.size, found.stream.read(SAMPLE)

    @property
    def expected(self):
        """What :meth:`read` should return."""
        size = round(self.root['capacity'] * 1024) * MB
        return size, self.written[:SAMPLE].ljust(SAMPLE, b'\0')

    def mappings(self, client):
        """Return server, slot and name of what is mapped to a partition."""
        return sorted(
            (partition['name'], mapping['client_slot'], mapping['name'])
            for partition in self._system()['partitions']
            for mapping in partition.get('scsi_mappings', ())
            if mapping['client'] == client
        )

    def links(self):
        """Return the names of the disks that appear."""
        return os.listdir(pathlib.Path(self.host_root) / 'dev/disk/by-id')

    def assert_returned(self):
        """Assert that the LPAR alone has its disk, at its slot."""
        self.assertEqual([], self.mappings(MANAGEMENT))
        self.assertEqual([], self.links())
        expected = [48] if self.disk_driver == 'localdisk' else [32, 48]
        self.assertEqual(
            expected, sorted(slot for _, slot, _ in self.mappings(base.NAME))
        )

    def refused(self, *words, is_off=True):
        """Assert that reading is refused in words, and changes nothing."""
        before = self.mappings(base.NAME)
        self.forget()
        for refuse in (
            lambda: self.disks.check_read(self.uuid, is_off=is_off),
            self.read,
        ):
            with self.assertRaises(exception.DiskUnreadable) as caught:
                refuse()
            for word in words:
                self.assertIn(word, str(caught.exception))
        self.assertEqual([], self.changes())
        self.assertEqual(before, self.mappings(base.NAME))


def hash_of(stream):
    """Read a stream to its end; return the number of bytes and the hash."""
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


class CommonMixin:
    """What holds wherever the disk is."""

    def test_second_read_returns_what_was_written_since(self):
        first = self.read()
        self.assertEqual(self.expected, first)
        self.write(b'written by the guest', 3 * MB)
        self.assertEqual(self.expected, self.read())

        with self.subTest('second reader'):
            with self.disks.read_root(self.uuid):
                self.assertRaises(exception.RestBusy, self.read)
                self.assertRaises(
                    exception.RestBusy, self.disks.end_read, self.uuid
                )
            self.assert_returned()

        with self.subTest('error of the reader'):
            with (
                self.assertRaises(ZeroDivisionError),
                self.disks.read_root(self.uuid) as found,
            ):
                found.stream.read(1)
                _ = 1 / 0
            self.assert_returned()

        with self.subTest('removal'):
            self.enterContext(
                unittest.mock.patch.object(disk_reading, '_CANCEL_SECONDS', 0)
            )
            with self.disks.read_root(self.uuid):
                with self.assertRaises(exception.RestBusy):
                    self.disks.remove(self.uuid)
                self.assertIn(storage.ROOT, self.stored())
            self.assert_returned()

    def test_check_returns_size_and_changes_nothing(self):
        self.assertEqual(1, self.disks.check_read(self.uuid, is_off=True))
        self.assertEqual([], self.changes())
        self.assertEqual([], self.links())

        with self.subTest('password'):
            self.is_local = False
            self.start_service()
            self.refused('logs on to the REST API with a password')
            self.is_local = True
            self.start_service()

        with self.subTest('no disk'):
            self.disks.remove(self.uuid)
            for refuse in (
                lambda: self.disks.check_read(self.uuid, is_off=True),
                self.read,
            ):
                self.assertRaises(exception.DiskMissing, refuse)

    def test_disk_that_ends_too_early_is_refused(self):
        with self.disks.read_root(self.uuid) as found:
            (path,) = self.device_files()
            os.truncate(path, MB)
            with self.assertRaisesRegex(
                exception.DiskUnreadable, f'ends after {MB} of'
            ):
                hash_of(found.stream)

    def test_removal_ends_reading_first(self):
        opened, ended = threading.Event(), []

        def read():
            with self.disks.read_root(self.uuid) as found:
                opened.set()
                with self.assertRaises(exception.ReadingCancelled):
                    while True:
                        found.stream.read(1)
                ended.append(True)

        thread = threading.Thread(target=read)
        thread.start()
        self.assertTrue(opened.wait(60))
        self.removals.destroy(base.INSTANCE)
        thread.join()
        self.assertEqual([True], ended)
        self.assert_nothing_left()
        self.assertEqual([], self.mappings(MANAGEMENT))

    def device_files(self):
        """Return the files of this size below ``dev``."""
        dev = pathlib.Path(self.host_root) / 'dev'
        return [
            path
            for path in dev.rglob('*')
            if path.is_file()
            and not path.is_symlink()
            and path.stat().st_size == self.expected[0]
        ]


class Planted:
    """What is on the management partition beside the disk that is read.

    :param root: The root directory of the partition.
    :ivar deleted: The files by which it would be deleted.
    """

    def __init__(self, root):
        self._root = pathlib.Path(root)
        self._made = []
        self.deleted = []

    def plant(self, name, link, size, at='devices/virtual/{}'):
        """Make a device of somebody else, and a link by its id to it."""
        directory = self._root / 'sys' / at.format(name)
        block = directory / 'block' / name
        self._link(block / 'device', '../..')
        self._link(self._root / 'sys/block' / name, block)
        self.deleted.append(self._make(directory / 'delete'))
        device = self._make(self._root / 'dev' / name, b'of somebody else')
        os.truncate(device, size)
        self._link(self._root / 'dev/disk/by-id' / link, f'../../{name}')

    def _make(self, path, data=b''):
        path.write_bytes(data)
        self._made.append(path)
        return path

    def _link(self, path, target):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        self._made.append(path)

    def contents(self):
        """Return what was written to the files that delete the devices."""
        return {path.read_bytes() for path in self.deleted}

    def remove(self):
        """Remove the devices."""
        for path in self._made:
            path.unlink()
        self._made.clear()
        self.deleted.clear()


class LentMixin(CommonMixin):
    """What holds where the disk is lent to the management partition."""

    def setUp(self):
        super().setUp()
        self.planted = Planted(self.host_root)
        self.addCleanup(self.planted.remove)

    def test_name_that_guest_writes_to_own_disk_leads_nobody_to_it(self):
        """Take the name of another tenant's disk.

        What a guest writes to its disk names arrays and volumes, and before
        all what they consist of: with LVM, md or multipath on the management
        partition, the links with these names sort first. The snapshot of the
        other had the bytes of this disk, without any scan.
        """
        size, expected = self.expected
        end = self.root['udid'][-32:]
        for number, kind in enumerate(
            (
                'dm-name-',
                'dm-uuid-LVM-',
                'lvm-pv-uuid-',
                'md-name-host:',
                'md-uuid-',
                'nvme-',
            )
        ):
            self.planted.plant(f'md{number}', f'{kind}{end}', size)
        found, data = self.read()
        self.assertEqual((size, expected[:32]), (found, data[:32]))
        self.assertEqual({b''}, self.planted.contents())
        self.planted.remove()
        self.assert_returned()

    def test_disk_that_shares_identity_is_refused_and_not_deleted(self):
        """Have two disks that say they are this one.

        The first link was read, whichever disk it led to, and both devices
        were deleted afterwards.
        """
        self.hurry()
        size, _ = self.expected
        end = self.root['udid'][-32:]
        self.planted.plant('sdz', f'scsi-0IBM_{end}', size, 'devices/pci/{}')
        with self.assertRaisesRegex(
            exception.DiskUnreadable, 'scsi-0IBM_.* to sdz.*LVM, mdadm'
        ):
            self.read()
        self.assertEqual({b''}, self.planted.contents())
        self.planted.remove()
        self.assert_returned()

        with self.subTest('at another adapter'):
            size, _ = self.expected
            end = self.root['udid'][-32:]
            write = management_partition.DirectFiles.write

            def appear(files, path, text):
                if text == '- - -' and not self.planted.deleted:
                    self.planted.plant(
                        'sdz',
                        f'wwn-0x{end}',
                        size,
                        'bus/vio/devices/30000063/host9/target9:0:0/9:0:0:0',
                    )
                write(files, path, text)

            with (
                unittest.mock.patch.object(
                    management_partition.DirectFiles, 'write', appear
                ),
                self.assertRaisesRegex(exception.DiskUnreadable, 'to sdz'),
            ):
                self.read()
            self.assertEqual({b''}, self.planted.contents())
            self.planted.remove()
            self.assert_returned()

    def test_lent_disk_is_opened_for_writing(self):
        size, _ = self.expected
        with self.lent(write=True) as disk:
            self.assertEqual(size, disk.size)
            disk.file.write(b'zeros')
            (path,) = self.device_files()
            self.assertEqual(str(path), disk.path)
            self.assertEqual(b'zeros', path.read_bytes()[:5])
            self.assertRaises(OSError, disk.file.read, 1)

    def hurry(self):
        """Wait less than a second for a disk."""
        self.enterContext(
            unittest.mock.patch.object(
                management_partition, 'APPEAR_SECONDS', 0.5
            )
        )

    def test_disk_that_is_not_what_it_should_be_is_refused_and_returned(self):
        with (
            unittest.mock.patch.object(
                management_partition, 'APPEAR_SECONDS', 0.1
            ),
            unittest.mock.patch.object(
                management_partition.DirectFiles, 'write', lambda *args: None
            ),
            self.assertRaisesRegex(exception.DiskUnreadable, 'not appear'),
        ):
            self.read()
        self.assert_returned()

        with self.subTest('the scan fails'):

            def fail(files, path, text):
                raise PermissionError(13, 'Permission denied', path)

            with (
                unittest.mock.patch.object(
                    management_partition.DirectFiles, 'write', fail
                ),
                self.assertRaisesRegex(exception.DiskUnreadable, 'denied'),
            ):
                self.read()
            self.assert_returned()

        with self.subTest('of other size'):
            size, _ = self.expected
            with (
                unittest.mock.patch.object(
                    host_root,
                    'units',
                    types.SimpleNamespace(to_bytes=lambda gb: size + 16 * MB),
                ),
                self.assertRaisesRegex(
                    exception.DiskUnreadable,
                    f'has {size + 16 * MB} bytes, and the host reports 1 GB',
                ),
            ):
                self.read()
            self.assert_returned()

        with self.subTest('another one replaces it'):
            size, _ = self.expected
            end = self.root['udid'][-32:]
            open_ = management_partition.DirectFiles.open

            def swap(files, path, **options):
                self.planted.plant('sdz', f'scsi-0IBM_{end}', size)
                return open_(files, path, **options)

            with (
                unittest.mock.patch.object(
                    management_partition.DirectFiles, 'open', swap
                ),
                self.assertRaisesRegex(
                    exception.DiskUnreadable, 'another one'
                ),
            ):
                self.read()
            self.planted.remove()
            self.assert_returned()

        with self.subTest('in use'):

            def refuse(files, path, *, write=False):
                raise OSError(errno.EBUSY, 'Device or resource busy', path)

            with (
                unittest.mock.patch.object(
                    management_partition.DirectFiles, 'open', refuse
                ),
                self.assertRaisesRegex(
                    exception.DiskUnwritable,
                    'cannot be written.*busy.*LVM, mdadm',
                ),
                self.lent(write=True),
            ):
                pass
            self.assertEqual([], self.mappings(MANAGEMENT))

    def test_read_is_refused_without_running_server(self):
        for name in ('vios1', 'vios2')[: len(self.mapped())]:
            self.control.set_partition(name, 'not activated')
        self.refused('running')

    def test_disk_is_unmapped_before_its_device_is_deleted(self):
        seen = []

        def note(files, path, text):
            write(files, path, text)
            seen.append((text, self.mappings(MANAGEMENT)))

        write = management_partition.DirectFiles.write
        self.enterContext(
            unittest.mock.patch.object(
                management_partition.DirectFiles, 'write', note
            )
        )
        self.read()
        self.assertEqual(('1', []), seen[-1])
        self.assertTrue(seen[0][1])

    def test_next_read_drops_device_that_killed_one_left(self):
        def die(files, path, text):
            if text == '1':
                raise test_kills.Killed
            write(files, path, text)

        write = management_partition.DirectFiles.write
        with (
            unittest.mock.patch.object(
                management_partition.DirectFiles, 'write', die
            ),
            self.assertRaises(test_kills.Killed),
        ):
            self.read()
        self.start_service()
        self.assertEqual([], self.mappings(MANAGEMENT))
        self.assertEqual(1, len(self.links()))
        self.assertEqual(self.expected, self.read())
        self.assert_returned()

    def lose(self):
        """Leave the disk as a reading leaves it that was killed."""
        with (
            kill_when(self.lent_after),
            contextlib.suppress(test_kills.Killed),
        ):
            self.read()
        self.start_service()
        self.assertEqual(1, len(self.mappings(MANAGEMENT)))

    def test_lost_disk_is_unmapped_and_taken_back_and_deleted(self):
        self.lose()
        self.disks.unmap_deleted(())
        self.assertEqual(1, len(self.mappings(MANAGEMENT)))

        self.disks.unmap_deleted()

        self.assertEqual([], self.mappings(MANAGEMENT))
        self.assertEqual([], self.links())

        with self.subTest('the next read takes it back'):
            self.assertEqual(1, self.disks.check_read(self.uuid, is_off=True))
            self.assertEqual(self.expected, self.read())
            self.assert_returned()

        with self.subTest('a start takes it back'):
            self.lose()
            self.set_state(base.OFF)
            self.run_plan(operations.START, self.wanted)
            self.assert_returned()
            self.assertEqual(base.RUNNING, self.lpar()['state'])

        with self.subTest('a deletion removes it'):
            self.set_state(self.state)
            self.lose()
            self.removals.destroy(base.INSTANCE)
            self.assert_nothing_left()
            self.assertEqual([], self.mappings(MANAGEMENT))
            self.assertEqual([], self.links())


@contextlib.contextmanager
def kill_when(number, methods=('POST',)):
    """Kill the service at the request after so many of some methods."""
    send = pvm_adapter.Session.request
    sent = 0

    def die(session, method, *args, **options):
        nonlocal sent
        if sent >= number:
            raise test_kills.Killed
        sent += method in methods
        return send(session, method, *args, **options)

    with unittest.mock.patch.object(pvm_adapter.Session, 'request', new=die):
        yield


class SweepMixin:
    """Faults and kills at each request of a reading."""

    def recover(self):
        """Have Nova start the server."""
        self.set_state(base.OFF)
        self.run_plan(operations.START, self.wanted)
        self.set_state(self.state)

    def test_reading_with_fault_at_each_request_is_made_good(self):
        self.enterContext(
            unittest.mock.patch.object(rest_errors, 'BUSY_SECONDS', 0)
        )
        # The first reading finds what later ones know.
        for _ in range(2):
            self.forget()
            self.read()
        requests = [
            f'{record["method"]} {record["label"]}'
            for record in self.control.journal()
        ]
        for number, request in enumerate(requests):
            is_first = request not in requests[:number]
            for fault in self.faults_of(request, is_first=is_first):
                with self.subTest(number=number, request=request, **fault):
                    self.assertTrue(self.fault_at(number, fault))

    def faults_of(self, request, *, is_first):
        """Return the faults that a request meets.

        :param is_first: Whether it is the first of its kind. A default run
            has the other requests meet what makes a difference there.
        """
        is_full = is_first or test_faults.ALL
        # A reading that fails fails in one way.
        if request.startswith('GET'):
            return (test_faults.ERROR,) if is_full else ()
        faults = (
            test_faults.ERROR,
            test_faults.LOST_ANSWER,
            test_faults.OUTDATED,
            test_faults.LOST_REQUEST,
        )
        return faults if is_full else faults[:2]

    def fault_at(self, number, fault):
        """Read with a fault; return whether it came that far."""
        self.control.clear_faults()
        self.control.add_fault(nth=number + 1, **fault)
        try:
            self.assertEqual(self.expected, self.read())
        except exception.PowerVMError:
            self.recover()
        self.assert_returned()
        return bool(self.control.faults()[0]['applied'])

    def test_reading_killed_at_each_change_is_made_good(self):
        for number in range(100):
            with self.subTest(number=number):
                if not self.kill_at(number):
                    break
        self.assertGreater(number, 1)

    def kill_at(self, number):
        """Kill the service after so many changes; return whether it could.

        That is at the next request, so that files are changed before it.
        """
        is_killed = False
        with kill_when(number):
            try:
                self.read()
            except test_kills.Killed:
                is_killed = True
        # The kill may have left a device that is not mapped.
        self.start_service()
        self.disks.unmap_deleted()
        self.recover()
        self.assertEqual(self.expected, self.read())
        self.assert_returned()
        return is_killed


class PoolReadingTest(LentMixin, SweepMixin, ReadingTestCase):
    disk_driver = 'ssp'
    state = base.RUNNING
    lent_after = 1

    def lent(self, *, write):
        """Lend the disk to the management partition."""
        found = self.disks._pool.root(self.uuid)
        element = ssp.element_of(found.stored)
        servers = self.disks._units.servers
        return self.disks.reader.lent(
            self.uuid, servers, element, found.disk.size_gb, write=write
        )

    def test_device_goes_whichever_mapping_of_disk_comes_first(self):
        self.set_state(base.OFF)
        mappings, (server, *_) = self.disks.mappings, self.disks._units.servers
        element = ssp.element_of(self.disks._pool.root(self.uuid).stored)
        for is_lent_first in (False, True):
            if is_lent_first:
                mappings.lend(server, element)
                mappings.attach(server, self.uuid, [element])
            else:
                mappings.attach(server, self.uuid, [element])
                mappings.lend(server, element)
            management = self.disks.management
            with (
                self.subTest(is_lent_first=is_lent_first),
                unittest.mock.patch.object(
                    management, 'drop', wraps=management.drop
                ) as dropped,
            ):
                mappings.detach(self.uuid)
                self.assertEqual(1, dropped.call_count)

    def test_read_returns_all_bytes_of_large_disk_in_constant_memory(self):
        last = b'written by the guest'
        size = self.expected[0]
        self.assertGreaterEqual(size, GB)
        self.write(last, size - len(last))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with self.disks.read_root(self.uuid) as found:
            self.assertEqual(size, found.size)
            read = hash_of(found.stream)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In KiB.
        self.assertLess(after - before, 8 * 1024)
        self.assertEqual((size, self.root['sha256']), read)
        self.assert_returned()

    def test_read_of_running_guest_leaves_its_mappings(self):
        before = self.mappings(base.NAME)
        with self.disks.read_root(self.uuid):
            self.assertEqual(before, self.mappings(base.NAME))
            self.assertEqual(1, len(self.mappings(MANAGEMENT)))
        self.assert_returned()

    def test_disk_is_read_by_one_running_server(self):
        self.control.set_partition('vios1', 'not activated')
        self.assertEqual(self.expected, self.read())

    def test_start_is_refused_while_disk_is_read(self):
        with self.disks.read_root(self.uuid):
            self.set_state(base.OFF)
            self.refused_start()

    def refused_start(self):
        """Assert that the server cannot be started."""
        super(ReadingTestCase, self).refused(
            exception.RestBusy, operations.START, self.wanted, 'being read'
        )


class GroupReadingTest(LentMixin, SweepMixin, ReadingTestCase):
    """The volume group of another Virtual I/O Server."""

    state = base.OFF
    lent_after = 2

    def lent(self, *, write):
        """Lend the disk to the management partition."""
        self.disks.mappings.detach(self.uuid)
        (root,) = self.disks.groups.read().virtual_disks
        vios = self.disks.groups.vios
        return self.disks.reader.lent(
            self.uuid, [vios], root, root.capacity, write=write
        )

    def prepare(self):
        super().prepare()
        self.set_state(base.OFF)

    def test_read_is_refused_while_guest_runs(self):
        self.set_state(base.RUNNING)
        self.refused('Stop the server first', is_off=False)

    def test_disk_that_nobody_has_waits_for_its_server(self):
        with (
            self.logged('ERROR') as logged,
            self.assertRaises(exception.PowerVMError),
            self.disks.read_root(self.uuid),
        ):
            self.control.set_partition('vios1', 'not activated')
            raise exception.RestError(action='sending', reason='failed')
        self.assertIn('stays disconnected', '\n'.join(logged.output))
        self.assertRaises(exception.RestBusy, self.disks.end_read, self.uuid)
        self.control.set_partition('vios1', 'running')
        with self.logged('WARNING'):
            self.assertTrue(self.disks.end_read(self.uuid))
        self.assert_returned()

    def test_check_before_stop_accepts_running_guest(self):
        self.set_state(base.RUNNING)
        self.assertEqual(1, self.disks.check_read(self.uuid, is_off=True))

    def test_disk_has_one_client_at_a_time(self):
        with self.disks.read_root(self.uuid):
            self.assertEqual([], self.mappings(base.NAME))
            self.assertEqual(1, len(self.mappings(MANAGEMENT)))
        self.assertEqual(['POST VirtualIOServer.update'] * 4, self.changes())

    def test_read_is_refused_at_other_slot(self):
        self.disks.mappings.detach(self.uuid)
        vios = self.lpar('vios1')['uuid'].upper()
        root = self.disks.groups.read().virtual_disks[0]
        with unittest.mock.patch.object(
            storage, 'virtual_slot', lambda name, server, rescued: 50
        ):
            self.disks.mappings.attach(vios, self.uuid, [root])
        self.refused('not connected alone at virtual slot 48')


class LocalReadingTest(CommonMixin, ReadingTestCase):
    """The management partition has the volume group itself."""

    def world(self):
        return base.managed_by_server(super().world())

    def test_read_sends_no_change(self):
        self.read()
        self.assertEqual([], self.changes())

    def test_disk_of_other_size_is_refused(self):
        os.truncate(self.file(), 1000 * MB)
        with self.assertRaisesRegex(
            exception.DiskUnreadable,
            f'has {1000 * MB} bytes, and the host reports 1 GB',
        ):
            self.read()

    def test_link_is_followed_to_disk(self):
        path = self.file()
        device = path.parents[1] / 'dm-3'
        path.rename(device)
        self.addCleanup(device.unlink)
        path.symlink_to('../dm-3')
        self.assertEqual(self.expected, self.read())

    def test_link_to_what_is_no_disk_is_refused(self):
        path = self.file()
        for target in '/dev/null', '/dev/zero', str(path.parent):
            path.unlink()
            path.symlink_to(target)
            with self.assertRaisesRegex(
                exception.DiskUnreadable, 'Block device required'
            ):
                self.read()

    def file(self):
        """Return the file with the bytes of the root disk."""
        path = pathlib.Path(self.host_root, 'dev/image_pool')
        return path / self.root['name']

    def test_disk_is_opened_for_writing(self):
        path = self.file()
        local = '/' + str(path.relative_to(self.host_root))
        with self.disks.management.opened_local(local, 1, write=True) as disk:
            self.assertEqual(self.expected[0], disk.size)
            disk.file.write(b'zeros')
        self.assertEqual(b'zeros', path.read_bytes()[:5])
        self.assertEqual(self.expected[0], path.stat().st_size)

    def test_read_is_refused_without_connection(self):
        self.disks.mappings.detach(self.uuid)
        self.refused('no path')
