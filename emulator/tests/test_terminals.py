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

"""Terminals of partitions: mkvterm and rmvterm, and what viewers see."""

import pathlib
import struct
import subprocess
import tempfile
import unittest

from pypowervm.tasks import power
from pypowervm.tasks import vterm

from powervm_emulator.core import screen

from . import base
from . import rfb_viewer

_JOB = 'PUT LogicalPartition.job'


class TerminalTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.lpar = self.create('vm1')

    def open(self, **options):
        """Open the terminal as mkvterm does; return its port."""
        opened = self.control.open_terminal('vm1', **options)
        self.assertEqual(0, opened['code'])
        return opened['port']

    def open_again(self):
        """Return the port of the terminal, which is open."""
        opened = self.control.open_terminal('vm1')
        self.assertEqual(3, opened['code'])
        return opened['port']

    def view(self, port):
        """Connect a viewer that leaves when the test ends."""
        viewer = rfb_viewer.Viewer(port)
        self.addCleanup(viewer.close)
        return viewer.greet()

    def test_screen_shows_name_state_and_reference_code(self):
        viewer = self.view(self.open())
        self.assertEqual('vm1', viewer.name)
        for text in ('vm1', 'state not activated', 'code 00000000'):
            self.assertTrue(rfb_viewer.shows(viewer.picture(), text), text)
            # It asks for all of the picture again.
            viewer.forget()

    def test_screen_changes_when_partition_starts(self):
        viewer = self.view(self.open())
        viewer.picture()
        power.power_on(self.lpar, None)
        viewer.find('state running')

    def test_screen_shows_what_is_typed(self):
        viewer = self.view(self.open())
        viewer.picture()
        viewer.type('ls\nrm')
        viewer.find('> ls')
        viewer.find('> rm')

    def test_screen_of_small_pixels_is_smaller(self):
        viewer = self.view(self.open())
        # Eight bits for each pixel.
        viewer.write(struct.pack('>BxxxBBBBHHHBBBxxx', 0, 8, *[0] * 9))
        viewer.write(struct.pack('>BBHHHH', 3, 0, 0, 0, 0, 0))
        viewer.read(16)
        self.assertEqual(
            screen.draw(['vm1'], 1)[: screen.WIDTH],
            viewer.read(screen.WIDTH * screen.HEIGHT)[: screen.WIDTH],
        )

    def test_open_terminal_has_one_port_for_several_viewers(self):
        port = self.open()
        self.assertEqual(port, self.open_again())
        one, two = self.view(port), self.view(port)
        one.type('both')
        two.find('> both')

    def test_closed_terminal_lets_viewers_go(self):
        port = self.open()
        viewer = self.view(port)
        self.control.close_terminal('vm1')
        with self.assertRaises(EOFError):
            viewer.read(1)
        self.assertRaises(ConnectionRefusedError, rfb_viewer.Viewer, port)
        self.control.close_terminal('vm1')

    def test_deletion_closes_terminal(self):
        viewer = self.view(self.open())
        self.lpar.delete()
        with self.assertRaises(EOFError):
            viewer.read(1)

    def test_reset_and_loss_of_power_close_terminals(self):
        for verb in ('reset', 'power_off_system'):
            name = self.control.state()['systems'][0]['partitions'][0]['name']
            opened = self.control.open_terminal(name)
            viewer = self.view(opened['port'])
            getattr(self.control, verb)()
            with self.subTest(verb), self.assertRaises(EOFError):
                viewer.read(1)

    def test_job_closes_terminal_that_somebody_has_open(self):
        self.assertIsNone(self.open(vnc=False))
        vterm.close_vterm(self.adapter, self.lpar.uuid)
        self.assertEqual(0, self.control.open_terminal('vm1')['code'])

    def test_job_without_open_terminal_succeeds(self):
        vterm.close_vterm(self.adapter, self.lpar.uuid)
        # pypowervm raises the errors of jobs.
        self.assertEqual(1, self.control.journal_counts()[_JOB])

    def test_viewer_of_another_protocol_is_let_go(self):
        for said in (b'RFB 003.003\n', b'GET / HTTP/1', bytes(12)):
            port = self.control.open_terminal('vm1')['port']
            viewer = rfb_viewer.Viewer(port)
            self.addCleanup(viewer.close)
            viewer.write(said)
            viewer.read(len(rfb_viewer.VERSION))
            with self.assertRaises((EOFError, ConnectionError)):
                viewer.read(1)


class CommandTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.enterContext(tempfile.TemporaryDirectory())
        self.emulator = base.start(self, host_root=self.directory)
        self.control = self.emulator.control
        self.adapter = base.adapter_for(self.emulator)
        self.addCleanup(base.forget, self.adapter.session)
        self.lpar = self.create('vm1')

    def run_command(self, name, *arguments):
        """Run a command of the management partition."""
        return subprocess.run(
            [pathlib.Path(self.directory, 'bin', name), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def make(self, partition=None):
        """Run mkvterm as pypowervm does."""
        return self.run_command(
            'mkvterm',
            '--id',
            str(partition or self.lpar.id),
            '--vnc',
            '--local',
        )

    def test_mkvterm_tells_port_and_whether_it_was_open(self):
        first, second = self.make(), self.make()
        self.assertEqual((0, 3), (first.returncode, second.returncode))
        self.assertEqual(first.stdout, second.stdout)
        with rfb_viewer.Viewer(int(first.stdout)) as viewer:
            self.assertEqual('vm1', viewer.greet().name)

    def test_mkvterm_tells_no_port_of_terminal_without(self):
        self.control.open_terminal('vm1', vnc=False)
        made = self.make()
        self.assertEqual((3, ''), (made.returncode, made.stdout))
        self.assertIn('open', made.stderr)

    def test_mkvterm_fails_once_when_planned(self):
        self.control.plan_terminal('HSCL1234 no')
        made = self.make()
        self.assertEqual((1, ''), (made.returncode, made.stdout))
        self.assertIn('HSCL1234 no', made.stderr)
        self.assertEqual(0, self.make().returncode)

    def test_mkvterm_of_unknown_partition_fails(self):
        made = self.make(4711)
        self.assertEqual(1, made.returncode)
        self.assertIn('4711', made.stderr)

    def test_rmvterm_closes_terminal(self):
        self.make()
        removed = self.run_command('rmvterm', '--id', str(self.lpar.id))
        self.assertEqual(0, removed.returncode)
        self.assertEqual(0, self.make().returncode)

    def test_commands_go_when_emulator_stops(self):
        self.emulator.stop()
        self.assertFalse(pathlib.Path(self.directory, 'bin').exists())


class FontTest(unittest.TestCase):
    def test_rows_of_unknown_letter_are_those_of_question_mark(self):
        self.assertEqual(screen.rows_of('?'), screen.rows_of('~'))

    def test_letters_have_rows_of_their_own(self):
        letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:>/=,+()? '
        self.assertEqual(
            len(letters), len({tuple(screen.rows_of(one)) for one in letters})
        )

    def test_picture_shows_last_lines_cut_at_its_edge(self):
        lines = [f'line {number}' for number in range(20)] + ['x' * 99]
        picture = screen.draw(lines, 1)
        self.assertEqual(screen.WIDTH * screen.HEIGHT, len(picture))
        rows = [
            picture[at : at + screen.WIDTH].replace(b'\xff', b'#').decode()
            for at in range(0, len(picture), screen.WIDTH)
        ]
        shown = [row.replace('\0', '.') for row in rows]
        self.assertTrue(rfb_viewer.shows(shown, 'line 19'))
        self.assertFalse(rfb_viewer.shows(shown, 'line 12'))
