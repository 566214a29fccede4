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
"""VLANs that the driver adds to bridges go when nobody uses them."""

import threading

from nova_powervm.lpar import shared_ethernet
from tests.functional import networks
from tests.functional.networks import SWITCH
from tests.functional.networks import world


class VlanTestCase(networks.SharedTestCase):
    """What becomes of VLANs on a bridge that others manage, too."""

    def prepare(self):
        """Leave one VLAN on the bridge, which is not the driver's."""
        super().prepare()
        self.other.add_vlan(50)
        self.restart_host()
        self.control().clear_journal()

    def delete(self, server):
        """Delete a server, and let Nova run its periodic tasks."""
        self._delete_server(server)

    def marks(self, server):
        """Give the VLANs that Nova's record of a server is marked with."""
        return sorted(
            int(key.rpartition(':')[2].partition('@')[0])
            for key in self.instance(server).system_metadata
            if key.startswith('powervm_vlan:')
        )

    def changes_of_bridges(self):
        """Count the changes to bridges."""
        return self.count('POST NetworkBridge.update')


class VlanRemovalTest(VlanTestCase):
    """What goes, when, and what stays."""

    def test_removal_of_vlans(self):
        self.tell_stories()

    def story_vlan_is_removed_with_last_server_on_it(self):
        first, second = (
            self.boot_with(self.make_port(vlan=100)) for _ in range(2)
        )
        self.assertEqual([50, 100], self.vlans())

        self.delete(first)
        self.assertEqual([50, 100], self.vlans())

        self.delete(second)
        self.assertEqual([50], self.vlans())

    def story_vlan_added_by_other_tool_stays(self):
        server = self.boot_with(self.make_port(vlan=50))
        self.assertEqual([], self.marks(server))

        self.delete(server)
        self._run_periodics()

        self.assertEqual([50], self.vlans())
        self.assertEqual(0, self.changes_of_bridges())

    def story_vlan_added_by_other_tool_during_build_stays(self):
        ops = self.computes['host1'].manager.driver._running.network
        connect = ops.connect

        def slow(wanted):
            found = connect(wanted)
            self.other.add_vlan(100)
            return found

        ops.connect = slow
        server = self.boot_with(self.make_port(vlan=100))
        ops.connect = connect

        self.delete(server)
        self._run_periodics()

        self.assertEqual([50, 100], self.vlans())

    def story_detach_removes_vlan_of_port(self):
        server = self.boot_with(self.make_port(vlan=100))
        self._stop_server(server)
        port = self.make_port(vlan=200)
        self._attach_interface(server, port['id'])
        self.assertEqual([50, 100, 200], self.vlans())
        self.assertEqual([100, 200], self.marks(server))

        self._detach_interface(server, port['id'])
        self._run_periodics()

        self.assertEqual([50, 100], self.vlans())
        self.assertEqual([100], self.marks(server))

    def story_vlan_of_failed_build_is_removed(self):
        self.flags(max_attempts=1, group='scheduler')
        self.control().add_fault(
            match='ClientNetworkAdapter.create', status=500, every=True
        )
        server = self.boot_with(self.make_port(vlan=100), expected='ERROR')
        self.assertEqual([50, 100], self.vlans())
        self.wait_until_unallocated(server)

        self._run_periodics()

        self.assertEqual([50], self.vlans())

    def story_restarted_service_removes_vlan_it_had_added(self):
        server = self.boot_with(self.make_port(vlan=100))
        self.restart_host()

        self.delete(server)

        self.assertEqual([50], self.vlans())

    def story_vlan_is_marked_on_every_server_on_it(self):
        first, second = (
            self.boot_with(self.make_port(vlan=100)) for _ in range(2)
        )
        self.delete(first)
        self.assertEqual([100], self.marks(second))
        self.restart_host()

        self.delete(second)

        self.assertEqual([50], self.vlans())

    def story_adapter_of_foreign_lpar_keeps_vlan(self):
        server = self.boot_with(self.make_port(vlan=100))
        for partition in self.host_state()['partitions']:
            if partition['name'] == 'archive':
                archive = partition['uuid']
        self.control().set_partition(archive, rmc_state='active')
        self.other.make_adapter(archive, 100)

        self.delete(server)
        self._run_periodics()
        self.assertEqual([50, 100], self.vlans())

        self.other.delete_adapters(archive)

    def story_port_without_adapter_keeps_vlan(self):
        servers = [self.boot_with(self.make_port(vlan=100)) for _ in range(2)]
        self._stop_server(servers[0])
        self.other.delete_adapters(self.lpar(servers[0]).uuid)

        self.delete(servers[1])

        self.assertEqual([50, 100], self.vlans())

    def story_delete_survives_failed_removal_of_vlan(self):
        server = self.boot_with(self.make_port(vlan=100))
        self.control().add_fault(
            match='NetworkBridge.update', status=500, every=True
        )

        self.delete(server)

        self.assertEqual([50, 100], self.vlans())
        self.assertIn('remain on their bridges for now', self.logged())
        self.control().clear_faults()
        self._run_periodics()
        self.assertEqual([50], self.vlans())

    def story_vlans_are_kept_without_provisioning(self):
        server = self.boot_with(self.make_port(vlan=100))
        self.restart_host(provision_vlans=False)

        self.delete(server)
        self._run_periodics()

        self.assertEqual([50, 100], self.vlans())
        self.restart_host(provision_vlans=True)

    def story_unchanged_host_is_not_asked_about_vlans(self):
        self.boot_with(self.make_port(vlan=100))
        for _ in range(2):
            self._run_periodics()
        self.control().clear_journal()

        self._run_periodics()

        self.assertEqual(0, self.count('GET NetworkBridge.feed'))
        self.assertEqual(0, self.count('GET ClientNetworkAdapter.feed'))

    def story_build_waits_for_removal_of_its_vlan(self):
        first = self.boot_with(self.make_port(vlan=100))
        running = self.computes['host1'].manager.driver._running
        records = running.network._drivers['pvm_sea']._vlans._records
        asked, go_on = threading.Event(), threading.Event()
        ports = records.ports

        def slow():
            found = ports()
            asked.set()
            go_on.wait(30)
            return found

        records.ports = slow
        self.api.delete_server(first['id'])
        self.assertTrue(asked.wait(30))
        port = self.make_port(vlan=100)
        second = self.start_boot({}, networks=[{'port': port['id']}])
        self.wait_for(lambda: port['device_id'])

        go_on.set()

        second = self._wait_until_built(second['id'])
        self._wait_until_deleted(first)
        records.ports = ports
        self.assertEqual('ACTIVE', second['status'])
        self.assertEqual([50, 100], self.vlans())
        self.assertEqual([100], self.marks(second))


class FullBridgeTest(networks.NetworkTestCase):
    """A bridge has 15 trunk adapters for 20 VLANs each."""

    def test_full_bridge_is_warned_of_and_then_refuses_new_vlan(self):
        limit = shared_ethernet.TRUNKS * shared_ethernet.VLANS_PER_TRUNK
        self.start_host(
            world=world((SWITCH, 1, list(range(1000, 1000 + limit - 1))))
        )

        last = self.boot_with(self.make_port(vlan=100))
        self.assertIn('it has room for 0 more VLANs', self.logged())

        message = self.refused(self.make_port(vlan=101))
        self.assertIn('it is full', message)
        self.assertIn('ETHERNET0/1', message)

        # What is on the bridge can be used, and room can be made.
        self.boot_with(self.make_port(vlan=1000))
        self._delete_server(last)
        self.boot_with(self.make_port(vlan=101))
