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

"""Hosts that are like what a report says."""

import copy
import json
import pathlib
import tempfile
import unittest

import requests

from powervm_emulator import likeness
from powervm_emulator import options
from powervm_emulator import serving
from powervm_emulator import worlds
from powervm_emulator.core import habits

from . import base

VALUES = {
    'owners': False,
    'model': '9105-42A',
    'regions': 128,
    'modes': ['default', 'POWER10'],
    'aix': 'Inactive',
    'uptime': 77,
    'management-switch': 'Veb',
    'events': 2.5,
    'remote-restart': False,
    'secure-boot': False,
    'live-migration': False,
    'power': [],
    'header': False,
    'expiry': 403,
    'unchanged': False,
    'migration-jobs': ['MigrateRecover'],
    'ids': {'cards': 3, 'doubted': 1},
}
REPORT = {
    'format': 1,
    'durations': {'ManagedSystem': 0.2, 'VolumeGroup': 0.01},
    'checks': {name: {'value': value} for name, value in VALUES.items()},
}


class LikenessTest(unittest.TestCase):
    def write(self, report):
        """Write a report, and return its path."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(folder) / 'report.json'
        path.write_text(json.dumps(report))
        return str(path)

    def test_world_is_like_the_report(self):
        like = likeness.read(self.write(REPORT))
        before = worlds.default()
        world = like.change(before)
        self.assertEqual(worlds.default(), before)
        worlds.check(world)
        (system,) = world['systems']
        self.assertIs(False, system['reports_slot_owners'])
        self.assertEqual(
            ('9105', '42A', 128),
            (
                system['machine_type'],
                system['model'],
                system['memory']['region_size'],
            ),
        )
        self.assertEqual(
            ['default', 'POWER10'], system['processors']['compatibility_modes']
        )
        self.assertEqual(
            {
                'live_migration': False,
                'simplified_remote_restart': False,
                'secure_boot': False,
                'aix': 'Inactive',
            },
            system['capabilities'],
        )
        self.assertEqual(77, system['partitions'][0]['uptime'])
        self.assertIn(
            {'name': 'MGMTSWITCH', 'mode': 'Veb'}, system['virtual_switches']
        )
        self.assertEqual(2.5, like.event_wait)

    def test_what_is_not_known_stays(self):
        nothing = {name: {'value': None} for name in VALUES}
        for checks in ({}, nothing):
            report = REPORT | {'checks': checks, 'durations': {}}
            like = likeness.read(self.write(report))
            self.assertEqual(worlds.default(), like.change(worlds.default()))
            self.assertEqual([], [*like.faults()])
            self.assertIsNone(like.event_wait)
            self.assertEqual(habits.Habits(), like.habits)

    def test_slow_reads_and_missing_jobs_are_faults(self):
        (job, slow) = likeness.read(self.write(REPORT)).faults()
        uuid = '48A70639-EB11-47B3-A7A9-C3787C65C1E5'
        path = f'/rest/api/uom/LogicalPartition/{uuid}/do/Migrate'
        self.assertTrue(job.matches('GET', f'{path}Recover', ''))
        self.assertTrue(job.matches('PUT', f'{path}Recover', ''))
        self.assertFalse(job.matches('GET', f'{path}Abort', ''))
        self.assertEqual((404, 0.2), (job.status, slow.delay))
        system = '/rest/api/uom/ManagedSystem'
        for end in ('', '?group=None', f'/{uuid}', f'/{uuid}?group=None'):
            self.assertTrue(slow.matches('GET', f'{system}{end}', ''), end)
        self.assertFalse(
            slow.matches('GET', f'{system}/{uuid}/VirtualSwitch', '')
        )
        self.assertFalse(slow.matches('POST', system, ''))

    def test_other_files_are_refused_with_their_name(self):
        wrong = copy.deepcopy(REPORT)
        wrong['checks']['regions']['value'] = 'many'
        for report, words in (
            ([], 'the document'),
            (REPORT | {'format': 2}, 'format'),
            (REPORT | {'durations': {'../x': 1}}, 'durations'),
            (wrong, 'checks.regions.value'),
        ):
            path = self.write(report)
            with self.assertRaises(likeness.LikenessError) as caught:
                likeness.read(path)
            self.assertRegex(str(caught.exception), f'{path}: {words}')
        with self.assertRaisesRegex(likeness.LikenessError, '/none: No such'):
            likeness.read('/none')

    def test_command_gives_each_host_the_habits(self):
        report = self.write(REPORT)
        parsed = options.parse(['--like', report])
        (application,) = serving._applications(parsed, None)
        self.addCleanup(application.close)
        emulation = application.emulation
        self.assertEqual(2.5, emulation.event_wait)
        self.assertEqual('9105', emulation.world['systems'][0]['machine_type'])
        self.assertEqual(2, len(emulation.faults.all()))
        self.assertEqual(habits.Habits(403, False, False), emulation.habits)


class HabitsTest(base.EmulatorTestCase):
    """What a host with other habits answers."""

    def read(self, **headers):
        """Read the system as a client does; return the answer."""
        return requests.get(
            f'{self.emulator.url}/rest/api/uom/ManagedSystem',
            headers=headers,
            timeout=60,
        )

    def test_habits_are_in_every_answer(self):
        application = self.emulator._application
        token = application.emulation.host.sessions.open()
        for other, expected in (
            (habits.Habits(), (401, 'PVM', 304)),
            (habits.Habits(403, False, False), (403, None, 200)),
        ):
            application.emulation.habits = other
            refused = self.read()
            session = {'X-API-Session': token}
            etag = self.read(**session).headers['ETag']
            again = self.read(**session, **{'If-None-Match': etag})
            self.assertEqual(
                expected,
                (
                    refused.status_code,
                    again.headers.get('X-MC-Type'),
                    again.status_code,
                ),
            )
