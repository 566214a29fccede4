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

"""VNC consoles of servers, from the API to what the screen shows."""

import functools
import logging
import os
import socket
import urllib.parse

import fixtures
from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi
from nova.tests.functional.api import client
from oslo_utils import uuidutils

from emulator.tests import base as rest_clients
from emulator.tests import rfb_viewer
from nova_powervm.ops import consoles
from nova_powervm.virt import record_changes
from powervm_emulator import fixture
from tests import proofs
from tests.functional import pool_sites


def free_port():
    """Return a port that nobody listens on."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


class ConsoleTestCase(pool_sites.SiteTestCase):
    """Starts hosts whose nova-compute is on the management partition."""

    def setUp(self):
        super().setUp()
        self.roots = {}
        self.ports = {}
        # Nova's own is shared by all services of this process.
        self.path = os.environ['PATH']
        self.asked = []

    def configure(self, name, *args, **options):
        """Configure a host that nova-compute logs on to by file."""
        local = {
            'rest_username': None,
            'rest_password': None,
            'management_root': self.roots[name],
            'vnc_port': self.ports.setdefault(name, free_port()),
        }
        super().configure(name, *args, **local | options)
        self.use_commands(name)

    def root(self, name):
        """Return the root directory of a host's management partition."""
        self.roots[name] = self.useFixture(fixtures.TempDir()).path
        return self.roots[name]

    def use_commands(self, name):
        """Let mkvterm and rmvterm be those of a host."""
        path = f'{self.roots[name]}/bin:{self.path}'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))

    def ask(self, server):
        """Ask for the console as a user does; return the token."""
        answer = self.api.api_post(
            f'/servers/{server["id"]}/remote-consoles',
            {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}},
        )
        url = answer.body['remote_console']['url']
        # The page gets it as a part of another value.
        query = urllib.parse.unquote(urllib.parse.urlsplit(url).query)
        self.asked.append(query.rpartition('token=')[2])
        return self.asked[-1]

    def connect(self, token):
        """Connect with a token, as nova-novncproxy does."""
        context = nova_context.get_admin_context()
        known = objects.ConsoleAuthToken.validate(context, token)
        instance = objects.Instance.get_by_uuid(context, known.instance_uuid)
        self.assertTrue(
            rpcapi.ComputeAPI().validate_console_port(
                context, instance, str(known.port), known.console_type
            )
        )
        viewer = rfb_viewer.Viewer(
            (known.host, known.port), known.internal_access_path
        )
        self.addCleanup(viewer.close)
        return viewer

    def assert_shows(self, token, server):
        """Assert that a token shows the screen of a server's LPAR."""
        viewer = self.connect(token).enter()
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual(name, viewer.name)
        viewer.find(name)
        return viewer

    def recorded(self, server):
        """Return the paths of a server in Nova's record, by host."""
        context = nova_context.get_admin_context(read_deleted='yes')
        instance = objects.Instance.get_by_uuid(
            context, server['id'], expected_attrs=['system_metadata']
        )
        return {
            key.partition('@')[2]: value
            for key, value in instance.system_metadata.items()
            if 'powervm_console@' in key
        }

    def terminal(self, server, host='host1'):
        """Return what a host says of a server's terminal."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        return self._partition(name, host)['terminal']

    def refusal(self, server):
        """Return status and message of a refused console."""
        error = self.assertRaises(
            client.OpenStackApiException, self.ask, server
        )
        (body,) = error.response.json().values()
        return error.response.status_code, body['message']


class ConsoleTest(ConsoleTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                f'{consoles.__name__}.Limits',
                # A terminal closes at once when its last client goes.
                functools.partial(consoles.Limits, idle=0),
            )
        )
        self.start_host(
            emulator=fixture.Emulator(
                password=uuidutils.generate_uuid(),
                host_root=self.root('host1'),
            )
        )

    def test_console_is_shown(self):
        self.tell_stories()

    @proofs.proves('console.vnc')
    def story_console_of_server_is_there_whenever_its_lpar_is(self):
        server = self.boot({})
        self.outlive_idle_terminal_and_nova_compute(server)
        self.use_while_it_runs_and_while_it_is_off(server)
        self.refuse_with_reason(server)

    def use_while_it_runs_and_while_it_is_off(self, server):
        viewer = self.assert_shows(self.ask(server), server)
        viewer.find('state running')

        self._stop_server(server)

        viewer.find('state not activated')
        viewer.close()
        viewer = self.assert_shows(self.ask(server), server)
        viewer.type('sms')
        viewer.find('> sms')
        viewer.close()
        self.await_closed(server)

    def outlive_idle_terminal_and_nova_compute(self, server):
        token = self.ask(server)
        self.assert_shows(token, server).close()
        self.await_closed(server)

        self.assert_shows(token, server)
        before = self.recorded(server)
        self.restart_host()

        self.assertIsNone(self.terminal(server))
        self.assert_shows(token, server).close()
        self.assertEqual(before, self.recorded(server))
        self.await_closed(server)

    def await_closed(self, server):
        """Wait until a terminal without viewers is closed."""
        self.await_found(
            lambda: self.terminal(server) is None, 'the terminal stays open'
        )

    def refuse_with_reason(self, server):
        """Ask in vain for the console of a server that is off."""
        self.control().plan_terminal('HSCL1234 out of terminals')
        code, words = self.refusal(server)
        self.assertEqual(
            (400, 'PowerVM: the host cannot open its terminal.'),
            (code, words.partition(' (log: req-')[0]),
        )
        self.assertIn('HSCL1234 out of terminals', self.logged())
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.control().open_terminal(name, vnc=False)
        self.assertIn('an administrator of the host', self.refusal(server)[1])
        self.control().close_terminal(name)

        adapter = rest_clients.adapter_for(self.hosts['host1'].emulator)
        self.addCleanup(rest_clients.forget, adapter.session)
        adapter.delete('LogicalPartition', self.lpar_uuid(server))
        self.assertEqual(404, self.refusal(server)[0])

    def story_deleted_server_leaves_no_terminal_no_path_and_no_secret(self):
        server = self.boot({})
        ours, novas = (
            self.useFixture(
                fixtures.FakeLogger(name, logging.DEBUG, nuke_handlers=False)
            )
            for name in ('nova_powervm', 'nova.objects')
        )
        token = self.ask(server)
        (path,) = self.recorded(server).values()
        viewer = self.assert_shows(token, server)
        self.control().add_fault(
            method='DELETE', match='LogicalPartition.delete', status=500
        )

        # The terminal is closed before the LPAR is deleted.
        self.api.delete_server(server['id'])
        self._wait_for_server_parameter(server, {'status': 'ERROR'})
        self.assertIsNone(self.terminal(server))
        self.assertRaises(EOFError, viewer.read, 1 << 30)

        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assertEqual({}, self.recorded(server))
        self.assertIn('LogicalPartition', ours.output)
        for secret in (path, token):
            self.assertNotIn(secret, ours.output + self.logged())
        # The page on consoles says so; this shows when it may stop.
        self.assertIn(path, novas.output)
        self.assertNotIn(token, novas.output)

    def story_path_is_recorded_once_server_has_no_task(self):
        server = self.boot({})
        record = self.instance(server)
        record.task_state = 'rebooting'
        record.save()
        token = self.ask(server)
        self.assertEqual({}, self.recorded(server))
        self.assert_shows(token, server)

        # What Nova saves with a task at this moment is not lost.
        record.task_state = None
        record.save()
        save = record_changes.save_metadata

        def save_late(instance, **options):
            record.task_state = 'rebooting'
            record.system_metadata['saved'] = 'meanwhile'
            record.save()
            save(instance, **options)

        with fixtures.MonkeyPatch(
            f'{record_changes.__name__}.save_metadata', save_late
        ):
            self.assert_shows(token, server)
        self.assertEqual({}, self.recorded(server))
        record = self.instance(server)
        self.assertEqual('meanwhile', record.system_metadata['saved'])

        record.task_state = None
        record.save()
        self.assert_shows(token, server)
        self.assertEqual(1, len(self.recorded(server)))


class MovedConsoleTest(ConsoleTestCase):
    def setUp(self):
        super().setUp()
        site = fixture.Site(
            [pool_sites.world(number) for number in (1, 2)],
            host_roots=[self.root(host) for host in pool_sites.HOSTS],
        )
        for host, emulator in zip(
            pool_sites.HOSTS, site.emulators, strict=True
        ):
            self.start_host(host, emulator=emulator, disk_driver='ssp')
        self.use_commands('host1')

    def test_moved_server_gets_console_with_other_path(self):
        server = self.boot({}, disk=1)
        old = self.ask(server)
        viewer = self.assert_shows(old, server)
        (first,) = self.recorded(server).values()

        server = self._migrate_server(
            server, 'host2', 'VERIFY_RESIZE', api=self.admin_api
        )

        self.assertRaises(EOFError, viewer.read, 1 << 30)
        self.assertIsNone(self.terminal(server, 'host1'))
        self.assertEqual({}, self.recorded(server))
        self.use_commands('host2')
        self.assert_shows(self.ask(server), server)
        (second,) = self.recorded(server).values()

        self.api.post_server_action(server['id'], {'revertResize': None})
        server = self._wait_for_state_change(server, 'ACTIVE')

        self.assertEqual({}, self.recorded(server))
        self.use_commands('host1')
        self.assertRaises(rfb_viewer.Refused, self.connect(old).enter)
        self.assert_shows(self.ask(server), server)
        (third,) = self.recorded(server).values()
        self.assertEqual(3, len({first, second, third}))

        for action, status in (('rescue', 'RESCUE'), ('unrescue', 'ACTIVE')):
            self.api.post_server_action(server['id'], {action: None})
            self._wait_for_state_change(server, status)
            self.assertEqual({}, self.recorded(server))

        self.ask(server)
        (old,) = self.recorded(server).values()
        self.lose_host('host1')
        server = self.evacuate(server)
        self.use_commands('host2')
        token = self.ask(server)
        self.assertNotEqual(old, self.recorded(server)['host2'])

        self.regain_host('host1')

        self.assertEqual({'host2'}, set(self.recorded(server)))
        self.use_commands('host2')
        self.assert_shows(token, server)
