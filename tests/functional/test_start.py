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

"""nova-compute starts, or refuses to start and names the cause."""

import os
import time
import types
import urllib.parse

import fixtures
from nova import exception as nova_exception
from nova.scheduler.client import report
from nova.virt import node as virt_node

from nova_powervm.virt import driver
from powervm_emulator import worlds
from tests import proofs
from tests.functional import base

HOOK = """
def session_config(session):
    session.dest = '{url}'
    session.port = {port}
"""


class RefusedStartTest(base.PowerVMTestCase):
    """Invalid configuration stops nova-compute."""

    def setUp(self):
        super().setUp()
        self.hosts['host1'] = self.useFixture(base.EmulatedHost('host1'))

    def test_start_is_refused(self):
        self.tell_stories()

    def refused(
        self,
        inventory=base.GPUS,
        error=nova_exception.InvalidConfiguration,
        **options,
    ):
        """Assert that nova-compute does not start; return the message."""
        self.configure('host1', inventory, **options)
        refusal = self.assertRaises(error, self._start_compute, 'host1')
        return str(refusal)

    @proofs.proves('D37', 'D65', 'D67')
    def story_file_with_a_mistake_is_refused(self):
        trait = 'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE'
        for old, new, *words in (
            (
                'device_id',
                'product_id',
                'line 4',
                'product_id',
                'did you mean device_id',
            ),
            ('device_id', 'vendor_id', 'line 4', 'vendor_id'),
            (
                'CUSTOM_TESLA_V100',
                trait,
                'line 6',
                f'trait {trait} belongs to the driver',
            ),
            (
                'gpus:',
                'again:\n  identification: {drc_index: "21010020"}\ngpus:',
                '21010020',
                "paragraph 'again' (line 1)",
                "paragraph 'gpus' (line 3)",
            ),
        ):
            with self.subTest(new):
                message = self.refused(base.GPUS.replace(old, new))
                for word in words:
                    self.assertIn(word, message)

    @proofs.proves('D88')
    def story_wrong_option_is_refused(self):
        for options, words in (
            ({'mode': 0o666}, 'chmod o-w'),
            ({'rest_username': None}, 'rest_username'),
            ({'rest_url': 'novalink:12443'}, 'rest_url'),
            ({'rest_password': 'wrong'}, 'refused the login'),
            ({'volume_group_name': 'nowhere'}, 'nowhere'),
            (
                {'volume_group_name': 'vios7/image_pool'},
                "'vios7/image_pool': no Virtual I/O",
            ),
            ({'disk_driver': 'nowhere'}, "disk_driver = 'nowhere'"),
        ):
            with self.subTest(words):
                message = self.refused(**options)
                self.assertIn(words, message)
                # It would be a password.
                self.assertNotIn('wrong', message)

    def story_host_that_cannot_be_managed_is_refused(self):
        message = self.refused(
            error=nova_exception.HypervisorUnavailable,
            rest_url='http://127.0.0.1:1',
        )
        self.assertIn('http://127.0.0.1:1', message)
        self.assertIn('does not answer', message)

        world = worlds.default()
        world['systems'].append({'name': 'other', 'uuid': 'random'})
        self.control().load_world(world)
        message = self.refused()
        self.assertIn('manages 2 systems', message)
        self.assertIn('other', message)
        self.control().load_world(worlds.default())


class StartTest(base.PowerVMTestCase):
    """Conditions that nova-compute starts with."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_nova_compute_starts(self):
        self.tell_stories()

    def patch(self, name, value):
        """Return a context in which a name of the driver has a value."""
        return fixtures.MockPatch(f'nova_powervm.{name}', new=value)

    def story_init_host_does_not_write_lost_node_identity(self):
        # Nova refuses to start an existing service without one, after
        # init_host; asking for it would write a new one.
        virt_node.LOCAL_NODE_UUID = None
        loaded = driver.PowerVMDriver(
            types.SimpleNamespace(reportclient=report.SchedulerReportClient())
        )

        loaded.init_host('host1')
        loaded.cleanup_host('host1')

        self.assertIsNone(virt_node.LOCAL_NODE_UUID)
        self.configure('host1')

    @proofs.proves('operation.get-guest-info')
    def story_start_resumes_each_guest_however_long_others_take(self):
        self.flags(resume_guests_state_on_host_boot=True)
        requested = [self.start_boot({}) for _ in range(2)]
        servers = [self._wait_until_built(each['id']) for each in requested]
        self.computes['host1'].stop()
        for server in servers:
            self.control().set_partition(
                server['OS-EXT-SRV-ATTR:instance_name'], 'not activated'
            )
        resume = driver.PowerVMDriver.resume_state_on_host_boot

        def resume_slowly(*args, **kwargs):
            # Longer than an LPAR has to be off to be reported as stopped.
            time.sleep(0.6)
            return resume(*args, **kwargs)

        with (
            self.patch('ops.watch.SETTLE_SECONDS', 0.3),
            fixtures.MockPatchObject(
                driver.PowerVMDriver,
                'resume_state_on_host_boot',
                resume_slowly,
            ),
        ):
            self.restart_host()
            time.sleep(1)

        for server in servers:
            self.assertEqual('running', self.lpar(server).state)
            found = self.api.get_server(server['id'])
            self.assertEqual(
                ('ACTIVE', None),
                (found['status'], found['OS-EXT-STS:task_state']),
            )
        self.resume_guest_of_host_that_comes_up(servers[0])
        self.keep_unknown_power_state(servers[0])

    def resume_guest_of_host_that_comes_up(self, server):
        """Start nova-compute while its host starts."""
        name = server['OS-EXT-SRV-ATTR:instance_name']

        def come_up(*_):
            self.control().clear_faults()
            self.control().set_partition(name, 'not activated')

        for state, fault in (
            ('not available', None),
            ('not activated', {'status': 503}),
        ):
            with self.subTest(state, fault=fault):
                self.control().set_partition(name, state)
                if fault:
                    self.control().add_fault(
                        match='LogicalPartition.quick', every=True, **fault
                    )

                with (
                    self.patch('powervm.session._POLL_SECONDS', 0),
                    self.patch('powervm.session._MinuteLog.__call__', come_up),
                ):
                    self.restart_host(rest_connect_timeout=60)

                self.assertEqual('running', self.lpar(server).state)
                server = self.api.get_server(server['id'])
                self.assertEqual('ACTIVE', server['status'])

    def story_refused_logon_is_repeated_after_pause(self):
        compute = self.computes['host1']
        password = self.hosts['host1'].emulator.password
        self.control().set_password('changed')
        self.control().expire_sessions()
        # End the current poll, so that the next one is refused.
        self.control().emit_event('CACHE_CLEARED')
        self._run_periodics()
        self.assertIn('was refused', self.logged())
        self.control().set_password(password)

        # A wrong password must not lock the account: no retry at once ...
        self.control().clear_journal()
        self._run_periodics()
        self.assertNotIn('PUT Logon.create', self.control().journal_counts())

        # ... but after a pause.
        with self.patch('powervm.session._PAUSE_SECONDS', 0):
            self._run_periodics()
        self.assertIn('PUT Logon.create', self.control().journal_counts())
        self.assertIsNotNone(compute.manager.driver.get_host_uptime())

    def keep_unknown_power_state(self, server):
        """Start nova-compute while the host tells no power state."""
        self.control().add_fault(
            match='LogicalPartition.quick', status=500, every=True
        )

        self.restart_host()

        self.assertIn('Nova keeps the recorded power states', self.logged())
        self.assertEqual('running', self.lpar(server).state)
        self.assertEqual('ACTIVE', self.api.get_server(server['id'])['status'])

    def story_start_warns_of_overcommitted_processing_units(self):
        self.flags(proc_units_factor=1.0, group='powervm')
        self.flags(cpu_allocation_ratio=4.0)
        self.restart_host()

        self.assertIn('promise 128.0 processing units', self.logged())

    def story_start_accepts_local_session_by_file(self):
        # A local session is for port 12080 of this machine. pypowervm's own
        # hook lets the emulator stand there.
        directory = self.useFixture(fixtures.TempDir()).path
        hook = os.path.join(directory, 'session_config.py')
        emulated = self.useFixture(base.EmulatedHost('local'))
        with open(hook, 'w') as file:
            url = emulated.emulator.url
            port = urllib.parse.urlsplit(url).port
            file.write(HOOK.format(url=url, port=port))
        with fixtures.EnvironmentVariable('PYPOWERVM_SESSION_CONFIG', hook):
            self.restart_host(
                rest_url=None, rest_username=None, rest_password=None
            )
            self._run_periodics()

        requests = emulated.emulator.control.journal_counts()
        self.assertGreater(requests['GET ManagedSystem.feed'], 0)
        self.restart_host()

    def story_foreign_partitions_are_not_instances(self):
        compute = self.computes['host1']

        self.assertEqual([], compute.manager.driver.list_instance_uuids())
        self.assertEqual([], compute.manager.driver.list_instances())
        self.assertIsNotNone(self.lpar_named('database'))
