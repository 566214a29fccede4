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

"""The command nova-powervm-check, on emulated hosts and with strange ones."""

import contextlib
import functools
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import fixtures
import jsonschema

from emulator.tests import base as emulator_base
from emulator.tests import san
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import session
from nova_powervm.powervm.check import inspection
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app
from nova_powervm.tool.check import host
from nova_powervm.tool.check import report
from nova_powervm.tool.check import session_checks
from powervm_emulator import likeness
from powervm_emulator import worlds
from powervm_emulator.core import habits
from tests.unit.powervm import hosts
from tests.unit.powervm import test_session

GPU = emulator_base.GPUS[0]
CHECKS = {check.name: check for check in host.CHECKS}
#: Those whose condition ends the command at the logon, with the reason.
AT_LOGON = {'certificate'}
#: Stands for the path of the report.
REPORT = '<report>'
#: Of the lists that a host may order as it likes; no world has mappings.
ORDERS = {
    'slots': 'descending',
    'lpars': 'other',
    'mappings': 'unknown',
    'media': 'descending',
}
#: Seconds that a host holds a poll; the least that counts as that.
HELD = 0.2
SWITCH = {'name': 'MGMTSWITCH', 'mode': 'Vepa'}


def adapter(vlan):
    """Describe an adapter on the management switch."""
    return {'vlan': vlan, 'switch': SWITCH['name']}


def default(**changes):
    """Return the default world with another managed system."""
    world = worlds.default()
    world['systems'][0].update(changes)
    return world


def rich():
    """Return a world with all that a check asks for, as the driver assumes."""
    world = san.add_to(worlds.default())
    (system,) = world['systems']
    system['virtual_switches'].append(dict(SWITCH))
    system['partitions'][0]['adapters'] = [adapter(4094)]
    system['virtual_io_servers'][0]['volume_groups'][1] |= {
        'media_repository': {'size': 1}
    }
    pool = {'name': 'pool', 'capacity': 100}
    cluster = {'name': 'cluster', 'nodes': ['vios1'], 'pool': pool}
    return world | {'clusters': [cluster]}


def without_ids():
    """Return a world with the PCI IDs of an old NovaLink version."""
    world = default()
    (system,) = world['systems']
    system['capture']['correct_ids'] = False
    captured = set(system['capture']['slots'])
    system['slots'] = [
        s for s in system['slots'] if s['drc_index'] in captured
    ]
    return world


def with_slot(**values):
    """Return a world in which one slot is different."""
    world = default()
    for slot in world['systems'][0]['slots']:
        if slot['drc_index'] == f'{GPU:08X}':
            slot.update(values)
    return world


def with_capability(name, value):
    """Return a world whose system has another capability."""
    world = default()
    world['systems'][0]['capabilities'][name] = value
    if name == 'simplified_remote_restart':
        del world['systems'][0]['capabilities'][f'{name}_toggle']
    return world


def with_server(**values):
    """Return a world whose Virtual I/O Server is different."""
    world = default()
    world['systems'][0]['virtual_io_servers'][0].update(values)
    return world


def two_systems():
    """Return a world with two managed systems."""
    world = default()
    second = {
        'name': 'second',
        'machine_type': '9009',
        'model': '22A',
        'serial': 'EMU0002',
        'memory': {'configurable': 65536},
        'processors': {'configurable': 16},
    }
    world['systems'].append(second)
    return world


def two_bridges():
    """Return a world with a bridge that nothing chooses."""
    world = default()
    bridge = {'vios': 'vios1', 'switch': 'ETHERNET0(Default)', 'pvid': 2}
    world['systems'][0]['network_bridges'].append(bridge)
    return world


def with_lists(world):
    """Give a world lists of several, and a server that is silent."""
    first, second = world['systems'][0]['virtual_io_servers']
    first['volume_groups'][1]['media_repository'] = {
        'size': 1,
        'media': [{'name': name, 'size': 0.1} for name in 'abc'],
    }
    second['state'] = 'not activated'
    return world


def switch_of(mode='Vepa', vlan=4094):
    """Return a world with a management switch."""
    world = rich()
    (system,) = world['systems']
    system['virtual_switches'][-1]['mode'] = mode
    system['partitions'][0]['adapters'] = [adapter(vlan)]
    return world


def element(name, new, old='[^<]*'):
    """Return what changes the text of elements in an answer."""
    pattern = re.compile(f'(<{name}(?: [^>]*)?>){old}(?=</{name}>)'.encode())
    return lambda body: pattern.sub(rb'\g<1>' + new.encode(), body)


def renamed(name):
    """Return what gives elements in an answer a name that nobody knows."""
    pattern = re.compile(f'(</?){name}(?=[ >])'.encode())
    return lambda body: pattern.sub(rb'\1Other', body)


def later(change):
    """Return what changes all such answers but the first."""
    seen = []

    def change_later(body):
        seen.append(body)
        return change(body) if len(seen) > 1 else body

    return change_later


def nvram(text):
    """Return what gives each stopped LPAR in an answer an NVRAM."""
    pattern = re.compile(b'<PartitionState [^>]*>not activated<')
    new = f'<PartitionNVRAM>{text}</PartitionNVRAM>'.encode()
    return lambda body: pattern.sub(lambda found: new + found[0], body)


class Strange:
    """Changes the answers of a host to reads, as no world can.

    :param path: Searched in the URLs of the requests.
    :param change: Gets and returns the body of an answer.
    :param header: Name and value of a header; None to leave it out.
    :param method: Of the requests; empty for all.
    """

    def __init__(
        self, path='', change=lambda body: body, header=(), method='GET'
    ):
        self._path = path
        self._change = change
        self._header = header
        self._method = method

    def on(self, test):
        real = http_limits.Client.request

        def request(client, method, url, **kwargs):
            answer = real(client, method, url, **kwargs)
            if self._method in ('', method) and re.search(self._path, url):
                before = answer.content
                answer._content = self._change(before)
                test.changed = test.changed or answer._content != before
                for name, value in self._header:
                    answer.headers.pop(name, None)
                    answer.headers.update({name: value} if value else {})
                    test.changed = True
            return answer

        test.enterContext(
            mock.patch.object(http_limits.Client, 'request', request)
        )


class Habit:
    """A habit of the emulator."""

    def __init__(self, **values):
        self._habits = habits.Habits(**values)

    def on(self, test):
        test.emulator._application.emulation.habits = self._habits
        test.changed = True


class Fault:
    """A fault of the emulator."""

    def __init__(self, match, **values):
        self._values = {'method': 'GET', 'match': match, **values}

    def on(self, test):
        test.emulator.control.add_fault(**self._values)
        test.changed = True


def failing(status, match):
    """Return a fault of each such request."""
    return Fault(match, status=status, every=True)


differs = answers.Outcome.DIFFERS
no_answer = answers.Outcome.ERROR
_decimal = str(GPU)
_sriov = str(emulator_base.SRIOV)
#: Name of a check -> its outcome, and a world or a strange answer.
CASES = {
    'schema': (
        differs,
        Strange(
            change=lambda b: b.replace(
                b'schemaVersion="V', b'schemaVersion="'
            ),
            method='PUT',
        ),
    ),
    'stored': (
        differs,
        Strange('ManagedSystem[?]', later(element('PCIDeviceID', '1'))),
    ),
    'model': (differs, Strange(change=element('MachineType', 'new'))),
    'header': (differs, Habit(names_kind=False)),
    'expiry': (differs, Habit(unknown_session=403)),
    'unchanged': (differs, Habit(answers_unchanged=False)),
    'systems': (differs, two_systems),
    'slots': (differs, Strange(change=renamed('IOSlot'))),
    'owners': (differs, functools.partial(default, reports_slot_owners=False)),
    'profile-owners': (
        differs,
        functools.partial(default, reports_slot_owners=False),
        Strange(change=element('IOSlotOwnerAssignmentCapable', 'true')),
    ),
    'indexes': (
        differs,
        Strange(
            change=lambda b: b.replace(
                _decimal.encode(), str(GPU + 1).encode()
            )
        ),
    ),
    'ids': (differs, without_ids),
    'empty': (differs, Strange(change=element('PCIVendorID', '0', '65535'))),
    'sriov': (differs, Strange(change=element('AdapterID', '7', _sriov))),
    'bus-groups': (
        differs,
        functools.partial(with_slot, bus_group_required=True),
    ),
    'assignable': (differs, functools.partial(with_slot, assignable=False)),
    'regions': (differs, Strange(change=element('MemoryRegionSize', '0'))),
    'modes': (
        differs,
        Strange(
            change=element(
                'SupportedPartitionProcessorCompatibilityModes', 'default'
            )
        ),
    ),
    'aix': (
        differs,
        functools.partial(with_capability, 'aix', 'Active'),
        Strange(change=element('AIXCapable', 'Perhaps')),
    ),
    'live-migration': (
        differs,
        functools.partial(with_capability, 'live_migration', False),
    ),
    'remote-restart': (
        differs,
        functools.partial(with_capability, 'simplified_remote_restart', False),
    ),
    'secure-boot': (
        differs,
        functools.partial(with_capability, 'secure_boot', False),
    ),
    'uptime': (differs, Strange('LogicalPartition', element('Uptime', '0'))),
    'servers': (differs, functools.partial(with_server, rmc_state='inactive')),
    'sick-servers': (
        differs,
        rich,
        # The feed, and one of two servers, which is asked twice.
        *(
            Fault('VirtualIOServer.*ViosStorage', status=500, nth=number)
            for number in (1, 2, 3)
        ),
    ),
    'silent-servers': (
        differs,
        functools.partial(with_server, physical_volumes=[{'capacity': 1}]),
        Strange(change=element('ResourceMonitoringControlState', 'inactive')),
    ),
    'volume-groups': (
        differs,
        Strange('VolumeGroup', element('AvailableSize', '9999')),
    ),
    'repositories': (no_answer, failing(500, 'VolumeGroup')),
    'pools': (differs, rich, Strange('Tier', element('IsDefault', 'false'))),
    'ports': (
        differs,
        rich,
        Strange(change=element('WWPN', 'C05076000000000A')),
    ),
    'udids': (
        differs,
        functools.partial(with_server, physical_volumes=[{'capacity': 1}]),
        Strange(
            change=lambda body: element('IsFibreChannelBacked', 'true')(
                element('UniqueDeviceID', '')(body)
            )
        ),
    ),
    'reserve-policy': (
        differs,
        functools.partial(with_server, physical_volumes=[{'capacity': 1}]),
        Strange(
            change=lambda body: element('IsFibreChannelBacked', 'true')(
                element('ReservePolicy', 'SinglePath')(body)
            )
        ),
    ),
    'nvram': (differs, Strange('NVRAM', nvram('no base64'))),
    'orders': (no_answer, failing(500, 'VolumeGroup')),
    'bridges': (
        differs,
        Strange('NetworkBridge', renamed('SharedEthernetAdapters')),
    ),
    'bridge-mappings': (differs, two_bridges),
    'management-switch': (differs, functools.partial(switch_of, mode='Veb')),
    'management-vlan': (differs, functools.partial(switch_of, vlan=1)),
    'state': (differs, Strange('quick', lambda body: b'"asleep"')),
    'power': (differs, failing(404, 'do/PowerOff')),
    'memory-job': (differs, failing(404, 'do/QueryReserved')),
    'migration-jobs': (differs, failing(404, 'do/MigrateRecover')),
    'volume-jobs': (differs, failing(404, 'do/RemoveDevice')),
    'files': (no_answer, failing(500, 'web/File')),
    'speed': (differs, Fault('do/PowerOn', delay=0.4)),
}


class CheckTestCase(unittest.TestCase):
    """An emulated host, and a session of the driver's with it."""

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        self.changed = False
        self.extra = ''
        self.enterContext(
            mock.patch.object(session_checks, '_HELD_SECONDS', HELD)
        )

    def inspect(self):
        """Log on to the host, and return what looks at it."""
        server = options.Server(
            url=self.emulator.url,
            username=self.emulator.username,
            password=self.emulator.password,
            connect_timeout=0,
        )
        opened = session.connect(server)
        self.addCleanup(opened.session.close)
        return inspection.Inspection(opened, server)


class FailureTest(CheckTestCase):
    """Each check is seen to fail, and tells what the schema promises."""

    def test_each_check_is_seen_to_fail(self):
        apart = {*AT_LOGON, 'kind', 'events'}
        self.assertEqual({*CHECKS} - apart, {*CASES})
        for name, (outcome, *causes) in CASES.items():
            with self.subTest(name), contextlib.ExitStack() as stack:
                self.enterContext = stack.enter_context
                self.addCleanup = stack.callback
                self.changed = False
                makers = [c for c in causes if callable(c)]
                world = makers[0]() if makers else None
                self.emulator = hosts.start(self, world)
                for cause in causes:
                    if not callable(cause):
                        cause.on(self)
                found = self.inspect()
                if name == 'speed':
                    # Half a second would be a long test.
                    self.enterContext(
                        mock.patch.object(session_checks, '_SLOW', 0.01)
                    )
                    CHECKS['power'].ask(found)
                answer = CHECKS[name].ask(found)
                self.assertEqual(outcome, answer.outcome, answer)
                self.assertTrue(self.changed or makers)
                if answer.value is not None:
                    jsonschema.validate(answer.value, CHECKS[name].value)

    def test_poll_that_is_not_held_is_seen(self):
        session_checks._HELD_SECONDS = 3
        self.emulator = hosts.start(self, event_wait=0)
        answer = CHECKS['events'].ask(self.inspect())
        self.assertEqual(differs, answer.outcome)


class CommandTest(CheckTestCase):
    """The command as it is typed."""

    def run_command(self, *args, world=None):
        """Run the command; return its code, and what it printed."""
        self.emulator = hosts.start(self, world, event_wait=HELD)
        return self.run_again(*args)

    def run_again(self, *args):
        """Run the command with the same host."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = pathlib.Path(folder)
        file = self.folder / 'nova.conf'
        file.write_text(
            '[powervm]\n'
            f'rest_url = {self.emulator.url}\n'
            f'rest_username = {self.emulator.username}\n'
            f'rest_password = {self.emulator.password}\n'
            f'{self.extra}'
        )
        self.report = self.folder / 'report.json'
        args = [str(self.report) if a == REPORT else a for a in args]
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(out),
        ):
            code = app.main(['--config-file', str(file), *args])
        return code, out.getvalue()

    def outcomes(self):
        """Return the names of checks in the report by outcome."""
        found = {}
        checks = json.loads(self.report.read_text())['checks']
        for name, answer in checks.items():
            found.setdefault(answer['outcome'], set()).add(name)
        return found

    def test_default_host_passes_and_is_only_read(self):
        code, out = self.run_command('--report', REPORT)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertNotIn('different', out)
        self.assertIn(f'{len(host.CHECKS)} checks: ', out)
        sent = self.emulator.control.journal()
        self.assertEqual(
            {'GET', 'PUT Logon.create', 'DELETE Logon.delete'},
            {
                r['method']
                if r['method'] == 'GET'
                else f'{r["method"]} {r["label"]}'
                for r in sent
            },
        )
        document = json.loads(self.report.read_text())
        jsonschema.validate(document, report.schema('host', host.CHECKS))
        self.assertEqual({'as assumed', 'cannot tell'}, {*self.outcomes()})

    def test_host_with_everything_agrees_and_report_names_nothing(self):
        world = rich()
        server = world['systems'][0]['virtual_io_servers'][0]
        server['physical_volumes'] = [{'capacity': 1}]
        self.emulator = hosts.start(self, world, event_wait=HELD)
        Strange(change=element('IsFibreChannelBacked', 'true')).on(self)
        Strange('NVRAM', nvram('bm8=')).on(self)
        code, out = self.run_again('--report', REPORT)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertEqual(
            {'certificate', 'silent-servers'},
            self.outcomes()['cannot tell'],
            out,
        )
        text = self.report.read_text()
        for word in ('vios1', 'EMU0001', 'novalink', '127.0.0.1', 'ETHERNET'):
            self.assertNotIn(word, text)
        self.assertNotRegex(text, r'[0-9A-Fa-f]{8}')
        self.assertIn('VirtualSwitch', json.loads(text)['durations'])

    def test_broken_habits_are_named(self):
        world = switch_of(mode='Veb')
        (system,) = world['systems']
        system['reports_slot_owners'] = False
        system['slots'][3]['bus_group_required'] = True
        code, out = self.run_command(world=world)
        self.assertEqual(exit_codes.WARNINGS, code)
        titles = re.findall(r'(?m)^\d+\. (.*): (.*)\.$', out)
        self.assertEqual(
            [
                ('Owners of slots', 'the driver copes'),
                ('Bus groups', 'a feature is off'),
                ('Management switch', 'a feature is off'),
            ],
            titles,
        )
        self.assertIn('2101002B', out)

    def test_report_makes_the_emulator_that_host(self):
        world = with_lists(switch_of(mode='Veb'))
        system = world['systems'][0]
        system['reports_slot_owners'] = False
        system['capabilities'] = {'secure_boot': False, 'aix': 'Inactive'}
        system['processors']['compatibility_modes'] = ['default', 'POWER10']
        system['memory']['region_size'] = 128
        self.emulator = hosts.start(self, world, event_wait=HELD)
        failing(404, 'do/MigrateRecover').on(self)
        self.emulator._application.emulation.habits = habits.Habits(
            403,
            True,
            False,
            orders=ORDERS | {'mappings': 'other'},
            hidden={'ports', 'mappings'},
        )
        Fault('/ManagedSystem[?]', delay=0.1, every=True).on(self)
        self.run_again('--report', REPORT)
        real = json.loads(self.report.read_text())
        like = likeness.read(str(self.report))

        plain = like.change(with_lists(rich()))
        self.emulator = hosts.start(self, plain, event_wait=like.event_wait)
        like.give(self.emulator._application.emulation)
        self.run_again('--report', REPORT)
        made = json.loads(self.report.read_text())
        self.assertEqual(ORDERS, real['checks']['orders']['value'])
        self.assertEqual(
            {'servers': 1, 'ports': 0, 'disks': 1, 'mappings': 0},
            real['checks']['silent-servers']['value'],
        )
        for name, answer in real['checks'].items():
            with self.subTest(name):
                again = made['checks'][name]
                self.assertEqual(answer['outcome'], again['outcome'])
                if name not in ('events', 'speed'):
                    self.assertEqual(answer['value'], again['value'])
        self.assertGreaterEqual(made['durations']['ManagedSystem'], 0.1)

    def test_certificate_is_verified_or_ends_the_command(self):
        for variable in session.CA_VARIABLES:
            self.enterContext(fixtures.EnvironmentVariable(variable))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        files = f'{folder}/cert.pem', f'{folder}/key.pem'
        test_session.make_certificate(*files)
        self.emulator = hosts.start(self, tls=files, event_wait=HELD)
        code, out = self.run_again()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('[powervm]rest_cafile', out)
        self.extra = f'rest_cafile = {files[0]}\n'
        code, out = self.run_again()
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertRegex(out, 'Certificate +as assumed')

    def test_host_that_breaks_a_check_is_named(self):
        self.emulator = hosts.start(self, event_wait=HELD)
        Strange(change=renamed('MemoryRegionSize')).on(self)
        Strange('VolumeGroup', element('AvailableSize', 'much')).on(self)
        code, out = self.run_again('--report', REPORT)
        self.assertEqual(exit_codes.UNFIT, code)
        self.assertRegex(out, 'Memory regions +do not use')
        self.assertRegex(out, 'Volume groups +no answer +TypeError')
        self.assertRegex(out, 'Polls for events +as assumed')

    def test_host_that_stops_answering_is_not_asked_for_ever(self):
        self.emulator = hosts.start(self)
        Fault('ManagedSystem', drop=True, every=True).on(self)
        Fault('LogicalPartition|Virtual|Event|File', drop=True, every=True).on(
            self
        )
        with mock.patch('time.sleep'):
            code, out = self.run_again()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertRegex(out, r'Managed system +no answer')
        self.assertRegex(out, r'Polls for events +no answer .*not asked')
        sent = self.emulator.control.journal()
        self.assertLess(len([r for r in sent if r['method'] == 'GET']), 6)

    def test_trouble_is_told_and_ends_the_command(self):
        code, out = self.run_command('--report', '/none/report.json')
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('/none/report.json', out)
        self.assertNotIn('The host at', out)
        self.emulator.password = 'wrong'
        code, out = self.run_again()
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('HTTP 401', out)

    def test_schema_is_printed_without_a_host(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(0, app.main(['--print-schema']))
        schema = json.loads(out.getvalue())
        jsonschema.Draft202012Validator.check_schema(schema)
        self.assertEqual(report.schema('host', host.CHECKS), schema)

    def test_wrong_command_line_is_refused(self):
        with (
            self.assertRaises(SystemExit) as caught,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            app.main(['guest'])
        self.assertEqual(exit_codes.USAGE, caught.exception.code)

    def test_command_needs_neither_nova_nor_placement(self):
        program = (
            'import sys\n'
            'from nova_powervm.tool.check import app\n'
            "print({'nova', 'keystoneauth1', 'openstack'} & {*sys.modules})"
        )
        shown = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', program],
            capture_output=True,
            check=True,
            text=True,
        )
        self.assertEqual('set()', shown.stdout.strip())
