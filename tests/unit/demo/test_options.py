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

"""Options, the cloud that they make, and what the user can do with it."""

import contextlib
import io
import os
import pathlib
import shlex
import stat
import unittest
from concurrent import futures
from unittest import mock

import sqlalchemy

from demo import client_files
from demo import command_guide
from demo import config
from demo import expected_providers
from demo import launcher
from demo import main
from demo import operator_commands
from demo import sqlite
from demo import stack as stack_lib
from demo import two_worlds
from powervm_emulator import worlds
from tests.unit.demo import samples


class OptionsTest(samples.DirectoryTestCase):
    def test_unusable_files_and_directory_are_usage_errors(self):
        inventory, absent, world, text = (
            self.directory / name for name in ('inventory', 'no', 'world', 'x')
        )
        inventory.write_text('gpus:\n  traits: []\n')
        world.write_text('systems: [{name: 1}]')
        text.write_text('[]')
        for option, path, *reasons in (
            ('--state-dir', self.directory, 'is not empty'),
            ('--inventory', absent, 'No such file'),
            ('--inventory', inventory, 'line ', 'gpus'),
            ('--accelerators', inventory, 'line ', 'gpus'),
            ('--world', absent, 'No such file'),
            ('--world', world, 'systems[0].name'),
            ('--world', text, 'the document: '),
        ):
            with (
                self.subTest(option, path=path),
                contextlib.redirect_stderr(io.StringIO()) as err,
            ):
                self.assertEqual(2, main.main([option, str(path)]))
                for reason in (str(path), *reasons):
                    self.assertIn(reason, err.getvalue())

    def test_options_that_exclude_each_other_are_usage_errors(self):
        for named, *arguments in (
            ('--json', '--json', 'x', '--inventory', 'y'),
            ('--hosts 2', '--hosts', '2', '--world', 'x'),
            ('--hosts 2', '--hosts', '2', '--inventory', 'x'),
            ('--hosts 2', '--hosts', '2', '--accelerators', 'x'),
            ('--hosts 2', '--hosts', '2', '--cyborg'),
            ('--cinder is', '--cinder', '--cyborg'),
            ('--console is', '--console', '--cyborg'),
            ('add --no-steps', '--cinder', '--hosts', '2'),
        ):
            with (
                self.subTest(arguments),
                contextlib.redirect_stderr(io.StringIO()) as err,
                self.assertRaises(SystemExit),
            ):
                main._parse(arguments)
            self.assertIn(named, err.getvalue())

    def test_only_files_of_the_user_and_no_steps_imply_keep(self):
        for is_kept, argument, *more in (
            (False, '--cyborg'),
            (False, '--cinder'),
            (False, '--console'),
            (False, '--hosts', '2', '--json', 'x'),
            (False, '--transport-url', 'x'),
            (True, '--no-steps'),
            (True, '--inventory', 'a'),
            (True, '--world', 'a'),
            (True, '--accelerators', 'a'),
        ):
            with self.subTest(argument):
                found = main._parse([argument, *more])
                self.assertEqual(is_kept, found.keep)
                self.assertEqual(not is_kept, found.choices.runs_steps)
        self.assertTrue(found.choices.has_cyborg)

    def test_what_ctrl_c_deletes_is_announced(self):
        stack = self.make_stack()
        path = stack.state_dir
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            mock.patch.object(
                main.signal, 'pause', side_effect=KeyboardInterrupt
            ),
        ):
            for is_temporary in (True, False):
                main._keep(stack, launcher.Choices(), is_temporary)
        self.assertTrue((path / 'openrc').exists())
        following = path.with_name(f'{path.name}-2')
        self.assertEqual(following, main._next_state_dir(path))
        first, _, second = out.getvalue().partition('stopping')
        self.assertIn('deletes everything', first)
        self.assertIn(f'stay in {path}', second)


class StackTest(samples.DirectoryTestCase):
    def test_only_services_in_several_processes_have_a_broker(self):
        for choices, wanted in (
            ({}, 'fake:/'),
            ({'has_cinder': True}, 'fake:/'),
            ({'has_cyborg': True}, 'demo-tcp://:'),
            ({'has_console': True}, 'demo-tcp://:'),
            ({'hosts': 2}, 'demo-tcp://:'),
            ({'hosts': 2, 'transport_url': 'rabbit://h'}, 'rabbit://h'),
        ):
            made = self.make_stack(**choices)
            self.assertTrue(made.transport_url.startswith(wanted), choices)
            # Commands of the user need the driver, too.
            path = client_files.environment(made).get('PYTHONPATH', '')
            is_own = wanted.startswith('demo')
            self.assertIs(is_own, 'messaging/metadata' in path)
            self.assertIs(is_own, str(stack_lib.CHECKOUT) in path)

    def test_parts_have_apis_and_users_and_read_files_of_the_user(self):
        plain = self.make_stack()
        for name in ('cinder', 'cyborg'):
            made = self.make_stack(**{f'has_{name}': True})
            self.assertIn(name, made.ports.keys() & made.passwords.keys())
            self.assertNotIn(name, {*plain.ports, *plain.passwords})
        mine = pathlib.Path('mine')
        made = self.make_stack(
            has_cyborg=True, accelerators=mine, inventory=mine
        )
        files = [made.accelerator_file, made.inventory_file]
        self.assertEqual([pathlib.Path.cwd() / 'mine'] * 2, files)

    def test_two_hosts_share_nothing_that_belongs_to_one(self):
        made = self.make_stack(hosts=2)
        files = [config.nova_compute(made, one) for one in made.computes]
        for section, *keys in (
            ('DEFAULT', 'host', 'my_ip', 'state_path', 'log_file'),
            ('powervm', 'rest_url', 'management_root', 'inventory_file'),
            ('oslo_concurrency', 'lock_path'),
        ):
            for key in keys:
                found = {str(file[section][key]) for file in files}
                self.assertEqual(2, len(found), key)
        for file in files:
            # nova-compute refuses to start with a database.
            self.assertFalse({'database', 'api_database'} & {*file})
            self.assertEqual('ssp', file['powervm']['disk_driver'])
        self.assertNotIn('compute_driver', config.nova(made)['DEFAULT'])

    def test_secrets_are_private_and_not_shown(self):
        self.directory.chmod(0o755)
        path = stack_lib.make_state_dir(self.directory)
        self.assertEqual(0o700, stat.S_IMODE(path.stat().st_mode))
        for choices in ({}, {'has_cyborg': True}, {'hosts': 2}):
            made = self.make_stack(**choices)
            made.save()
            saved = path / 'stack.json'
            self.assertEqual(0o600, stat.S_IMODE(saved.stat().st_mode))
            self.assertEqual(made, stack_lib.load(path))
            secrets = {*made.passwords.values(), made.transport_url, 'secret'}
            for secret in secrets - {'fake:/'}:
                self.assertNotIn(secret, repr(made))
        self.assertNotEqual(made.transport_url, self.make_stack(hosts=2))
        # It reports the devices of Nova as that, without a password.
        cyborg = self.make_stack(has_cyborg=True)
        nova = config.nova(cyborg)['powervm']
        self.assertFalse([key for key in nova if 'password' in key])

    def test_files_of_nova_and_cyborg_identify_different_slots(self):
        """GPUs are the same with and without Cyborg."""
        without, beside, cyborgs = (
            [one.identification for one in found]
            for found in map(
                expected_providers.read_paragraphs,
                (
                    launcher.default_inventory(),
                    launcher.default_inventory(has_cyborg=True),
                    launcher.default_accelerators(),
                ),
            )
        )
        self.assertEqual(without[:2], beside)
        self.assertEqual(without, [*beside, *cyborgs])
        self.assertEqual(len(without), len({str(one) for one in without}))

    def test_written_worlds_differ_in_one_gpu_and_names_of_ports(self):
        first, second = (
            {slot['drc_index']: slot for slot in world['systems'][0]['slots']}
            for world in (
                worlds.load_file(str(path))
                for path in two_worlds.write(self.directory, has_volumes=True)
            )
        )
        different = [
            index
            for index, slot in second.items()
            if slot.get('device_id') != first[index].get('device_id')
        ]
        self.assertEqual([two_worlds.OTHER_GPU], different)
        names = [
            port['wwpn']
            for slot in (*first.values(), *second.values())
            for port in slot.get('fibre_channel_ports', ())
        ]
        self.assertEqual([8, 8], [len(names), len({*names})])


class SqliteTest(samples.DirectoryTestCase):
    def setUp(self):
        super().setUp()
        listen, remove = sqlalchemy.event.listen, sqlalchemy.event.remove
        for name, function in (
            ('connect', sqlite._on_connect),
            ('connect', sqlite._on_referring_connect),
            ('before_cursor_execute', sqlite._on_execute),
        ):
            engines = sqlalchemy.engine.Engine
            self.addCleanup(remove, engines, name, function)
        sqlite.serialize_writers()
        sqlite.check_references()
        url = f'sqlite:///{self.directory}/a.db'
        self.engine = engine = sqlalchemy.create_engine(url)
        self.addCleanup(engine.dispose)
        # As oslo.db does it: the BEGIN is SQLAlchemy's, not sqlite3's.
        listen(
            engine, 'connect', lambda c, _: setattr(c, 'isolation_level', None)
        )
        listen(engine, 'begin', lambda c: c.exec_driver_sql('BEGIN'))

    def run_sql(self, *statements):
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def test_transactions_that_read_first_all_write(self):
        """A nested one, of the same thread, reads while it has the lock."""
        self.run_sql('CREATE TABLE c (n)', 'INSERT INTO c VALUES (0)')
        read = 'SELECT n FROM c'

        def count():
            for _ in range(25):
                with self.engine.begin() as one, self.engine.begin() as nested:
                    n = one.exec_driver_sql(read).scalar()
                    nested.exec_driver_sql(read)
                    one.exec_driver_sql('UPDATE c SET n = ?', (n + 1,))

        with futures.ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(count) for _ in range(4)]:
                done.result()
        with self.engine.connect() as connection:
            self.assertEqual(100, connection.exec_driver_sql(read).scalar())

    def test_row_that_another_refers_to_is_not_deleted(self):
        self.run_sql(
            'CREATE TABLE profile (id INTEGER PRIMARY KEY)',
            'CREATE TABLE request (profile REFERENCES profile (id))',
            'INSERT INTO profile VALUES (1)',
            'INSERT INTO request VALUES (1)',
        )
        with self.assertRaises(sqlalchemy.exc.IntegrityError):
            self.run_sql('DELETE FROM profile')


def _commands(flavor='gpu.one', next_run=False, **choices):
    """Return the commands of a guide as a shell would split them."""
    names = ('large_flavor', 'paragraphs', 'accelerator_classes')
    guide = command_guide.Guide(
        pathlib.Path('/a state'),
        pathlib.Path('/prefix'),
        flavor=flavor,
        **{name: choices.pop(name, '') for name in names},
        choices=launcher.Choices(**choices),
    )
    text = guide.for_next_run() if next_run else guide.for_running_cloud()
    joined = text.replace('\\\n', '').splitlines()
    lines = [line for line in joined if line.startswith('  ')]
    return [' '.join(shlex.split(line, comments=True)) for line in lines]


class GuideTest(unittest.TestCase):
    """Commands for a cloud that runs, or for the next one."""

    def test_cloud_has_commands_for_its_parts_and_files(self):
        nova = '/a state/etc/nova.conf'
        first, second = (f'/a state/etc/nova-compute-{n}.conf' for n in (1, 2))
        cards = '/a state/etc/accelerators.yaml'
        common = ['. /a state/openrc', '--flavor gpu.one ', ' validate']
        for choices, wanted in (
            ({}, [f'{nova} flavor lint --cloud', f'{nova} upgrade check']),
            (
                {'has_cinder': True},
                [nova, ' add volume my-server', '/volumes/array.json'],
            ),
            (
                {'has_cyborg': True, 'accelerator_classes': ['CUSTOM_CARD']},
                [
                    *(nova, f'--accelerators {cards}', 'show --cyborg'),
                    'CUSTOM_CARD=1,trait:CUSTOM_POWERVM_CYBORG=required',
                    ' '.join(operator_commands.REPORTS),
                ],
            ),
            (
                {'has_cyborg': True, 'accelerators': pathlib.Path('/my')},
                ['--accelerators /my', 'accelerator device list'],
            ),
            (
                {'hosts': 2, 'large_flavor': 'gpu.two'},
                [
                    *(f'{second} diff', f'pkill -9 -f {first}'),
                    *('resize --flavor gpu.two', 'shelve', 'evacuate'),
                ],
            ),
        ):
            text = '\n'.join(_commands(**choices))
            for part in (*common, *wanted):
                self.assertIn(part, text)
            hosts = choices.get('hosts', 1)
            for part, is_there in (
                ('volume', 'has_cinder' in choices),
                ('cyborg', 'has_cyborg' in choices),
                ('profile create', 'accelerator_classes' in choices),
                ('migrat', hosts > 1),
                (nova, hosts == 1),
            ):
                self.assertIs(is_there, part in text, (choices, part))

    def test_flavor_of_the_user_is_made_of_the_first_paragraph(self):
        for paragraphs, wanted in (
            (['my gpus', 'other'], '--paragraph my gpus --apply'),
            ([], 'flavor create --ram'),
        ):
            commands = _commands(None, paragraphs=paragraphs)
            self.assertIn(wanted, '\n'.join(commands))

    def test_next_run_is_kept_and_has_the_choices_of_this_one(self):
        with mock.patch.dict(os.environ, NOVA_POWERVM_DEMO_SCRIPT='x/demo.sh'):
            for choices, wanted in (
                ({}, ''),
                ({'hosts': 2}, ' --hosts 2'),
                ({'has_cinder': True}, ' --cinder'),
                (
                    {'has_cyborg': True, 'transport_url': 'rabbit://a b@h'},
                    ' --cyborg --transport-url rabbit://a b@h',
                ),
            ):
                first = _commands(next_run=True, **choices)[0]
                begin = 'x/demo.sh --keep --state-dir /a state'
                self.assertEqual(f'{begin}{wanted}', first)
