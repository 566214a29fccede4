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

"""Stored answers of the REST server, read from files."""

import pathlib
import re
import tempfile
import unittest

from emulator.tests import base
from nova_powervm import exception
from nova_powervm.powervm import captures
from nova_powervm.powervm import system
from powervm_emulator import worlds
from powervm_emulator.core import captures as emulated
from tests.unit.powervm import hosts

_ENTRY = (
    '<entry xmlns="http://www.w3.org/2005/Atom"><id>1</id><content>'
    '<{kind} xmlns="http://www.ibm.com/xmlns/systems/power/firmware/uom/mc/'
    '2012_10/">{inside}</{kind}></content></entry>'
)

OTHER_SYSTEM = '00000000-0000-4000-8000-000000000001'


def _moved(text, uuid):
    """Say that stored partitions are those of another system."""
    return re.sub(
        r'(/ManagedSystem/)[0-9a-fA-F-]{36}', rf'\g<1>{uuid}', text
    ).encode()


class CapturesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def refused(self, *paths, name=None):
        with self.assertRaises(exception.ConfigurationError) as caught:
            captures.read([str(path) for path in paths], name)
        return str(caught.exception)

    def test_pypowervm_capture_is_read(self):
        path = emulated.folder() / 'sys_with_sriov.txt'
        capture = captures.read([str(path)])
        self.assertEqual(15, len(capture.system.io_slots))
        self.assertFalse(capture.owners_known)
        shared = [s.drc_index for s in capture.system.io_slots if s.sriov]
        self.assertEqual([0x21010020, 0x21010023], shared)

    def test_atom_feed_and_atom_entry_are_read_alike(self):
        text = (emulated.folder() / 'sys_with_sriov.txt').read_bytes()
        feed = text.partition(b'BODY{')[2].partition(b'END OF SECTION')[0]
        entry = re.search(rb'<entry.*?</entry>', feed, re.DOTALL)
        expected = captures.read([self.write('feed.xml', feed.strip())])
        self.assertEqual(15, len(expected.system.io_slots))
        atom = b' xmlns="http://www.w3.org/2005/Atom"'
        found = (
            entry[0].replace(atom, b'').replace(b'<entry', b'<entry' + atom)
        )
        one = self.write('entry.xml', found)
        self.assertEqual(expected, captures.read([one]))

    def test_system_name_selects_one_of_several_systems(self):
        path = emulated.folder() / 'managedsystem.txt'
        capture = captures.read([str(path)], 'HV4')
        self.assertTrue(capture.owners_known)
        owned = [s for s in capture.system.io_slots if s.owner]
        self.assertEqual(['VIOS vios1'], [str(s.owner) for s in owned])
        self.assertIn('--system-name', self.refused(path))
        self.assertIn('HV4', self.refused(path, name='HV5'))

    def test_only_a_system_that_denies_it_cannot_run_aix(self):
        # The 8408-E8E runs AIX without saying so.
        for file, name, has_aix in (
            ('managedsystem.txt', 'HV4', False),
            ('managedsystem.txt', 'Server-8246-L1C-SN0604CAA', True),
            ('sys_with_sriov.txt', None, True),
        ):
            with self.subTest(file=file, name=name):
                path = emulated.folder() / file
                capture = captures.read([str(path)], name)
                self.assertEqual(has_aix, capture.system.has_aix)

    def test_answers_for_another_system_do_not_tell_owners(self):
        folder = emulated.folder()
        lpars, vioses = (
            (folder / name).read_text()
            for name in ('fake_lpar_feed.txt', 'fake_vios_feed.txt')
        )
        system = folder / 'sys_with_sriov.txt'
        own = captures.read([str(system)]).system.uuid
        for lpar_of, vios_of, expected in (
            (own, own, True),
            (own, OTHER_SYSTEM, False),
            (OTHER_SYSTEM, own, False),
            (OTHER_SYSTEM, OTHER_SYSTEM, False),
        ):
            with self.subTest(lpar_of=lpar_of, vios_of=vios_of):
                paths = [
                    self.write('lpars.txt', _moved(lpars, lpar_of)),
                    self.write('vioses.txt', _moved(vioses, vios_of)),
                ]
                capture = captures.read([str(system), *paths])
                self.assertEqual(expected, capture.owners_known)

    def test_file_without_rest_answer_is_refused(self):
        for content in (
            b'',
            b'BODY{',
            b'\x00\xff',
            b'<a/>',
            b'<html><body/></html>',
            b'<feed xmlns="http://www.w3.org/2005/Atom"><entry/></feed>',
            b'<feed xmlns="http://www.w3.org/2005/Atom"/>',
            _ENTRY.format(kind='Cluster', inside='').encode(),
            _ENTRY.format(kind='ManagedSystem', inside='').encode(),
            _ENTRY.format(
                kind='ManagedSystem',
                inside='<AssociatedSystemIOConfiguration/>',
            ).encode(),
            _ENTRY.format(kind='LogicalPartition', inside='').encode(),
        ):
            with self.subTest(content=content):
                path = self.write('bad.xml', content)
                message = self.refused(path)
                self.assertIn(path, message)
                self.assertIn('Store what a GET', message)

    def test_unreadable_file_is_refused(self):
        message = self.refused(self.directory / 'missing')
        self.assertIn('cannot be read', message)
        self.assertIn('cannot be read', self.refused(self.directory))


class SameTranslationTest(unittest.TestCase):
    """What a file says is what the server says."""

    def test_capture_equals_live_reading_however_owners_are_told(self):
        for reported, claimed in ((True, True), (False, False), (True, False)):
            with self.subTest(reported=reported, claimed=claimed):
                self.check(reported, claimed)

    def check(self, reported, claimed):
        base.quieten(self)
        world = worlds.default()
        world['systems'][0]['reports_slot_owners'] = reported
        world['systems'][0]['slot_owner_capability'] = claimed
        emulator = base.start(self, world=world)
        live = self.live(emulator)
        self.assertTrue(any(slot.owner for slot in live.io_slots))
        with tempfile.TemporaryDirectory() as directory:
            kinds = ('ManagedSystem', 'LogicalPartition', 'VirtualIOServer')
            stored = [self.store(emulator, directory, k) for k in kinds]
            whole = captures.read(stored)
            self.assertEqual(live, whole.system)
            self.assertTrue(whole.owners_known)
            for some in (stored[:1], stored[:2], stored[::2]):
                self.assertEqual(claimed, captures.read(some).owners_known)
            alone = captures.read(stored[:1]).system.io_slots
            self.assertEqual(reported, any(slot.owner for slot in alone))

    def live(self, emulator):
        adapter = hosts.connect(self, emulator)
        return system.RestSystem(adapter, hosts.server_of(emulator)).read()

    def store(self, emulator, directory, kind):
        adapter = base.adapter_for(emulator)
        body = adapter.read(kind).body
        base.forget(adapter.session)
        path = pathlib.Path(directory, f'{kind}.xml')
        path.write_text(body)
        return str(path)
