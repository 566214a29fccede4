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

"""``nova-powervm-check partition`` with an emulated host."""

import contextlib
import copy
import io
import json
import re
import signal
import unittest
from unittest import mock

import jsonschema
from pypowervm import adapter as pvm_adapter
from pypowervm.wrappers import storage as pvm_storage

from emulator.tests import base as emulator_base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.check import trial
from nova_powervm.powervm.disk import volume_groups
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app
from nova_powervm.tool.check import partition_checks
from nova_powervm.tool.check import report
from powervm_emulator import likeness
from powervm_emulator import worlds
from powervm_emulator.core import habits
from tests.ops import test_check
from tests.ops import test_faults
from tests.ops import test_kills
from tests.unit.powervm import hosts

CHECKS = partition_checks.CHECKS
BY_NAME = {check.name: check for check in CHECKS}
GROUP = 'image_pool'
#: Seconds that the host holds a poll.
WAIT = 0.05
#: Of the changes of a run, one in so many is interrupted by default.
SAMPLE = 13

#: Rules that an emulated host can do without. Without the one that spares an
#: LPAR that runs, there would be none for the checks after it.
LENIENT = frozenset(
    {
        'group-etag',
        'mapping-etag',
        'unknown-slot',
        'damaged-upload',
        'mapped-deletion',
        'running-network adapters',
    }
)

Strange = test_check.Strange
element = test_check.element


class Lax:
    """Has a host do what it is to refuse, or not do what it says.

    :param method: Of the requests.
    :param path: Searched in their URLs.
    :param forwards: Whether the host gets the requests; what it refuses looks
        as if it were done.
    """

    def __init__(self, method, path, *, forwards=True):
        self._method = method
        self._path = path
        self._forwards = forwards

    def on(self, test):
        real = http_limits.Client.request

        def request(client, method, url, **kwargs):
            is_meant = method == self._method and re.search(self._path, url)
            if is_meant and not self._forwards:
                test.changed = True
                # What the host would answer to a reading.
                method = 'GET'
                kwargs = {**kwargs, 'data': None}
            answer = real(client, method, url, **kwargs)
            if is_meant and self._forwards and answer.status_code >= 400:
                test.changed = True
                answer = real(client, 'GET', url, **{**kwargs, 'data': None})
            if is_meant:
                answer.status_code = 200
            return answer

        test.enterContext(
            mock.patch.object(http_limits.Client, 'request', request)
        )


class Rewritten:
    """Gives a host something else than it was asked to make.

    :param name: Name of an element in the bodies of creations.
    :param start: The first two digits of its text.
    """

    def __init__(self, name, start):
        self._name = name
        self._start = start

    def on(self, test):
        real = http_limits.Client.request

        def request(client, method, url, **kwargs):
            body = kwargs.get('data')
            if method == 'PUT' and body:
                pattern = f'({self._name}[^>]*>)[0-9A-Fa-f]{{2}}'
                kwargs['data'] = re.sub(
                    pattern.encode(), rb'\g<1>' + self._start.encode(), body
                )
                test.changed = test.changed or kwargs['data'] != body
            return real(client, method, url, **kwargs)

        test.enterContext(
            mock.patch.object(http_limits.Client, 'request', request)
        )


class Forgotten:
    """Has a host forget that an image has a clone."""

    def on(self, test):
        pool = test.trial.pool
        pool.units.delete(pool.clone)
        test.changed = True


def without_rmc(test):
    """Return the answer for an LPAR that has lost its RMC connection."""
    lpar = test.trial.names.lpar
    test.emulator.control.set_partition(lpar, rmc_state='inactive')
    answer = BY_NAME['running-adapter'].ask(test.trial)
    test.emulator.control.set_partition(lpar, rmc_state='active')
    return answer


def state(text):
    """Return a host that shows a state of LPARs."""
    return Strange('quick', lambda body: json.dumps(text).encode())


_lpar = r'LogicalPartition/[0-9A-Fa-f-]{36}$'
_group = 'VolumeGroup/[0-9a-f-]{36}'
_unit = 'LogicalUnit'
_contents = 'File/contents'
#: Name of a check -> what makes it fail once the earlier ones are done.
CASES = {
    'creation': Strange(
        'LogicalPartition', element('PartitionName', 'other', 'nova-check-.*')
    ),
    'first-state': state('running'),
    'virtual-slots': Strange(
        'LogicalPartition', element('MaximumVirtualIOSlots', '10')
    ),
    'lpar-etag': Lax('POST', 'LogicalPartition'),
    'unknown-slot': Lax('POST', 'LogicalPartition'),
    'adapter': Strange(
        'ClientNetworkAdapter', element('PortVLANID', '1', '4000')
    ),
    'adapter-slot': Strange(
        'ClientNetworkAdapter', element('VirtualSlotNumber', '2', '16')
    ),
    'same-mac': Rewritten('MACAddress', '0E'),
    'adapter-removal': Lax('DELETE', 'ClientNetworkAdapter', forwards=False),
    'disk': Strange(_group, element('UniqueDeviceID', ''), method='POST'),
    'group-space': Strange(_group, element('AvailableSize', '99')),
    'group-etag': Lax('POST', _group),
    'damaged-upload': Lax('PUT', _contents),
    'short-upload': Lax('PUT', _contents),
    'upload': test_check.Fault(
        _contents, method='PUT', status=500, every=True
    ),
    'medium': Strange('VolumeGroup', element('MediaName', 'other')),
    'mappings': Strange(
        'VirtualIOServer', element('VirtualSlotNumber', '9', '6[23]')
    ),
    'remapping': Lax('POST', 'VirtualIOServer', forwards=False),
    'mapping-etag': Lax('POST', 'VirtualIOServer'),
    'growth': Strange('VolumeGroup', element('DiskCapacity', '2', '3[.0]*')),
    'mapped-deletion': Lax('POST', _group),
    'pool-image': test_check.Fault(
        _contents, method='PUT', status=500, every=True
    ),
    'pool-clone': Strange(_unit, element('ClonedFrom', '29'), method='PUT'),
    'pool-space': Strange('SharedStoragePool', element('FreeSpace', '1')),
    'cloned-image-deletion': Lax('DELETE', _unit),
    'cloned-image-upload': Forgotten(),
    'pool-rename': Strange(
        _unit, element('UnitName', 'other', 'novachk.*'), method='POST'
    ),
    'pool-mapping': Strange(
        'VirtualIOServer', element('VirtualSlotNumber', '9', '61')
    ),
    'mapped-unit-deletion': Lax('DELETE', _unit),
    'unit-growth': Strange(_unit, element('UnitCapacity', '1', '2[.0]*')),
    'start': state('error'),
    'reference-code': Strange(change=element('ReferenceCode', '00000000')),
    'second-start': state('error'),
    'unit-in-use': Strange(_unit, element('InUse', 'false')),
    'running-deletion': Lax('DELETE', 'LogicalPartition'),
    'running-adapter': Strange(
        'LogicalPartition',
        element('ResourceMonitoringControlState', 'inactive'),
    ),
    'restart': state('error'),
    'soft-stop': state('error'),
    'hard-stop': state('error'),
    'unit-unused': Strange(_unit, element('InUse', 'true')),
    'memory-off': Strange(
        'ManagedSystem', element('CurrentAvailableSystemMemory', '1')
    ),
    'stop-event': Strange('Event', element('EventData', '/rest')),
    'storage-removal': Lax('POST', _group, forwards=False),
    'deletion': Lax('DELETE', 'LogicalPartition', forwards=False),
}


#: What later checks need to be done.
NEEDED = {
    *('creation', 'adapter', 'adapter-removal', 'disk', 'medium', 'mappings'),
    *('pool-image', 'pool-clone', 'pool-mapping', 'start', 'hard-stop'),
}


def rich():
    """Return a world in which each check can tell."""
    return test_check.rich()


def left_on(emulator):
    """Return all that a host has, but sessions and jobs."""
    found = copy.deepcopy(emulator.control.state())
    # A server forgets jobs that nobody has deleted, and lists them to nobody.
    del found['sessions'], found['jobs']
    return found


def trial_on(test):
    """Return a trial with the host of a test."""
    server = hosts.server_of(test.emulator)
    adapter = session.connect(server)
    test.addCleanup(adapter.session.close)
    return trial.Trial(
        adapter,
        system.RestSystem(adapter, server),
        options.Settings(server=server, volume_group=GROUP),
        sleep=lambda seconds: None,
    )


class FailureTestCase(unittest.TestCase):
    """Each check is seen to fail, and tells what the schema promises."""

    def assert_each_check_is_seen_to_fail(self, checks, cases, needed):
        """Make each check after the earlier ones that it needs."""
        emulator_base.quieten(self)
        self.enterContext(mock.patch('time.sleep'))
        self.assertEqual([*cases], [check.name for check in checks])
        for number, check in enumerate(checks):
            with self.subTest(check.name), contextlib.ExitStack() as stack:
                self.enterContext = stack.enter_context
                self.addCleanup = stack.callback
                self.trial = self.begin()
                for earlier in checks[:number]:
                    if earlier.name in needed:
                        earlier.ask(self.trial)
                if check.name == 'running-adapter':
                    answer = without_rmc(self)
                    self.assertEqual(
                        answers.Outcome.AGREES, answer.outcome, answer
                    )
                self.changed = False
                cases[check.name].on(self)
                answer = check.ask(self.trial)
                self.assertEqual(
                    answers.Outcome.DIFFERS, answer.outcome, answer
                )
                self.assertTrue(self.changed)
                jsonschema.validate(answer.value, check.value)


class FailureTest(FailureTestCase):
    def begin(self):
        """Start a host; return a trial with it."""
        self.emulator = hosts.start(self, rich(), event_wait=WAIT)
        return trial_on(self)

    def test_each_check_is_seen_to_fail(self):
        self.assert_each_check_is_seen_to_fail(CHECKS, CASES, NEEDED)


class CommandTestCase(test_check.CheckTestCase):
    """The command as it is typed."""

    run_again = test_check.CommandTest.run_again
    outcomes = test_check.CommandTest.outcomes

    def setUp(self):
        super().setUp()
        self.extra = f'volume_group_name = {GROUP}\n'
        self.enterContext(mock.patch('time.sleep'))

    def start(self, world=None):
        """Start a host; return what it has."""
        self.emulator = hosts.start(self, world or rich(), event_wait=WAIT)
        self.before = left_on(self.emulator)

    def run_partition(self, *args):
        """Run the command without its question."""
        return self.run_again('partition', '--yes', *args)

    def assert_as_before(self):
        """Assert that the host has what it had, and nothing more."""
        self.assertEqual(self.before, left_on(self.emulator))

    def changes(self):
        """Return the labels of the requests that change something."""
        return [
            r['label']
            for r in self.emulator.control.journal()
            if r['method'] != 'GET' and not r['label'].startswith('Logon')
        ]


class CommandTest(CommandTestCase):
    def test_emulator_passes_and_is_left_as_it_was(self):
        self.start()
        code, out = self.run_partition('--report', test_check.REPORT)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertEqual(
            {'as assumed': len(CHECKS) - 1, 'cannot tell': 1},
            {name: len(each) for name, each in self.outcomes().items()},
            out,
        )
        self.assertEqual({'running-adapter'}, self.outcomes()['cannot tell'])
        self.assert_as_before()
        text = self.report.read_text()
        jsonschema.validate(
            json.loads(text), report.schema('partition', CHECKS)
        )
        for word in ('nova-check', 'novachk', 'vios1', 'ETHERNET', GROUP):
            self.assertNotIn(word, text)

    def test_host_without_storage_passes_as_far_as_it_goes(self):
        self.start(worlds.default())
        self.extra = ''
        code, out = self.run_partition()
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertRegex(out, r'Virtual disks +cannot tell +.*is not set')
        self.assert_as_before()

    def test_report_makes_the_emulator_as_strict_as_the_host(self):
        """An emulator like a host refuses what the host does, and so."""
        world = rich()
        # No guest gets RMC.
        del world['rmc_after_power_on']
        strange = habits.Habits(
            accepts=LENIENT, statuses={'same-mac': 409, 'lpar-etag': 409}
        )
        self.start(world)
        self.emulator._application.emulation.habits = strange
        self.run_partition('--report', test_check.REPORT)
        real = json.loads(self.report.read_text())['checks']
        self.assert_as_before()
        for name, value in (
            ('lpar-etag', 409),
            ('group-etag', 0),
            ('mapping-etag', 0),
            ('unknown-slot', False),
            ('same-mac', True),
            ('damaged-upload', False),
            ('mapped-deletion', False),
            ('running-deletion', True),
            ('running-adapter', False),
        ):
            with self.subTest(name):
                self.assertEqual(value, real[name]['value'])
        self.assertEqual(409, real['same-mac']['status'])

        like = likeness.read(str(self.report))
        self.start(world)
        like.give(self.emulator._application.emulation)
        self.run_partition('--report', test_check.REPORT)
        again = json.loads(self.report.read_text())['checks']
        for name, answer in real.items():
            with self.subTest(name):
                for key in ('outcome', 'value', 'status'):
                    self.assertEqual(answer[key], again[name][key])

    def test_nothing_changes_before_the_user_agrees(self):
        self.start()
        for answer, is_agreed in (
            (EOFError, False),
            (['no'], False),
            ([''], False),
            (['yes'], True),
        ):
            with mock.patch('builtins.input', side_effect=answer):
                code, out = self.run_again('partition')
            self.assertIn('is made, started, stopped and deleted', out)
            self.assertEqual(is_agreed, bool(self.changes()))
            self.assertEqual(is_agreed, code == exit_codes.SUCCESS, out)

    def test_hmc_is_refused(self):
        self.start()
        Strange(header=[('X-MC-Type', 'HMC')], method='').on(self)
        code, out = self.run_partition()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('HMC', out)
        labels = {r['label'] for r in self.emulator.control.journal()}
        self.assertEqual({'Logon.create', 'Logon.delete'}, labels)

    def test_host_that_has_too_little_is_left_alone(self):
        for kind, part, words in (
            ('memory', {'configurable': 45056}, 'MB of memory'),
            ('processors', {'configurable': 5}, 'processing units'),
        ):
            world = rich()
            (found,) = world['systems']
            found[kind] |= part
            for each in found['partitions']:
                if kind == 'processors' and each['name'] == 'database':
                    each['processor_units'] = 2.5
            self.start(world)
            code, out = self.run_partition()
            self.assertEqual(exit_codes.TROUBLE, code, out)
            self.assertIn(words, out)
            self.assertEqual([], self.changes())

    def test_full_volume_group_gets_no_disk(self):
        world = rich()
        server = world['systems'][0]['virtual_io_servers'][0]
        server['volume_groups'][1]['free'] = 7
        self.start(world)
        code, out = self.run_partition()
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertRegex(out, r'Virtual disks +cannot tell +.*7 GB free')
        self.assert_as_before()

    def test_lpar_of_somebody_else_is_refused_and_stays(self):
        self.start()
        managed = self.inspect().managed
        names = trial.names_for(managed.machine)
        for one in (
            {'name': names.lpar},
            {'name': 'mine', 'uuid': names.uuid},
        ):
            world = rich()
            world['systems'][0]['partitions'].append(
                {'id': 9, 'memory': 1024, 'processors': 1, **one}
            )
            self.start(world)
            code, out = self.run_partition()
            self.assertEqual(exit_codes.TROUBLE, code)
            self.assertIn('has not made it', out)
            self.assertEqual([], self.changes())
            self.assert_as_before()

    def test_disk_that_somebody_has_mapped_stays(self):
        self.start()
        this = trial_on(self)
        (other,) = (
            found
            for found, name in this.partitions.names().items()
            if name == 'archive'
        )
        this._mappings.attach(this.groups.vios, other, [this.make_disk()])
        self.before = left_on(self.emulator)
        code, out = self.run_partition()
        self.assertEqual(exit_codes.TROUBLE, code, out)
        self.assertIn(f'{this.names.disk} on vios1', out)
        self.assert_as_before()

    def test_lpar_with_a_uuid_of_the_host_is_removed(self):
        self.start()
        Rewritten('PartitionUUID', '00').on(self)
        code, out = self.run_partition()
        self.assertTrue(self.changed)
        self.assertEqual(exit_codes.UNFIT, code, out)
        self.assertRegex(out, r'Creation +do not use +its UUID is 00')
        self.assert_as_before()

    def test_lpar_that_host_takes_for_that_of_command_is_left_alone(self):
        self.start()
        this = trial_on(self)
        uuids = {name: uuid for uuid, name in this.partitions.names().items()}
        own = re.compile(this.names.uuid.encode(), re.IGNORECASE)
        other = uuids['archive'].encode()
        Strange(
            'LogicalPartition',
            lambda body: own.sub(other, body),
            method='PUT',
        ).on(self)
        code, out = self.run_partition()
        self.assertTrue(self.changed)
        self.assertEqual(exit_codes.UNFIT, code, out)
        self.assertIn('its name is archive, and it is left alone', out)
        self.assertEqual(
            ['LogicalPartition.create', 'LogicalPartition.delete'],
            [each for each in self.changes() if 'Partition' in each],
        )
        self.assert_as_before()

    def test_lpar_that_has_got_a_slot_is_not_booted(self):
        """Another run, with a slot, uses the same LPAR meanwhile."""
        self.start()
        this = trial_on(self)
        this.make()
        slot = emulator_base.GPUS[0]
        this._give_slots(slot)
        for boot in (this.start, this.restart):
            with self.assertRaisesRegex(
                exception.ConfigurationError, 'has got a physical slot'
            ):
                boot()
        self.assertEqual(trial.OFF, this.state())

    def test_disk_without_a_udid_is_not_written_to(self):
        self.start()
        CASES['disk'].on(self)
        code, out = self.run_partition()
        self.assertEqual(exit_codes.WARNINGS, code, out)
        self.assertRegex(out, ' Uploads +cannot tell +there is no disk')
        self.assert_as_before()

    def test_conflict_of_volume_group_costs_nobody_a_disk(self):
        """The host checks no ETag, and somebody makes a disk meanwhile."""
        self.start()
        this = trial_on(self)
        this.make_disk()
        self.emulator._application.emulation.habits = habits.Habits(
            accepts=frozenset({'group-etag'})
        )
        update = pvm_storage.VG.update

        def make_another(group, *args, **kwargs):
            answer = update(group, *args, **kwargs)
            if not made:
                made.append(True)
                trial_on(self).groups.change(
                    volume_groups.addition('data', build)
                )
            return answer

        def build():
            return pvm_storage.VDisk.bld(this._adapter, 'data', 1)

        made = []
        with mock.patch.object(pvm_storage.VG, 'update', make_another):
            self.assertIsNone(this.write_outdated_group())
        self.assertTrue(made)
        self.assertEqual(trial.GROWN_GB, this.grow())
        self.assertIsNotNone(volume_groups.find(this.groups.read(), 'data'))

    def test_interruption_leaves_nothing(self):
        self.start()
        start = trial.Trial.start
        done = []

        def interrupted(this):
            start(this)
            done.append(this)
            signal.raise_signal(signal.SIGTERM)

        with mock.patch.object(trial.Trial, 'start', interrupted):
            code, out = self.run_partition('--report', test_check.REPORT)
        self.assertTrue(done)
        self.assertEqual(exit_codes.INTERRUPTED, code)
        self.assertRegex(out, 'Interrupted: removing all that was made')
        self.assertRegex(out, 'interrupted, and no report was written')
        self.assertEqual(signal.SIG_DFL, signal.getsignal(signal.SIGTERM))
        self.assert_as_before()

    def test_lpar_that_cannot_be_read_once_is_tried_further(self):
        self.start()
        this = trial_on(self)
        made = this.make()
        error = exception.RestError(action='reading', reason='it is busy')
        with (
            mock.patch.object(this.partitions, 'find', side_effect=error),
            self.assertRaises(exception.RestError),
        ):
            this.read()
        self.assertEqual(made.uuid, this.read().uuid)

    def test_lpar_that_another_run_removes_is_tried_no_more(self):
        self.start()
        start = trial.Trial.start

        def without_lpar(this):
            this.remove_lpar()
            return start(this)

        with mock.patch.object(trial.Trial, 'start', without_lpar):
            code, out = self.run_partition()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertRegex(out, r' Start +no answer +There is no LPAR')
        self.assertRegex(out, r'Stop at once +cannot tell +there is no LPAR')
        self.assert_as_before()

    def test_interruption_of_removal_says_what_may_be_left(self):
        self.start()
        with mock.patch.object(
            trial.Trial, 'remove_storage', side_effect=KeyboardInterrupt
        ):
            code, out = self.run_partition()
        self.assertEqual(exit_codes.INTERRUPTED, code)
        self.assertRegex(out, 'What may be left: nova-check-.*, novachk')
        self.assertNotIn('Traceback', out)
        self.assertEqual(exit_codes.SUCCESS, self.run_partition()[0])
        self.assert_as_before()

    def test_what_cannot_be_removed_is_named_and_removed_by_next_run(self):
        self.start()
        self.emulator.control.add_fault(
            method='DELETE', match=_lpar, status=500, every=True
        )
        code, out = self.run_partition()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('Run the command again', out)
        self.emulator.control.clear_faults()
        code, out = self.run_partition()
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertIn('An earlier run has left', out)
        self.assert_as_before()

    def test_bug_in_removal_does_not_hide_what_may_be_left(self):
        self.start()
        with (
            mock.patch.object(
                trial.Trial, 'remove_storage', side_effect=AttributeError
            ),
            mock.patch('builtins.print') as printed,
            self.assertRaises(AttributeError),
        ):
            self.run_partition()
        self.assertIn('be left: the mapping of nova', str(printed.mock_calls))

    def test_schema_of_mode_is_printed(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(0, app.main(['partition', '--print-schema']))
        self.assertEqual(
            report.schema('partition', CHECKS), json.loads(out.getvalue())
        )

    def test_names_are_not_those_of_instances(self):
        names = trial.names_for('9009-22A*EMU0001')
        self.assertEqual(names, trial.names_for('9009-22A*EMU0001'))
        self.assertNotEqual(names, trial.names_for('9009-22A*EMU0002'))
        self.assertEqual(4, len(names.of_storage))
        for name in names.of_storage:
            self.assertFalse(storage.is_ours(name))
            self.assertIsNone(storage.parse_unit_name(name))
            self.assertIsNone(image.parse(name))
        self.assertLessEqual(len(names.disk), 15)


class KillTest(CommandTestCase):
    """A kill leaves only what the next run removes."""

    def kill_at(self, number, *, after):
        """Kill a run at a change; return whether it came that far."""
        send = pvm_adapter.Session.request
        sent = 0

        def die(session, method, *args, **kwargs):
            nonlocal sent
            sent += method != 'GET'
            if sent > number + 1 or (sent == number + 1 and not after):
                raise test_kills.Killed
            answer = send(session, method, *args, **kwargs)
            if sent == number + 1:
                raise test_kills.Killed
            return answer

        with mock.patch.object(pvm_adapter.Session, 'request', new=die):
            try:
                self.run_partition()
            except test_kills.Killed:
                return True
        return False

    def test_next_run_removes_what_a_killed_one_left(self):
        self.follow(SAMPLE, 30)

    def follow(self, sample, least):
        """Interrupt runs, and look what the next ones leave.

        :param sample: Of the changes, one in so many is interrupted.
        :param least: So many changes there are at least.
        """
        self.start()
        left = 0
        is_killed = True
        number = 0
        while is_killed:
            for after in (False, True) if test_faults.ALL else (True,):
                with self.subTest(number=number, after=after):
                    is_killed = self.kill_at(number, after=after)
                    left += left_on(self.emulator) != self.before
                    code, out = self.run_partition()
                    self.assertEqual(exit_codes.SUCCESS, code, out)
                    self.assert_as_before()
            number += 1 if test_faults.ALL else sample
        self.assertGreater(number, least)
        self.assertGreater(left, 2)
