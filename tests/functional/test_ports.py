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

"""Ports that come and go while their server is there.

What happens to the adapters on the host is tested in ``tests/ops``.
"""

import contextlib
import json

import fixtures
from neutronclient.common import exceptions as neutron_exceptions
from nova import context as nova_context
from nova import utils
from nova.api.metadata import base as metadata_base
from nova.network import model as network_model
from nova.network import neutron
from nova.tests.functional.api import client

from nova_powervm.virt import device_tags
from tests import proofs
from tests.functional import networks


class PortsOfServerTest(networks.NetworkTestCase):
    """One host, and one server with two ports, for all stories."""

    def setUp(self):
        super().setUp()
        self.start_shared_host()
        self.kept = self.make_port(vlan=100)
        self.lost = self.make_port(vlan=200)
        self.server = self.boot_with(self.kept, self.lost)
        # Keep the server for all stories.
        self._booted.clear()

    def prepare(self):
        """Have the server run with its two ports, and without RMC."""
        self.set_rmc('active')
        attached = self.ports_of_nova()
        for uuid in attached - {self.kept['id'], self.lost['id']}:
            self.notifier.reset()
            self._detach_interface(self.server, uuid)
        for vlan, name in ((100, 'kept'), (200, 'lost')):
            if getattr(self, name)['id'] not in attached:
                setattr(self, name, self.make_port(vlan=vlan))
                self.notifier.reset()
                self._attach_interface(self.server, getattr(self, name)['id'])
        self.set_rmc('inactive')
        self.assert_exact(self.kept, self.lost)
        self.control().clear_journal()
        # Nova's helpers wait for the first notification of a kind.
        self.notifier.reset()

    def set_rmc(self, state):
        """Let the guest's RMC connection have a state."""
        self.control().set_partition(
            self.lpar(self.server).uuid, rmc_state=state
        )

    def macs(self):
        """Return the MAC addresses of the server's adapters."""
        return sorted(adapter['mac'] for adapter in self.adapters(self.server))

    def ports_of_nova(self):
        """Return the ports that Nova's API tells of the server."""
        return {
            attached['port_id']
            for attached in self.api.get_port_interfaces(self.server['id'])
        }

    def assert_exact(self, *ports, state='running'):
        """Assert that the server has the adapters of exactly these ports."""
        self.assertEqual(
            sorted(port['mac_address'] for port in ports), self.macs()
        )
        self.assertEqual(state, self.lpar(self.server).state)

    def test_adapters_follow_the_ports(self):
        self.tell_stories()

    # Ports that are attached and detached

    def attach_and_detach(self, state):
        """Attach a port and detach it again."""
        more, ports = self.make_port(vlan=300), (self.kept, self.lost)
        both = {port['id'] for port in ports}

        self._attach_interface(self.server, more['id'])
        self.assert_exact(*ports, more, state=state)
        self.assertEqual([100, 200, 300], self.vlans())
        self.assertEqual([100, 200, 300], self.metadata_vlans(self.server))
        self.assertEqual({*both, more['id']}, self.ports_of_nova())

        self._detach_interface(self.server, more['id'])
        self.assert_exact(*ports, state=state)
        self.assertEqual(both, self.ports_of_nova())
        self._run_periodics()
        self.assertEqual([100, 200], self.vlans())
        self.assertEqual([100, 200], self.metadata_vlans(self.server))

    @proofs.proves('operation.attach-interface', 'operation.detach-interface')
    def story_server_gets_and_loses_port(self):
        self.set_rmc('active')
        self.attach_and_detach('running')
        self.notifier.reset()
        self._stop_server(self.server)

        self.attach_and_detach('not activated')

        self._start_server(self.server)

    def nics(self):
        """Return MAC and tags of each port that the metadata service shows."""
        shown = metadata_base.get_metadata_by_instance_id(
            self.server['id'], None
        ).lookup('/openstack/latest/meta_data.json')
        return [
            (device['mac'], device['tags'])
            for device in json.loads(shown)['devices']
        ]

    def attach_tagged(self, port):
        """Attach a port with a tag."""
        with utils.temporary_mutation(self.api, microversion='2.49'):
            self.api.attach_interface(
                self.server['id'],
                {'interfaceAttachment': {'port_id': port['id'], 'tag': 'san'}},
            )

    @proofs.proves('operation.attach-tagged-interface')
    def story_tag_of_attached_port_is_shown_until_it_is_detached(self):
        self.set_rmc('active')
        port = self.make_port(vlan=300)

        self.attach_tagged(port)

        self.assertEqual([(port['mac_address'], ['san'])], self.nics())
        self.set_rmc('active')
        self._detach_interface(self.server, port['id'])
        self.assertEqual([], self.nics())

    @proofs.proves('operation.attach-tagged-interface')
    def story_port_whose_tag_is_not_recorded_is_detached_again(self):
        self.set_rmc('active')
        port = self.make_port(vlan=300)

        with fixtures.MockPatchObject(
            device_tags, 'record', side_effect=ValueError('it')
        ):
            self.assertRaises(
                client.OpenStackApiException, self.attach_tagged, port
            )

        self.assert_exact(self.kept, self.lost)
        self.assertIn('cannot be recorded; it is detached', self.logged())

    @proofs.proves('operation.detach-interface')
    def story_detach_fails_on_running_server_without_rmc(self):
        self.api.detach_interface(self.server['id'], self.lost['id'])

        self._wait_for_action_fail_completion(
            self.server, 'detach_interface', 'compute_detach_interface'
        )
        told = self._wait_for_instance_action_event(
            self.server,
            'detach_interface',
            'powervm_detach_interface',
            'error',
        )
        self.assertRegex(told['details'], 'RMC.*Stop it first')
        self.assert_exact(self.kept, self.lost)
        self.assertIn(self.lost['id'], self.ports_of_nova())

    # Ports that Neutron has, or has no more, without an event to Nova

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

    @contextlib.contextmanager
    def neutron_down(self):
        """Let Neutron fail within a context."""

        def fail(*_args, **_kwargs):
            raise neutron_exceptions.ConnectionFailed(reason='it is down')

        with fixtures.MonkeyPatch(
            'nova.tests.fixtures.NeutronFixture.list_ports', fail
        ):
            yield

    def neutron_answering(self, bound):
        """Let Neutron list no port of the server.

        :param bound: Ports that it lists as bound to the host.
        """

        def listed(*_args, **params):
            return {'ports': bound if 'binding:host_id' in params else []}

        return fixtures.MonkeyPatch(
            'nova.tests.fixtures.NeutronFixture.list_ports', listed
        )

    def remove_adapters(self):
        """Let another management tool take the server's adapters away."""
        self.set_rmc('active')
        self.other.delete_adapters(self.lpar(self.server).uuid)

    @proofs.proves('operation.reboot')
    def story_hard_reboot_removes_adapters_of_deleted_ports(self):
        self.delete_lost()

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept)
        self.assertIn(
            'which belongs to no port of its instance', self.logged()
        )

        # Neutron lists another port of the host, and none of the server.
        self.make_port(**{'binding:host_id': 'host1'})
        self.neutron.delete_port(self.kept['id'])
        self.notifier.reset()
        self._reboot_server(self.server, hard=True)
        self.assert_exact()

    def story_hard_reboot_creates_adapter_of_port_once_nova_knows_it(self):
        port = self.bind_another()
        self._reboot_server(self.server, hard=True)
        self.assert_exact(self.kept, self.lost)

        self.refresh_cache()
        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, self.lost, port)
        self.assertIn(300, self.vlans())

    def story_user_without_neutron_role_removes_no_adapter(self):
        # A port of the user's own project is listed without its binding.
        for listed in ([], [{'id': self.kept['id']}]):
            with self.neutron_answering(listed):
                self.refresh_cache()
                self.reboot_in_vain()
            self.assertIn('in [neutron] of nova.conf', self.logged())
        self.refresh_cache()

    def reboot_in_vain(self):
        """Reboot the server hard; assert that it changes nothing."""
        self.control().clear_journal()
        self.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )
        self._wait_for_state_change(self.server, 'ACTIVE')
        self.assertEqual([], self.changes())
        self.assert_exact(self.kept, self.lost)

    def story_empty_network_cache_removes_no_adapter(self):
        # Nova bug 1751923: the cache is lost at times.
        cache = self.instance(self.server).info_cache
        cache.network_info = network_model.NetworkInfo()
        cache.save(update_cells=False)

        self._reboot_server(self.server, hard=True)

        self.assert_exact(self.kept, self.lost)

    # The start of nova-compute

    def story_service_start_creates_no_adapter_without_neutron(self):
        self.remove_adapters()

        with self.neutron_down():
            self.restart_host()

        self.assert_exact()
        self.assertIn('The network adapters cannot be checked', self.logged())
        self.assertIn('Neutron cannot be asked', self.logged())
        self._reboot_server(self.server, hard=True)
        self.assert_exact(self.kept, self.lost)

    def story_host_boot_fits_adapters_unless_neutron_is_silent(self):
        self.delete_lost()
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')

        with self.neutron_down():
            self.restart_host()

        self.assert_exact(self.kept, self.lost)
        self.assertIn('with its present adapters', self.logged())
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()
        self.assert_exact(self.kept)
