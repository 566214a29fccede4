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

"""Servers with a device, a port, a root disk and a config drive."""

import hashlib

from nova import context as nova_context
from nova import objects

from tests.functional import base
from tests.functional import other_tool

SWITCH = 'ETHERNET0(Default)'
_ATTRIBUTES = ['info_cache', 'metadata', 'system_metadata', 'resources']
_ISO_MARK = slice(32769, 32774)


class CompleteServerTestCase(base.PowerVMTestCase):
    """Provides a host shared with another tool, and complete servers."""

    def start_shared_host(self, **options):
        """Start a host on which another tool has resources."""
        self.start_host(world=other_tool.world(), **options)
        self.other_tool = other_tool.Client(self.hosts['host1'].emulator)
        self.addCleanup(self.other_tool.close)
        self.other_tool.map_disk(other_tool.DISK)
        self.others = other_tool.resources_of_others(self.host_state())

    def start_complete_server(self, groups=None, vlan=100, **options):
        """Request a server with everything; return it and its port."""
        port = self.make_port(vlan=vlan)
        server = self.start_boot(
            base.gpu_groups(1) if groups is None else groups,
            networks=[{'port': port['id']}],
            request={'config_drive': True},
            **options,
        )
        return server, port

    def boot_complete_server(self, groups=None, vlan=100, **options):
        """Boot a server with everything; return it and its port."""
        server, port = self.start_complete_server(groups, vlan, **options)
        return self._wait_until_built(server['id']), port

    def assert_complete(self, server, port, image=base.IMAGE):
        """Assert that a server has its slots, port, disk and config drive."""
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        slots = self.allocated_slots(server)
        self.assertEqual(dict.fromkeys(slots, True), lpar.slots)
        self.assertEqual(
            [(port['mac_address'], self.vlan_of(port), SWITCH)],
            [
                (adapter['mac'], adapter['vlan'], adapter['switch'])
                for adapter in self.adapters(server)
            ],
        )
        self.assertIn(self.vlan_of(port), self.vlans())
        disk, medium = self.storage_of(server)
        self.assertEqual(hashlib.sha256(image).hexdigest(), disk['sha256'])
        self.assertEqual(b'CD001', self.contents(medium)[_ISO_MARK])
        self.assertEqual(
            sorted([disk['name'], medium['name']]),
            sorted(
                mapping['name']
                for mapping in self.mappings()
                if mapping['client'] == lpar.name
            ),
        )

    def vlan_of(self, port):
        """Return the VLAN that the adapter of a port gets."""
        return port['binding:vif_details'].get('vlan', 1)

    def vlans(self, bridge=0):
        """Return the tagged VLANs of a bridge."""
        return self.host_state()['network_bridges'][bridge]['vlans']

    def storage_of(self, server):
        """Return the root disk and the config drive of a server."""
        # The driver's names for them are part of what operators see.
        stem = 'nv' + self.lpar(server).uuid.replace('-', '')[:12].lower()
        (disk,) = (
            disk for disk in self.disks() if disk['name'].startswith(stem)
        )
        (medium,) = (
            medium
            for medium in self.media()
            if medium['name'].startswith(stem)
        )
        return disk, medium

    def assert_nothing_left(self):
        """Assert that only resources of others are left on the host."""
        state = self.host_state()
        self.assertEqual(
            other_tool.NO_RESOURCES, other_tool.resources_of_instances(state)
        )
        self.assertEqual(self.others, other_tool.resources_of_others(state))
        self.assertIn(other_tool.VLAN, self.vlans())

    def assert_no_uploads(self):
        """Assert that no File is left on the host."""
        self.assertEqual([], self.hosts['host1'].reader.files())

    # The driver, called as nova-compute calls it

    def destroy(self, server):
        """Call the driver's destroy for a server."""
        context, instance = self._loaded(server)
        self.computes['host1'].manager.driver.destroy(
            context, instance, instance.get_network_info()
        )

    def _loaded(self, server):
        context = nova_context.get_admin_context()
        instance = objects.Instance.get_by_uuid(
            context, server['id'], expected_attrs=_ATTRIBUTES
        )
        # Attributes that are loaded later need a context.
        instance._context = context
        return context, instance
