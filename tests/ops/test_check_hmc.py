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

"""The command nova-powervm-check with an emulated HMC.

What is known of HMCs is in pypowervm's captures of them, and in public
records of 2026: they answer with the partitions of all their systems, name
no owners of slots in some versions, and send no header ``X-MC-Type``.
"""

import contextlib
import io
import json
import re
import tempfile
import unittest
from unittest import mock

import fixtures
import jsonschema
from pypowervm import exceptions as pvm
from pypowervm.tests.test_utils import pvmhttp

from emulator.tests import base as emulator_base
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import session
from nova_powervm.powervm.check import hmc_inspection
from nova_powervm.powervm.check import inspection
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app
from nova_powervm.tool.check import hmc_checks
from nova_powervm.tool.check import host
from nova_powervm.tool.check import report
from powervm_emulator import fixture
from powervm_emulator import likeness
from tests.ops import test_check
from tests.unit.powervm import hosts
from tests.unit.powervm import test_session

CHECKS = {check.name: check for check in hmc_checks.CHECKS}
FIRST = '9009-22A*EMU0001'
Strange = test_check.Strange
element = test_check.element


def world():
    """Return a world of an HMC: two systems, with the same DRC indexes."""
    made = test_check.rich() | {'hmc': 'V10R3'}
    (first,) = made['systems']
    (second,) = test_check.two_systems()['systems'][1:]
    stranger = {'name': 'stranger', 'memory': 1024, 'processors': 1}
    second['partitions'] = [stranger]
    second['slots'] = [
        {key: slot[key] for key in ('drc_index', 'drc_name') if key in slot}
        | {'owner': 'stranger'}
        for slot in first['slots'][:2]
    ]
    made['systems'].append(second)
    for system in made['systems']:
        system['reports_slot_owners'] = False
        for partition in system['partitions']:
            partition['profile'] = 'default_profile'
    return made


#: Name of a check -> what makes it fail.
CASES = {
    'hmc-version': Strange(
        'ManagementConsole', test_check.renamed('BaseVersion')
    ),
    'hmc-schema': Strange(
        'ManagedSystem', header=[('X-HMC-Schema-Version', None)]
    ),
    'hmc-names': Strange(
        r'ManagedSystem\?', element('SystemName', 'twin', '[^<]+')
    ),
    'hmc-partitions': Strange(
        'uom/LogicalPartition', test_check.renamed('AssociatedManagedSystem')
    ),
    'hmc-uuid': Strange(
        change=lambda body: body.replace(
            b'<PartitionUUID kb="ROO"', b'<PartitionUUID kb="UOD"'
        )
    ),
    'hmc-slots': Strange(
        change=lambda body: re.sub(
            b'<ProfileIOSlots (schemaVersion="[^"]*" )?kb="CUD"',
            rb'<ProfileIOSlots \1kb="ROR"',
            body,
        )
    ),
    'hmc-profile-sync': Strange(
        change=element('CurrentProfileSync', 'Disabled')
    ),
    'hmc-profiles': Strange(
        'LogicalPartitionProfile', test_check.renamed('ProfileIOSlot')
    ),
    'hmc-remote-restart': test_check.failing(404, 'do/RemoteRestart'),
}


class HmcTestCase(test_check.CheckTestCase):
    """An emulated HMC."""

    run_again = test_check.CommandTest.run_again
    outcomes = test_check.CommandTest.outcomes

    def start(self, made=None, **values):
        """Start the HMC."""
        self.emulator = hosts.start(
            self, made or world(), event_wait=test_check.HELD, **values
        )

    def look(self, wanted=FIRST):
        """Log on to the HMC, and return what looks at it."""
        server = options.Server(
            url=self.emulator.url,
            username=self.emulator.username,
            password=self.emulator.password,
            connect_timeout=0,
        )
        opened = session.connect(server, kind=inspection.ReadingSession)
        self.addCleanup(opened.session.close)
        return hmc_inspection.inspect(opened, server, wanted)


class FailureTest(HmcTestCase):
    """Each check is seen to fail, and tells what the schema promises."""

    def test_each_check_is_seen_to_fail(self):
        self.assertEqual({*CHECKS} - {'hmc-port', 'hmc-events'}, {*CASES})
        for name, cause in CASES.items():
            with self.subTest(name), contextlib.ExitStack() as stack:
                self.enterContext = stack.enter_context
                self.addCleanup = stack.callback
                self.changed = False
                self.start()
                cause.on(self)
                found = self.look()
                answer = CHECKS[name].ask(found)
                self.assertEqual(
                    answers.Outcome.DIFFERS, answer.outcome, answer
                )
                self.assertTrue(self.changed)
                jsonschema.validate(answer.value, CHECKS[name].value)

    def test_poll_that_greets_and_port_that_is_none_of_theirs_are_seen(self):
        self.start(test_check.rich())
        Strange(header=[('X-MC-Type', 'HMC')], method='').on(self)
        found = self.look()
        for name, value in (
            ('hmc-events', ['NEW_CLIENT']),
            ('hmc-port', int(self.emulator.url.rpartition(':')[2])),
        ):
            answer = CHECKS[name].ask(found)
            self.assertEqual(answers.Outcome.DIFFERS, answer.outcome)
            self.assertEqual(value, answer.value)


class CommandTest(HmcTestCase):
    """The command as it is typed."""

    def test_system_is_chosen_and_only_read(self):
        self.start()
        for wanted in (FIRST, world()['systems'][0]['name']):
            code, out = self.run_again(
                '--report', test_check.REPORT, '--system', wanted
            )
            self.assertEqual(exit_codes.UNFIT, code, out)
            self.assertEqual(
                {'kind', 'owners', 'hmc-port'},
                self.outcomes()['different'],
                out,
            )
            self.assertNotIn('no answer', self.outcomes(), out)
            self.assertRegex(out, r'Kind of server +do not use +HMC')
            self.assertIn('which the driver refuses', out)
        # Slots of the other system have the same indexes, and an owner.
        self.assertRegex(out, r'Partitions of a system +as assumed .*below it')
        self.assertRegex(out, r'Owners and profiles .*running 1, servers 4')
        document = json.loads(self.report.read_text())
        schema = report.schema('hmc', host.CHECKS_OF_HMC)
        jsonschema.validate(document, schema)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            app.main(['--print-schema', '--system', FIRST])
        self.assertEqual(schema, json.loads(printed.getvalue()))
        for word in ('stranger', 'EMU0001', 'vios1'):
            self.assertNotIn(word, self.report.read_text())
        self.assertEqual(
            {'GET', 'PUT Logon.create', 'DELETE Logon.delete'},
            {
                r['method']
                if r['method'] == 'GET'
                else f'{r["method"]} {r["label"]}'
                for r in self.emulator.control.journal()
            },
        )

    def test_owners_are_those_of_the_chosen_system(self):
        self.start()
        for wanted, owners in (
            (FIRST, {'database', 'vios1', 'vios2'}),
            ('second', {'stranger'}),
        ):
            slots = self.look(wanted).managed.io_slots
            names = {slot.owner.name for slot in slots if slot.owner}
            self.assertEqual(owners, names)

    def test_unclear_system_is_asked_for_before_anything_is_checked(self):
        self.start()
        for args, words in (
            ((), 'manages 2 systems. Choose one with --system NAME: '),
            (('--system', 'third'), 'manages 0 systems called third'),
        ):
            code, out = self.run_again(*args)
            self.assertEqual(exit_codes.TROUBLE, code)
            self.assertIn(words, out)
            self.assertIn('second (9009-22A*EMU0002)', out)
            self.assertNotIn('Kind of server', out)

    def test_other_port_is_tried_if_none_is_named(self):
        for variable in session.CA_VARIABLES:
            self.enterContext(fixtures.EnvironmentVariable(variable))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        files = f'{folder}/cert.pem', f'{folder}/key.pem'
        test_session.make_certificate(*files)
        self.start(tls=files)
        self.extra = f'rest_cafile = {files[0]}\n'
        url, _, port = self.emulator.url.rpartition(':')
        self.enterContext(
            mock.patch.object(hmc_inspection, 'OTHER_PORT', int(port))
        )
        self.enterContext(
            mock.patch.object(
                fixture.Emulator,
                'url',
                new_callable=mock.PropertyMock,
                return_value=url,
            )
        )
        code, out = self.run_again('--system', FIRST)
        self.assertEqual(exit_codes.UNFIT, code, out)
        self.assertRegex(out, f'Port of the HMC .* {port}')

    def test_only_system_need_not_be_named(self):
        made = world()
        del made['systems'][1]
        self.start(made)
        code, out = self.run_again()
        self.assertEqual(exit_codes.UNFIT, code)
        self.assertRegex(out, 'Synchronization of profiles +as assumed')

    def test_novalink_is_asked_nothing_more_and_its_system_may_be_named(self):
        self.emulator = hosts.start(self, event_wait=test_check.HELD)
        code, out = self.run_again('--system', FIRST)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertIn(f'{len(host.CHECKS)} checks: ', out)
        code, out = self.run_again('--system', 'other')
        self.assertEqual(exit_codes.TROUBLE, code)

    def test_partition_refuses_an_hmc_without_a_header(self):
        self.start()
        code, out = self.run_again('partition', '--yes')
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn(' is an HMC', out)
        self.assertEqual(
            {'GET', 'Logon.create', 'Logon.delete'},
            {
                'GET' if r['method'] == 'GET' else r['label']
                for r in self.emulator.control.journal()
            },
        )
        with (
            contextlib.redirect_stderr(io.StringIO()),
            self.assertRaises(SystemExit) as caught,
        ):
            app.main(['partition', '--system', FIRST])
        self.assertEqual(exit_codes.USAGE, caught.exception.code)

    def test_session_sends_nothing_that_changes(self):
        self.start()
        looking = self.look()
        with self.assertRaisesRegex(pvm.Error, 'does not read'):
            looking.system.update()
        with self.assertRaisesRegex(pvm.Error, 'does not read'):
            looking.lpars[0].delete()

    def test_report_makes_the_emulator_that_hmc(self):
        self.start()
        self.run_again('--report', test_check.REPORT, '--system', FIRST)
        real = json.loads(self.report.read_text())['checks']
        like = likeness.read(str(self.report))
        made = like.change(test_check.rich())
        self.start(made)
        self.run_again('--report', test_check.REPORT)
        again = json.loads(self.report.read_text())['checks']
        for name in ('kind', 'header', 'hmc-version', 'hmc-events', 'owners'):
            self.assertEqual(real[name]['value'], again[name]['value'])


class RecordedTest(unittest.TestCase):
    """What pypowervm's captures of HMCs show, which the emulator follows."""

    def test_marks_and_synchronization(self):
        emulator_base.quieten(self)
        lpars = pvmhttp.load_pvm_resp('lpar.txt').response
        self.assertNotIn('x-mc-type', lpars.headers)
        for entry in lpars.feed.entries:
            uuid = entry.element.find('PartitionUUID')
            slots = entry.element.find(
                'PartitionIOConfiguration/ProfileIOSlots'
            )
            self.assertEqual('ROO', uuid.get('kb'))
            if slots is not None:
                self.assertEqual('CUD', slots.get('kb'))
        ibmi = pvmhttp.load_pvm_resp('lpar_ibmi.txt').response
        (one, *_) = ibmi.feed.entries if ibmi.feed else [ibmi.entry]
        self.assertEqual('On', one.element.findtext('CurrentProfileSync'))
