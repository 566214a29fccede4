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

import contextlib
import copy
import json
import pathlib
import re
import tempfile
import unittest

import requests
from pypowervm import const
from pypowervm import exceptions
from pypowervm.wrappers import virtual_io_server

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


#: Of the mode ``partition``, and of what is listed.
HABITS = {
    'unknown-slot': {'value': False, 'status': None},
    'same-mac': {'value': True, 'status': 409},
    'damaged-upload': {'value': None, 'status': 503},
    'running-adapter': {'value': False, 'status': None},
    'lpar-etag': {'value': 409},
    'group-etag': {'value': 0},
    'mapping-etag': {'value': 0},
    'orders': {'value': {'slots': 'other', 'lpars': 'unknown'}},
    'silent-servers': {
        'value': {'servers': 1, 'ports': 0, 'disks': 3, 'mappings': 0}
    },
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

    def test_report_of_an_hmc_makes_one(self):
        for version, expected in (('V11R2', 'V11R2'), ('', 'V10R3')):
            checks = {'kind': {'value': 'HMC'}}
            checks['hmc-version'] = {'value': version}
            like = likeness.read(self.write(REPORT | {'checks': checks}))
            world = like.change(worlds.default())
            worlds.check(world)
            self.assertEqual(expected, world['hmc'])

    def test_refusals_orders_and_silence_are_habits(self):
        """A status counts only with a refusal: it may be of another error."""
        like = likeness.read(
            self.write(REPORT),
            self.write(REPORT | {'checks': HABITS}),
        )
        self.assertFalse(like.values['header'])
        found = like.habits
        self.assertEqual(
            {
                *('unknown-slot', 'running-network adapters'),
                *('group-etag', 'mapping-etag'),
            },
            found.accepts,
        )
        self.assertEqual({'same-mac': 409, 'lpar-etag': 409}, found.statuses)
        self.assertEqual({'slots': 'other'}, found.orders)
        self.assertEqual({'ports', 'mappings'}, found.hidden)

    def test_second_report_leaves_what_it_does_not_know(self):
        nothing = {'owners': {'value': None}}
        like = likeness.read(
            self.write(REPORT), self.write(REPORT | {'checks': nothing})
        )
        self.assertIs(False, like.values['owners'])

    def test_command_gives_each_host_the_habits(self):
        report = self.write(REPORT)
        parsed = options.parse(['--like', report, '--like', report])
        (application,) = serving._applications(parsed, None)
        self.addCleanup(application.close)
        emulation = application.emulation
        self.assertEqual(2.5, emulation.event_wait)
        self.assertEqual('9105', emulation.world['systems'][0]['machine_type'])
        self.assertEqual(2, len(emulation.faults.all()))
        self.assertEqual(habits.Habits(403, False, False), emulation.habits)


class ReshapingTest(base.EmulatorTestCase):
    """What a host with other habits lists and shows."""

    def setUp(self):
        super().setUp()
        world = worlds.default()
        (system,) = world['systems']
        server = {
            'capture': {'file': 'fake_vios_feed.txt'},
            'name': 'captured',
            'uuid': 'random',
            'id': 9,
        }
        system['virtual_io_servers'].append(server)
        self.control.load_world(world)

    def read(self, noun):
        """Return the document of a noun, with all that it has."""
        application = self.emulator._application
        token = application.emulation.host.sessions.open()
        groups = 'ViosFCMapping,ViosSCSIMapping,ViosStorage'
        return requests.get(
            f'{self.emulator.url}/rest/api/uom/{noun}?group={groups}',
            headers={'X-API-Session': token},
            timeout=60,
        ).text

    def use(self, **values):
        """Give the emulator habits."""
        application = self.emulator._application
        application.emulation.habits = habits.Habits(**values)

    def test_order_is_that_of_the_habit(self):
        for noun, what, pattern in (
            (
                'ManagedSystem',
                'slots',
                r'<IOSlot .*?ConnectorIndex [^>]*>(\d+)<.*?</IOSlot>',
            ),
            ('LogicalPartition', 'lpars', r'<PartitionID [^>]*>(\d+)<'),
            (
                'VirtualIOServer',
                'mappings',
                r'<VirtualSCSIMapping .*?<ServerAdapter.*?'
                r'<VirtualSlotNumber [^>]*>(\d+)<.*?</VirtualSCSIMapping>',
            ),
        ):
            with self.subTest(what):
                self.use()
                before = re.findall(pattern, self.read(noun), re.DOTALL)
                self.assertGreater(len(before), 2)
                rising = sorted(before, key=int)
                for order, expected in (
                    ('ascending', rising),
                    ('descending', rising[::-1]),
                    ('other', rising[1::2] + rising[::2]),
                ):
                    self.use(orders={what: order})
                    text = self.read(noun)
                    found = re.findall(pattern, text, re.DOTALL)
                    self.assertEqual(expected, found)
                    self.assertNotIn('<?xml', text)

    def test_silent_server_does_not_show_what_is_hidden(self):
        names = 'PhysicalVolume', 'VirtualSCSIMapping'
        for state, hidden, expected in (
            ('running', {'disks', 'mappings'}, (True, True)),
            ('not activated', set(), (True, True)),
            ('not activated', {'disks'}, (False, True)),
            ('not activated', {'mappings'}, (True, False)),
        ):
            self.control.set_partition('captured', state=state)
            self.use(hidden=frozenset(hidden))
            text = self.read('VirtualIOServer')
            server = text[text.index('>captured<') :]
            found = tuple(f'<{name} ' in server for name in names)
            self.assertEqual(expected, found, (state, hidden))

    def test_hidden_mappings_cannot_be_written_over(self):
        groups = (const.XAG.VIO_SMAP,)
        for state, refused in (('not activated', True), ('running', False)):
            self.control.set_partition('captured', state=state)
            self.use(hidden=frozenset({'mappings'}))
            (server,) = (
                one
                for one in virtual_io_server.VIOS.get(self.adapter, xag=groups)
                if one.name == 'captured'
            )
            with contextlib.ExitStack() as stack:
                if refused:
                    stack.enter_context(
                        self.assertRaisesRegex(exceptions.HttpError, state)
                    )
                server.update()
            self.use()
            self.assertIn('<VirtualSCSIMapping ', self.read('VirtualIOServer'))


class HabitsTest(base.EmulatorTestCase):
    """What a host with other habits answers."""

    def test_running_partition_that_is_deleted_gives_back_what_it_has(self):
        application = self.emulator._application
        host = application.emulation.host
        (found,) = (
            one
            for one in host.all('LogicalPartition')
            if one.name == 'database'
        )
        (system,) = host.all('ManagedSystem')
        free = system.memory_available
        url = f'{self.emulator.url}/rest/api/uom/LogicalPartition/{found.uuid}'
        headers = {'X-API-Session': host.sessions.open()}
        for habit, status in (
            (habits.Habits(), 500),
            (habits.Habits(statuses={'running-deletion': 409}), 409),
            (habits.Habits(accepts={'running-deletion'}), 204),
        ):
            application.emulation.habits = habit
            answer = requests.delete(url, headers=headers, timeout=60)
            self.assertEqual(status, answer.status_code)
        taken = found.held.total_memory
        self.assertGreater(taken, 0)
        self.assertEqual(free + taken, system.memory_available)

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
