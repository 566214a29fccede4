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

"""``nova-powervm-check partition --target`` with two emulated hosts."""

import contextlib
import io
import json
import unittest
from unittest import mock

import jsonschema
from pypowervm.tasks import management_console

from emulator.tests import base as emulator_base
from emulator.tests import test_migration
from nova_powervm.lpar import live_migration
from nova_powervm.powervm import system
from nova_powervm.powervm.check import migration_trial
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app
from nova_powervm.tool.check import report
from nova_powervm.tool.check import target_checks
from powervm_emulator import fixture
from tests.ops import test_check
from tests.ops import test_check_partition as trials
from tests.unit.powervm import hosts

CHECKS = target_checks.CHECKS
OTHER = 'host2'
SLOT = f'{emulator_base.GPUS[0]:08X}'
ADDRESS = '192.0.2.2'

differs = answers.Outcome.DIFFERS
element = test_check.element
Strange = test_check.Strange


def with_storage_status(body):
    """Have the host say that it could not read an LPAR's storage."""
    new = b'<MigrationStorageViosDataStatus>Update_Failed'
    return body.replace(
        b'<MigrationState ',
        new + b'</MigrationStorageViosDataStatus><MigrationState ',
    )


_LPAR = 'LogicalPartition/'
_migrating = Strange(_LPAR, element('MigrationState', 'Migration_In_Progress'))


class WithSlot:
    """Gives the LPAR a slot."""

    def on(self, test):
        test.changed = True
        test.emulator.control.set_owner(SLOT, 'vm', profiles=True)


class WithoutKeys:
    """Has the other host let nobody in."""

    def on(self, test):
        test.changed = True
        console = management_console.mc.ManagementConsole.wrap(
            test.other.read('ManagementConsole')
        )[0]
        console.ssh_authorized_keys = []
        console.update()


#: Name of a check -> what makes it fail; what is read is read then.
CASES = {
    'target-capable': Strange(
        'ManagedSystem',
        element('ActiveLogicalPartitionMobilityCapable', 'false'),
    ),
    'target-free': Strange(
        'ManagedSystem', element('NumberOfActiveMigrationsInProgress', '99')
    ),
    'target-state': _migrating,
    'target-rmc': Strange(
        _LPAR, element('ResourceMonitoringControlState', 'inactive')
    ),
    'target-slots': WithSlot(),
    'target-storage': Strange(_LPAR, with_storage_status),
    'target-keys': Strange('ManagementConsole', element('PublicSSHKey', '')),
    'target-validation': WithoutKeys(),
    'target-none': Strange(
        'MigrateValidate|jobs/',
        element('Status', 'COMPLETED_OK', 'COMPLETED_[A-Z_]*|FAILED[A-Z_]*'),
        method='',
    ),
    'target-unchanged': _migrating,
}


class TargetTestCase(unittest.TestCase):
    """Two hosts, of which one lets the other one in."""

    run_again = test_check.CommandTest.run_again

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        self.extra = ''
        made = [test_migration.world(n) for n in (1, 2)]
        made[0]['systems'][0]['slots'] = [{'drc_index': SLOT}]
        site = self.enterContext(fixture.Site(made, event_wait=0))
        self.emulator, other = site.emulators
        self.adapter = hosts.connect(self, self.emulator)
        self.other = hosts.connect(self, other)
        management_console.add_authorized_key(
            self.other, management_console.get_public_key(self.adapter)
        )
        self.hosts = site.emulators
        self.before = [*map(trials.left_on, site.emulators)]

    def run_target(self, *args):
        """Run the command without its question."""
        return self.run_again(
            'partition', '--yes', '--target', OTHER, '--server', 'vm', *args
        )


class FailureTest(TargetTestCase):
    def test_each_check_is_seen_to_fail(self):
        self.assertEqual([*CASES], [check.name for check in CHECKS])
        target = live_migration.Target(OTHER, ADDRESS)
        for check in CHECKS:
            with self.subTest(check.name), contextlib.ExitStack() as stack:
                self.enterContext = stack.enter_context
                self.changed = False

                def begin():
                    managed = system.RestSystem(self.adapter, 'host1')
                    return migration_trial.Validation(
                        self.adapter, managed, 'vm', target
                    )

                this = begin()
                before = check.ask(this)
                self.assertEqual(
                    answers.Outcome.AGREES, before.outcome, before
                )
                CASES[check.name].on(self)
                if check.name != 'target-unchanged':
                    this = begin()
                answer = check.ask(this)
                self.assertEqual(differs, answer.outcome, answer)
                self.assertTrue(self.changed)
                for each in (before, answer):
                    jsonschema.validate(each.value, check.value)
                self.emulator.control.set_owner(SLOT, None, profiles=True)


class CommandTest(TargetTestCase):
    def test_two_hosts_pass_and_are_left_as_they_were(self):
        code, out = self.run_target(
            '--address', ADDRESS, '--report', test_check.REPORT
        )
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertIn("'nova-check-none' is no system", out)
        self.assertEqual(self.before, [*map(trials.left_on, self.hosts)])
        text = self.report.read_text()
        schema = report.schema('partition --target', CHECKS)
        jsonschema.validate(json.loads(text), schema)
        for word in ('vm', OTHER, ADDRESS):
            self.assertNotIn(f'"{word}"', text)
        sent = {
            (entry['label'], entry['path'].rpartition('/')[2])
            for entry in self.emulator.control.journal()
            if entry['method'] not in ('GET', 'DELETE')
            and entry['label'] != 'Logon.create'
        }
        self.assertEqual({('LogicalPartition.job', 'MigrateValidate')}, sent)

    def test_lpar_that_migrates_is_not_validated(self):
        self.changed = False
        _migrating.on(self)
        code, out = self.run_target('--address', ADDRESS)
        self.assertTrue(self.changed)
        self.assertEqual(exit_codes.WARNINGS, code, out)
        self.assertRegex(out, 'Validation +cannot tell +.*being migrated')
        self.assertNotIn(
            'LogicalPartition.job',
            {entry['label'] for entry in self.emulator.control.journal()},
        )

    def test_words_of_host_are_told(self):
        self.emulator.control.set_partition('vm', rmc_state='inactive')
        code, out = self.run_target('--address', ADDRESS)
        self.assertEqual(exit_codes.WARNINGS, code, out)
        self.assertRegex(out, r'Validation +a feature is off +HSCLA246')
        code, out = self.run_target()
        self.assertRegex(out, 'Validation +a feature.*address is missing')

    def test_lpar_that_is_none_or_off_is_refused(self):
        for name, words in (
            ('nobody', 'no LPARs of the host are called nobody'),
            ('vm', 'in the state not activated'),
        ):
            self.emulator.control.set_partition('vm', state='not activated')
            code, out = self.run_target('--server', name)
            self.assertEqual(exit_codes.TROUBLE, code)
            self.assertIn(words, out)

    def test_contradicting_options_are_refused(self):
        for args in (
            ['--slot', '1'],
            ['host', '--target', OTHER, '--server', 'vm'],
            ['partition', '--target', OTHER],
            ['partition', '--server', 'vm'],
            ['partition', '--slot', ''],
            ['partition', '--target', '', '--server', ''],
            ['partition', '--slot', '1', '--target', OTHER, '--server', 'vm'],
        ):
            with (
                self.subTest(args),
                contextlib.redirect_stderr(io.StringIO()),
                self.assertRaises(SystemExit) as caught,
            ):
                app.main(args)
            self.assertEqual(exit_codes.USAGE, caught.exception.code)

    def test_nothing_is_validated_before_the_user_agrees(self):
        with mock.patch('builtins.input', return_value='no'):
            code, out = self.run_again(
                'partition', '--target', OTHER, '--server', 'vm'
            )
        self.assertEqual(exit_codes.TROUBLE, code, out)
        self.assertNotIn('Validation', out)
