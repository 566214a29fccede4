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
from demo import launcher
from demo import main
from demo import sqlite
from demo import stack as stack_lib
from demo import two_worlds
from demo import volume_world
from powervm_emulator import worlds
from tests.unit.demo import samples


class OptionsTest(samples.DirectoryTestCase):
    def assert_refused(self, *arguments, reasons):
        with (
            self.subTest(arguments),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                status = main.main([str(one) for one in arguments])
            except SystemExit as error:
                status = error.code
            self.assertEqual(2, status)
            for reason in reasons:
                self.assertIn(reason, err.getvalue())

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
            self.assert_refused(option, path, reasons=[str(path), *reasons])

    def test_options_that_exclude_each_other_are_usage_errors(self):
        for line, reason in (
            ('--json x --inventory y', '--json'),
            ('--hosts 2 --world x', '--hosts 2'),
            ('--hosts 2 --inventory x', '--hosts 2'),
            ('--hosts 2 --accelerators x', '--hosts 2'),
            ('--hosts 2 --cyborg', '--hosts 2'),
            ('--cinder --cyborg', '--cinder is'),
            ('--console --cyborg', '--console is'),
        ):
            self.assert_refused(*line.split(), reasons=[reason])

    def test_only_files_of_the_user_and_no_steps_imply_keep(self):
        for line, is_kept in (
            ('--cyborg', False),
            ('--cinder --console', False),
            ('--cinder --hosts 2', False),
            ('--hosts 2 --json x --transport-url x', False),
            ('--no-steps', True),
            ('--inventory a', True),
            ('--world a', True),
            ('--accelerators a', True),
        ):
            found = main._parse(line.split())
            self.assertEqual(is_kept, found.keep, line)
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

    def test_files_of_the_user_are_read_where_they_are(self):
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
        # By these names, the steps tell to which host a volume is mapped.
        known = [volume_world.wwpns(host).values() for host in (1, 2)]
        self.assertEqual(
            names, [name for ports in known for pair in ports for name in pair]
        )


class SqliteTest(samples.DirectoryTestCase):
    def setUp(self):
        super().setUp()
        url = f'sqlite:///{self.directory}/a.db'
        self.engine = engine = sqlalchemy.create_engine(url)
        self.addCleanup(engine.dispose)
        listen = sqlalchemy.event.listen

        def listen_here(_engines, *how, **options):
            listen(engine, *how, **options)

        with mock.patch.object(sqlalchemy.event, 'listen', listen_here):
            sqlite.serialize_writers()
            sqlite.check_references()
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
        read, write = 'SELECT n FROM c', 'UPDATE c SET n = n + 1'
        with futures.ThreadPoolExecutor() as threads:
            with self.engine.begin() as one, self.engine.begin() as nested:
                for connection in (one, nested):
                    connection.exec_driver_sql(read)
                other = threads.submit(self.run_sql, read, write)
                futures.wait([other], timeout=0.3)
                one.exec_driver_sql(write)
            other.result()
        with self.engine.connect() as connection:
            self.assertEqual(2, connection.exec_driver_sql(read).scalar())

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

    @mock.patch.dict(os.environ, NOVA_POWERVM_DEMO_SCRIPT='x/demo.sh')
    def test_cloud_has_commands_for_its_parts_and_files(self):
        for options, choices, parts, others in (
            ('', {}, 'openrc|nova.conf validate', 'volume|cyborg|migrat'),
            ('', {'flavor': None}, 'flavor create --ram', '--apply'),
            (
                '',
                {'flavor': None, 'paragraphs': ['my gpus', 'other']},
                '--paragraph my gpus --apply',
                'other',
            ),
            (
                ' --cinder --transport-url rabbit://a b@h',
                {'has_cinder': True, 'transport_url': 'rabbit://a b@h'},
                'add volume my-server',
                'cyborg|migrat',
            ),
            (
                ' --cyborg',
                {'has_cyborg': True, 'accelerator_classes': ['CUSTOM_CARD']},
                'show --cyborg|demo.cyborg_reports|CUSTOM_CARD=1,trait:CUSTOM_'
                '|diff --accelerators /a state/etc/accelerators.yaml',
                'volume|migrat',
            ),
            (
                ' --cyborg',
                {'has_cyborg': True, 'accelerators': pathlib.Path('/my')},
                'diff --accelerators /my',
                'profile create',
            ),
            (
                ' --hosts 2',
                {'hosts': 2, 'large_flavor': 'gpu.two'},
                'migrate --live-migration my-live|--live-migration my-server'
                '|2.84 server event show my-server'
                '|pkill -9 -f /a state/etc/nova-compute-1.conf|evacuate'
                '|nova-compute-2.conf diff|resize --flavor gpu.two',
                'nova.conf|volume|cyborg',
            ),
            (
                ' --hosts 2',
                {'hosts': 2, 'flavor': None, 'paragraphs': ['gpus']},
                'nova-compute-1.conf flavor create my-flavor --paragraph gpus',
                'nova.conf|volume|cyborg',
            ),
            (
                ' --cinder --hosts 2',
                {'hosts': 2, 'has_cinder': True, 'large_flavor': 'gpu.two'},
                'migrate --wait my-booted|cat /a state/volumes/array.json',
                'nova.conf|cyborg',
            ),
        ):
            text = '\n'.join(_commands(**choices))
            for part in parts.split('|'):
                self.assertIn(part, text)
            self.assertNotRegex(text, others)
            first = _commands(next_run=True, **choices)[0]
            begin = 'x/demo.sh --keep --state-dir /a state'
            self.assertEqual(f'{begin}{options}', first)
