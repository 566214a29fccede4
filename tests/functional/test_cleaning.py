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

"""Used devices that nova-powervm-clean cleans and releases."""

import configparser
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from concurrent import futures

import fixtures
from nova import context as nova_context

from nova_powervm.devices import names
from nova_powervm.tool.clean import app
from nova_powervm.tool.clean import program as programs
from tests import proofs
from tests.functional import one_time_use
from tests.functional import test_commands
from tests.functional import test_consoles
from tests.unit.docs import pages

INDEX = one_time_use.INDEX
SLOT = f'{INDEX:08X}'
#: The partition of the worked example; it is off.
PARTITION = 'archive'
CLEANED = 'exit 0'
#: What the slot is called, and what is in it.
LOCATION = 'U78D2.001.EMU0001-P1-C3'
IDS = '10DE:1DB6:10DE:124A'

_SAMPLE = pages.ROOT / 'etc' / 'nova' / 'clean-slot.sample'


class CleaningTestCase(
    one_time_use.OneTimeUseTestCase, test_commands.CommandTestCase
):
    """A host with one-time-use GPUs and a partition for cleaning."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # The log is that of the test.
        self.useFixture(
            fixtures.MockPatchObject(app.logging, 'setup', lambda *_: None)
        )
        self.start_host()

    def forget(self):
        super().forget()
        self.control().clear_faults()
        self.control().set_partition(PARTITION, state='not activated')
        self.control().set_owner(SLOT, None)
        for index, provider in self.slot_providers().items():
            traits = self._get_provider_traits(provider['uuid'])
            self._set_provider_traits(
                provider['uuid'],
                [
                    t
                    for t in traits
                    if t not in names.quarantine_traits(traits)
                ],
            )
            self.release(index)
        self.read_anew()
        for path in self.directory.iterdir():
            path.unlink()

    def read_anew(self):
        """Let Nova read all providers, and update them."""
        manager = self.computes['host1'].manager
        manager.reportclient._association_refresh_time.clear()
        manager.update_available_resource(nova_context.get_admin_context())

    def use(self, *indexes):
        """Leave devices as a deleted server does."""
        for index in indexes or (INDEX,):
            uuid = self.slot_providers()[index]['uuid']
            self.reserve(uuid, 'CUSTOM_GPU', 1)

    def conf(self, script=CLEANED, **options):
        """Write nova.conf with a program for the shell; give its path."""
        path = self.directory / 'program'
        path.write_text(textwrap.dedent(script))
        return self.nova_conf(
            powervm_clean={
                'program': f'/bin/sh {path}',
                'state_directory': self.directory,
                **options,
            }
        )

    def clean(self, *script, **options):
        """Run ``nova-powervm-clean --once``; return its exit code."""
        return self.run_clean(self.conf(*script, **options))

    def run_clean(self, conf):
        """Run the command with a nova.conf; return its exit code."""
        return app.main(['--config-file', conf, '--once'])

    def clean_by(self, act, **options):
        """Make one pass with a function in place of the program.

        :param act: Takes the environment; returns what the pass is told.
        """
        with fixtures.MockPatchObject(
            programs.Program,
            'run',
            lambda _, variables, __: act(variables) or programs.Outcome(),
        ):
            return self.clean(**options)

    def passes(self, **options):
        """Return what makes passes, in this thread."""
        config = app.read_config(['--config-file', self.conf(**options)])
        settings = app.options.read_settings(config.conf.powervm_clean)
        return app.make_passes(config, settings, 0)

    def marks(self):
        """Return the quarantine traits of the device."""
        uuid = self.slot_providers()[INDEX]['uuid']
        return names.quarantine_traits(self._get_provider_traits(uuid))

    def counts(self):
        """Return the counted attempts."""
        path = self.directory / 'host1.json'
        return list(json.loads(path.read_text()).values())

    def written(self):
        """Return what a program has written to the file 'written'."""
        return (self.directory / 'written').read_text().splitlines()

    def assert_logged(self, words):
        """Assert that the log of the story has some words."""
        self.assertIn(words, self.logged())


class SampleTestCase(CleaningTestCase):
    """Runs the sample as a program, and what is in its partition."""

    def setUp(self):
        super().setUp()
        self.url = f'http://127.0.0.1:{test_consoles.free_port()}'
        self.key = self.useFixture(fixtures.TempDir()).join('clean-key')
        path = pathlib.Path(self.key)
        path.touch(0o600)
        path.write_text(f'{"k" * 64}\n')

    def clean_with(self, system):
        """Make one pass with the sample.

        :param system: Called when the partition runs, for what is in it.
        :returns: The exit code.
        """

        def run():
            for _ in range(1200):
                if f'{PARTITION} has started with slot' in self.logged()[at:]:
                    return system()
                time.sleep(0.1)
            raise AssertionError('the partition does not start')

        at = len(self.logged())
        with futures.ThreadPoolExecutor() as pool:
            running = pool.submit(run)
            code = self.run_clean(
                self.nova_conf(powervm_clean=self.options_of_the_page())
            )
            running.result()
        return code

    def switch_off(self):
        """Let the partition shut down."""
        self.control().set_partition(PARTITION, state='not activated')

    def adapt(self, text):
        """Put the URL and files of this test into a script of the page."""
        for old, new in (
            ('http://127.0.0.1:8091', self.url),
            ('http://192.0.2.21:8091', self.url),
            ('/etc/nova/clean-key', self.key),
            ('/etc/clean-key', self.key),
        ):
            text = text.replace(old, new)
        return text

    def run_script(self, text):
        """Run a script of the page."""
        subprocess.run(['/bin/sh', '-euc', self.adapt(text)], check=True)

    def blocks(self, language):
        """Return the code blocks of the page."""
        return [
            text
            for name, text in pages.blocks(language)
            if name == 'admin/cleaning'
        ]

    def options_of_the_page(self):
        """Return the options of the example, with the paths of this test."""
        parser = configparser.ConfigParser()
        parser.read_string(self.blocks('ini')[-1])
        options = dict(parser['powervm_clean'])
        program = f'/opt/nova/bin/python3 /etc/nova/{_SAMPLE.stem} '
        self.assertTrue(options['program'].startswith(program))
        arguments = self.adapt(options['program'].removeprefix(program))
        words = [sys.executable, str(_SAMPLE)]
        words += arguments.replace('127.0.0.1:8091', self.url[7:]).split()
        return options | {
            'program': shlex.join([*words, self.nova_conf()]),
            'state_directory': self.directory,
        }

    def assert_slot_is_back(self):
        """Assert that the partition is off, and has nothing."""
        self.assertIsNone(self.slot_owner(INDEX))
        self.assertEqual({}, self.lpar_named(PARTITION).slots)
        self.assertEqual('not activated', self.lpar_named(PARTITION).state)

    def assert_unknown(self, system, *words):
        """Assert that what is in the partition leaves the device burned."""
        at = len(self.logged())
        self.assertEqual(2, self.clean_with(system))
        self.assert_burned(INDEX)
        self.assert_slot_is_back()
        self.assertEqual([1], self.counts())
        for text in ('unknown: ', *words):
            self.assertIn(text, self.logged()[at:])
        (self.directory / 'host1.json').unlink()


class CleaningTest(SampleTestCase):
    """Whatever happens, an unclean device stays reserved.

    What else can happen in a pass is in tests/unit/tool/clean.
    """

    def test_devices_are_released_only_after_they_were_cleaned(self):
        self.tell_stories()

    @proofs.proves('O1', 'O3')
    def story_device_of_deleted_server_is_cleaned_and_offered_again(self):
        server = self.boot(one_time_use.gpu_group())
        uuid = self.slot_providers()[INDEX]['uuid']
        self.assertEqual(0, self.clean())
        self.assert_burned(INDEX)
        self._delete_server(server)

        code = self.clean(
            f"""\
            env | grep ^POWERVM_ | sort > {self.directory}/written
            ls -l /proc/$$/fd | grep -o host1.lock >> {self.directory}/written
            echo wiping
            echo careful >&2
            """
        )

        self.assertEqual(0, code)
        self.assert_burned()
        self.assertEqual(
            [
                'POWERVM_ATTEMPT=1',
                f'POWERVM_DRC_INDEX={SLOT}',
                'POWERVM_HOST=host1',
                'POWERVM_IDS=10DE:1DB6:10DE:124A',
                'POWERVM_LOCATION=U78D2.001.EMU0001-P1-C3',
                'POWERVM_PARTITION=',
                # A program that outlives its caller keeps the lock.
                'host1.lock',
            ],
            self.written(),
        )
        self.assert_logged(f'Slot {SLOT}: wiping')
        self.assert_logged(f'Slot {SLOT}: careful')
        self.assert_logged(f'Slot {SLOT} is clean, and was released.')
        self.assertEqual([], self.counts())
        self.read_anew()
        again = self.boot(one_time_use.gpu_group())
        self.assertEqual([INDEX], [*self.lpar(again).slots])
        self.assertEqual(uuid, self.slot_providers()[INDEX]['uuid'])

    @proofs.proves('O5')
    def story_device_that_cannot_be_cleaned_is_quarantined_in_the_end(self):
        self.use()
        program = f"""\
            echo $POWERVM_ATTEMPT >> {self.directory}/written
            exit 7
            """
        for _ in range(2):
            self.assertEqual(2, self.clean(program))
            self.assert_burned(INDEX)
            self.assertEqual(set(), self.marks())
        self.assert_logged('the program ended with exit code 7')
        self.assertEqual(2, self.clean(program))
        self.assertEqual(
            {names.QUARANTINED_TRAIT, names.quarantine_trait('CLEANING')},
            self.marks(),
        )
        self.assert_logged(f'Slot {SLOT} is in quarantine: 3 attempts')

        # It is left alone, until somebody ends that.
        self.assertEqual(0, self.clean(program))
        self.assert_burned(INDEX)
        self.assertEqual(['1', '2', '3'], self.written())
        self.run_command('restore', SLOT)
        self.assertEqual(2, self.clean(program))
        self.assertEqual(['1', '2', '3', '1'], self.written())

    def story_device_being_cleaned_is_offered_by_no_one_else(self):
        self.use()
        refused = []

        def try_all(_):
            self.control().set_owner(SLOT, PARTITION)
            refused.append(self.run_command('release', SLOT, '--yes')[::2])
            self.read_anew()
            self.restart_host()
            self.read_anew()
            self.assert_burned(INDEX)
            refused.append(self.allocate_device())
            self.control().set_owner(SLOT, None)

        self.assertEqual(0, self.clean_by(try_all))
        (code, words), status = refused
        self.assertEqual((2, 409), (code, status))
        self.assertIn(f'its slot is owned by partition {PARTITION}', words)
        self.assert_burned()

    def allocate_device(self):
        """Try to allocate the device; return Placement's answer."""
        uuid = self.slot_providers()[INDEX]['uuid']
        return self.placement.put(
            '/allocations/00000000-0000-0000-0000-000000000001',
            {
                'allocations': {uuid: {'resources': {'CUSTOM_GPU': 1}}},
                'consumer_generation': None,
                'project_id': self.api.project_id,
                'user_id': 'admin',
            },
            version='1.28',
        ).status

    def story_signal_ends_the_program_and_costs_no_attempt(self):
        self.use()
        code = self.clean(
            f"""\
            trap 'echo stopped >> {self.directory}/written; exit 1' TERM
            kill -TERM $PPID
            sleep 600 & wait
            """
        )
        self.assertEqual(2, code)
        self.assertEqual(['stopped'], self.written())
        self.assertEqual([], self.counts())
        self.assert_burned(INDEX)
        self.assert_logged(f'Slot {SLOT} stays reserved: the program was')

    # The scripts and the worked example of the page on cleaning

    def story_example_moves_slot_to_a_partition_and_back(self):
        self.use()
        commands = dict(pages.commands('admin/cleaning'))
        self.assertIn('nova-powervm-clean --once', commands)
        found = []

        def answer_in_other_terminal():
            found.extend([self.slot_owner(INDEX), *self.burned()])
            self.run_script(self.blocks('sh')[1])

        self.assertEqual(0, self.clean_with(answer_in_other_terminal))
        uuid = self.lpar_named(PARTITION).uuid
        self.assertEqual([uuid, INDEX], found)
        self.assert_slot_is_back()
        self.assert_burned()
        self.assert_shown(self.blocks('none')[0])

    def story_slot_is_taken_back_after_a_kill_and_at_a_signal(self):
        self.use()
        # As a program leaves it that was killed.
        self.control().set_owner(SLOT, PARTITION)
        self.control().set_partition(PARTITION, state='running')

        code = self.clean_with(lambda: os.kill(os.getpid(), signal.SIGTERM))

        self.assertEqual(2, code)
        self.assert_logged('the program was stopped')
        self.assert_burned(INDEX)
        self.assert_slot_is_back()

    def story_example_without_a_report_fails(self):
        self.use()
        self.assert_unknown(
            self.switch_off,
            f'{PARTITION} is off, and has not reported what it wiped',
        )
        self.assert_shown(self.blocks('none')[1])

    def assert_shown(self, block):
        """Assert that the log has the lines of the page."""
        logged = iter(self.logged().splitlines())
        for line in filter(None, block.splitlines()):
            self.assertTrue(any(each.endswith(line) for each in logged), line)

    def story_script_of_the_wiping_system_reports_what_it_has_wiped(self):
        self.use()
        system = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        device = system / 'bus/pci/devices/0001:01:00.0'
        device.mkdir(parents=True)
        for name, value in zip(
            ('vendor', 'device', 'subsystem_vendor', 'subsystem_device'),
            IDS.lower().split(':'),
            strict=True,
        ):
            (device / name).write_text(f'0x{value}\n')
        (system / 'bus/pci/slots' / LOCATION).mkdir(parents=True)
        script = self.blocks('sh')[0].replace('/sys/', f'{system}/')

        done = self.directory / 'wiped'

        def run(outcome):
            functions = (
                f'wipe() {{ echo "$1" >> {done}; {outcome}; }}\n'
                f'poweroff() {{ echo off >> {done}; }}\n'
                f'curl() {{ echo "$2" >> {done}; command curl "$@"; }}\n'
            )
            with contextlib.suppress(subprocess.CalledProcessError):
                self.run_script(functions + script)

        def run_both():
            run('false')
            run('true')
            self.switch_off()

        self.assertEqual(0, self.clean_with(run_both))
        self.assert_burned()
        # A device that could not be wiped is not reported.
        self.assertEqual(
            [
                *(self.url, str(device), 'off'),
                *(self.url, str(device), '--data', 'off'),
            ],
            done.read_text().splitlines(),
        )
