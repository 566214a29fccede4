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

"""VLANs that the driver adds to a bridge, and removes when nobody uses them.

What a kill, a race or another tool may do meanwhile is tested in
``tests/unit/powervm/vif/test_vlans.py``.
"""

import dataclasses

from nova_powervm import exception
from nova_powervm.lpar import operations
from tests.ops import base

#: A VLAN that the bridge does not carry.
NEW = 9
PORT = dataclasses.replace(base.PORT, vlan=NEW)
OTHER = dataclasses.replace(base.PORT2, vlan=NEW)


class Records(base.Records):
    """Nova's records of the ports of a host, and of one instance's keys."""

    instance_uuid = base.INSTANCE

    def __init__(self):
        self.known = ()
        self.recorded = set()

    def metadata_keys(self):
        """Return the keys of all instances."""
        return frozenset(self.recorded)

    read = metadata_keys

    def add(self, keys):
        """Mark the instance."""
        self.recorded.update(keys)

    def remove_key(self, key):
        """Remove a key from all instances."""
        self.recorded.discard(key)

    def ports(self):
        """Return the ports of all instances but those that are deleted."""
        return self.known


class VlanTest(base.HostTestCase):
    def records(self):
        """Return the same records for each service."""
        return self.nova

    def begin(self):
        self.nova = Records()
        super().begin()

    def build(self, *ports):
        """Build the instance with some ports."""
        self.wanted = self.describe(ports=ports)
        self.run_plan(
            operations.SPAWN, self.wanted, metadata=lambda: self.nova
        )

    def delete(self):
        """Delete the instance, as the driver does for Nova."""
        self.removals.destroy(self.wanted.instance_uuid)
        self.networks.release_unused(self.nova)

    def carried(self):
        """Return the tagged VLANs of the bridge."""
        (found,) = self._system()['network_bridges']
        return sorted(found['vlans'])

    def test_vlan_is_removed_with_the_last_adapter(self):
        self.build(PORT)
        self.assertEqual([NEW, base.VLAN], self.carried())
        self.assertEqual(1, len(self.nova.recorded))

        self.delete()

        self.assertEqual([base.VLAN], self.carried())
        self.assertEqual(set(), self.nova.recorded)

    def test_vlan_of_another_tool_stays(self):
        self.build(base.PORT)
        self.assertEqual(set(), self.nova.recorded)
        self.forget()

        self.delete()
        self.networks.clean_up()

        self.assertEqual([base.VLAN], self.carried())
        self.assertNotIn('POST NetworkBridge.update', self.changes())

    def test_restarted_service_removes_vlan_that_it_had_added(self):
        self.build(PORT)
        self.start_service()

        self.delete()

        self.assertEqual([base.VLAN], self.carried())

    def test_service_that_may_not_provision_keeps_vlan(self):
        self.build(PORT)
        self.start_service(provision_vlans=False)

        self.delete()
        self.networks.clean_up()

        self.assertEqual([NEW, base.VLAN], self.carried())

    def test_adapter_of_another_partition_keeps_vlan(self):
        self.build(PORT)
        self.make_adapter('archive', OTHER)
        self._others = self._state_of_others()

        self.delete()

        self.assertEqual([NEW, base.VLAN], self.carried())

    def test_port_without_adapter_keeps_vlan(self):
        self.build(PORT)
        self.nova.known = [OTHER]

        self.delete()
        self.assertEqual([NEW, base.VLAN], self.carried())

        self.nova.known = []
        self.networks.clean_up()
        self.assertEqual([base.VLAN], self.carried())

    def test_restarted_service_removes_vlan_of_detached_port_in_a_cycle(self):
        self.build(base.PORT, OTHER)
        self.set_state(base.OFF)
        self.start_service()

        self.run_plan(
            operations.DETACH_PORT,
            dataclasses.replace(self.wanted, ports=(OTHER,)),
        )
        self.assertEqual([NEW, base.VLAN], self.carried())
        self.networks.clean_up()

        self.assertEqual([base.VLAN], self.carried())

    def test_vlan_of_failed_build_goes_in_the_next_cycle(self):
        self.control.add_fault(
            match='ClientNetworkAdapter.create', status=500, every=True
        )
        with self.assertRaises(exception.RestError):
            self.build(PORT)
        self.assertEqual([NEW, base.VLAN], self.carried())

        self.networks.clean_up()

        self.assertEqual([base.VLAN], self.carried())

    def test_failed_removal_is_logged_and_repeated(self):
        self.build(PORT)
        self.control.add_fault(
            match='NetworkBridge.update', status=500, every=True
        )

        with self.logged('WARNING') as logged:
            self.delete()
        self.assertIn('remain on their bridges for now', logged.output[-1])
        self.assertEqual([NEW, base.VLAN], self.carried())
        self.control.clear_faults()
        self.networks.clean_up()

        self.assertEqual([base.VLAN], self.carried())

    def test_unchanged_host_is_not_asked_about_vlans(self):
        self.build(PORT)
        for _ in range(2):
            self.networks.clean_up()
        self.forget()

        self.networks.clean_up()

        self.assertEqual([], self.trail())
