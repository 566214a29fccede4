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

"""On start an LPAR has exactly the adapters of its instance's ports."""

import contextlib

import fixtures
from neutronclient.common import exceptions as neutron_exceptions
from nova import context as nova_context
from nova.network import model as network_model
from nova.network import neutron

from tests.functional import networks
from tests.functional import other_tool


class PortReconciliationTest(networks.NetworkTestCase):
    """Provides one host, and a server with two ports."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.other = other_tool.Client(self.hosts['host1'].emulator)
        self.addCleanup(self.other.close)

    def prepare(self):
        """Boot a server with two ports and an inactive RMC connection."""
        self.flags(resume_guests_state_on_host_boot=False)
        self.kept = self.make_port(vlan=100)
        self.lost = self.make_port(vlan=200)
        self.server = self.boot_with(self.kept, self.lost)
        self.control().set_partition(
            self.lpar(self.server).uuid, rmc_state='inactive'
        )
        self.control().clear_journal()

    def macs(self):
        """Return the MAC addresses of the server's adapters."""
        return sorted(adapter['mac'] for adapter in self.adapters(self.server))

    def delete_lost(self):
        """Delete a port in Neutron without an event to Nova."""
        self.neutron.delete_port(self.lost['id'])

    def bind_another(self):
        """Bind another port to the server, unknown to Nova."""
        port = self.make_port(vlan=300)
        instance = self.instance(self.server)
        port['device_id'] = instance.uuid
        port['tenant_id'] = instance.project_id
        port['binding:host_id'] = 'host1'
        return port

    def refresh_cache(self):
        """Refresh Nova's network cache, as a periodic task does."""
        neutron.API().get_instance_nw_info(
            nova_context.get_admin_context(),
            self.instance(self.server),
            force_refresh=True,
        )

    def assert_exact(self, *ports, state='running'):
        """Assert that the server has the adapters of exactly these ports."""
        self.assertEqual(
            sorted(port['mac_address'] for port in ports), self.macs()
        )
        self.assertEqual(state, self.lpar(self.server).state)

    @contextlib.contextmanager
    def neutron_down(self):
        """Let Neutron fail within a context."""

        def fail(*_args, **_kwargs):
            raise neutron_exceptions.ConnectionFailed(reason='it is down')

        with fixtures.MonkeyPatch(
            'nova.tests.fixtures.NeutronFixture.list_ports', fail
        ):
            yield

    def test_power_on_reconciles_adapters_with_ports(self):
        self.tell_stories()

    def story_hard_reboot_removes_adapter_of_deleted_port(self):
        self.delete_lost()

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept)
        self.assertIn(
            'which belongs to no port of its instance', self.logged()
        )

    def story_soft_reboot_removes_adapter_of_deleted_port(self):
        self.delete_lost()

        self._reboot_server(self.server)

        self.assert_exact(self.kept)

    def story_stop_and_start_remove_adapter_of_deleted_port(self):
        self.delete_lost()
        self._stop_server(self.server)

        self._start_server(self.server)

        self.assert_exact(self.kept)

    def story_hard_reboot_creates_adapter_of_port_once_nova_knows_it(self):
        port = self.bind_another()
        self._reboot_server(self.server, hard=True)
        self.assert_exact(self.kept, self.lost)

        self.refresh_cache()
        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, self.lost, port)
        self.assertIn(300, self.vlans())

    def story_hard_reboot_removes_adapter_of_other_tool(self):
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, rmc_state='active')
        self.other.make_adapter(uuid, 4)
        self.control().set_partition(uuid, rmc_state='inactive')
        self.assertEqual(3, len(self.macs()))

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, self.lost)

    def story_hard_reboot_of_unchanged_server_reads_adapters_once(self):
        self._reboot_server(self.server, hard=True)

        asked = [
            record['label']
            for record in self.control().journal()
            if record['label'].startswith(
                ('ClientNetworkAdapter', 'NetworkBridge', 'Virtual')
            )
        ]
        self.assertEqual(['ClientNetworkAdapter.feed'], asked)
        self.assert_exact(self.kept, self.lost)

    def story_hard_reboot_fails_and_removes_nothing_without_neutron(self):
        self.delete_lost()
        with self.neutron_down():
            self.api.post_server_action(
                self.server['id'], {'reboot': {'type': 'HARD'}}
            )
            self._wait_for_action_fail_completion(
                self.server, 'reboot', 'compute_reboot_instance'
            )

        self.assert_exact(self.kept, self.lost)

    def story_user_without_neutron_role_removes_no_adapter(self):
        self.control().set_partition(
            self.lpar(self.server).uuid, rmc_state='active'
        )
        with self.neutron_answering([]):
            self.refresh_cache()
            self.restart_host()
            self.assert_exact(self.kept, self.lost)
            self.assertIn('in [neutron] of nova.conf', self.logged())
            self.reboot_in_vain()

    def story_port_listed_without_binding_removes_no_adapter(self):
        # A port of the user's own project is listed without its binding.
        with self.neutron_answering([{'id': self.kept['id']}]):
            self.refresh_cache()
            self.reboot_in_vain()

    def reboot_in_vain(self):
        """Reboot the server hard; assert that it changes nothing."""
        self.control().clear_journal()
        self.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual([], self.changes())
        self.assert_exact(self.kept, self.lost)

    def neutron_answering(self, bound):
        """Let Neutron list no port of the server.

        :param bound: Ports that it lists as bound to the host.
        """

        def listed(*_args, **params):
            return {'ports': bound if 'binding:host_id' in params else []}

        return fixtures.MonkeyPatch(
            'nova.tests.fixtures.NeutronFixture.list_ports', listed
        )

    def story_hard_reboot_removes_adapter_of_last_deleted_port(self):
        self.make_port(**{'binding:host_id': 'host1'})
        self.delete_lost()
        self.neutron.delete_port(self.kept['id'])

        self._reboot_server(self.server, hard=True)

        self.assert_exact()

    def story_service_start_removes_no_adapter(self):
        self.control().set_partition(
            self.lpar(self.server).uuid, rmc_state='active'
        )
        self.delete_lost()
        self.refresh_cache()

        self.restart_host()

        self.assert_exact(self.kept, self.lost)
        self.assertIn('when the server is rebooted or started', self.logged())

    def story_empty_network_cache_removes_no_adapter(self):
        # Nova bug 1751923: the cache is lost at times.
        self.empty_cache()

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, self.lost)

    def empty_cache(self):
        """Empty Nova's network cache of the server."""
        instance = self.instance(self.server)
        cache = instance.info_cache
        cache.network_info = network_model.NetworkInfo()
        cache.save(update_cells=False)

    def story_unsupported_port_does_not_stop_running_server(self):
        port = self.bind_another()
        self.refresh_cache()
        port['binding:vif_type'] = 'ovs'

        self.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )

        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertIn("its VIF type is 'ovs'", self.logged())
        self.assert_exact(self.kept, self.lost)
        self.assertEqual(0, self.count('PUT LogicalPartition.job'))

    def story_service_start_creates_no_adapter_for_deleted_port(self):
        # As a kill leaves it: the adapter and Neutron's port are gone, and
        # Nova's cache has it still.
        self._stop_server(self.server)
        self.other.delete_adapters(self.lpar(self.server).uuid)
        self.delete_lost()

        self.restart_host()

        self.assert_exact(self.kept, state='not activated')

    def story_service_start_creates_no_adapter_without_neutron(self):
        self._stop_server(self.server)
        self.other.delete_adapters(self.lpar(self.server).uuid)

        with self.neutron_down():
            self.restart_host()

        self.assert_exact(state='not activated')
        self.assertIn('Neutron cannot be asked', self.logged())

    def story_host_boot_removes_adapter_of_deleted_port(self):
        self.delete_lost()

        self.after_host_boot()

        self.assert_exact(self.kept)

    def story_host_boot_starts_server_without_neutron(self):
        self.delete_lost()

        with self.neutron_down():
            self.after_host_boot()

        self.assert_exact(self.kept, self.lost)
        self.assertIn('with its present adapters', self.logged())

    def after_host_boot(self):
        """Stop the LPAR as a host boot does, and restart nova-compute."""
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()

    def story_interrupted_reconciliation_is_finished_by_next_reboot(self):
        port = self.bind_another()
        self.refresh_cache()
        self.delete_lost()
        for verb, label in (
            ('POST', 'NetworkBridge.update'),
            ('DELETE', 'ClientNetworkAdapter.delete'),
            ('PUT', 'ClientNetworkAdapter.create'),
        ):
            # From here on the host answers nothing, as after a kill.
            self.control().add_fault(match=label, status=500, every=True)
            self.api.post_server_action(
                self.server['id'], {'reboot': {'type': 'HARD'}}
            )
            self._wait_for_server_parameter(
                self.server,
                {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None},
            )
            self.assertEqual('running', self.lpar(self.server).state)
            self.assertGreater(self.count(f'{verb} {label}'), 0)
            self.control().clear_faults()
            self.control().clear_journal()

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, port)
