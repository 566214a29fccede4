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

"""LPARs get exactly the slots that were allocated to their instance."""

from tests.functional import base

WITH_LOCATION = (
    base.GPUS
    + """\
the-rare-one:
  identification:
    drc_index: "21010030"
  resource_class: CUSTOM_NVME
  traits: [CUSTOM_FAST]
"""
)


class SingleDeviceTest(base.PowerVMTestCase):
    """A GPU selected by vendor and device id."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_server_with_one_device_has_its_slot(self):
        self.tell_stories()

    def story_boot_assigns_allocated_slot(self):
        server = self.boot(base.gpu_groups(1))

        slots = self.allocated_slots(server)
        self.assertEqual(1, len(slots))
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual({slots[0]: True}, lpar.slots)
        self.assertEqual(lpar.uuid, self.slot_owner(slots[0]))

    def story_boot_uses_flavor_size_and_instance_name(self):
        server = self.boot(base.gpu_groups(1), memory_mb=2048, vcpu=2)

        lpar = self.lpar(server)
        self.assertEqual(2048, lpar.memory_mb)
        self.assertEqual(2, lpar.vcpus)
        self.assertEqual(0.2, lpar.proc_units)
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual(name, lpar.name)

    def story_delete_frees_slot_and_allocation(self):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)

        self._delete_server(server)

        self.assertIsNone(self.lpar(server))
        self.assertIsNone(self.slot_owner(slot))
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def story_rebuild_keeps_slot(self):
        server = self.boot(base.gpu_groups(1))
        slots = self.allocated_slots(server)
        other = self.create_image(b'another image')

        self._rebuild_server(server, other)

        self.assertEqual(slots, self.allocated_slots(server))
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual(dict.fromkeys(slots, True), lpar.slots)

    def story_server_without_devices_gets_no_slot(self):
        server = self.boot({})

        self.assertEqual([], self.allocated_slots(server))
        self.assertEqual({}, self.lpar(server).slots)

    def story_instance_record_stores_slot(self):
        server = self.boot(base.gpu_groups(1))

        stored = self.instance(server).resources
        (slot,) = self.allocated_slots(server)
        self.assertEqual(
            [f'{slot:08X}'], [resource.identifier for resource in stored]
        )


class MultipleDevicesTest(base.PowerVMTestCase):
    """Flavors with several groups of one device each."""

    inventory = WITH_LOCATION

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_server_with_several_devices_has_their_slots(self):
        self.tell_stories()

    def story_flavor_selects_devices_by_ids_and_by_drc_index(self):
        # The specification's flavor, with working keys.
        groups = base.gpu_groups(1) | {
            'resources2:CUSTOM_GPU': '1',
            'trait2:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010022': 'required',
            'group_policy': 'isolate',
        }
        server = self.boot(groups)

        slots = self.allocated_slots(server)
        self.assertEqual(2, len(slots))
        self.assertIn(0x21010022, slots)
        self.assertEqual(dict.fromkeys(slots, True), self.lpar(server).slots)

    def story_flavor_selects_devices_of_two_classes(self):
        groups = base.gpu_groups(1) | {
            'resources2:CUSTOM_NVME': '1',
            'group_policy': 'none',
        }
        server = self.boot(groups)

        slots = self.allocated_slots(server)
        self.assertEqual(2, len(slots))
        self.assertIn(0x21010030, slots)
        self.assertEqual(dict.fromkeys(slots, True), self.lpar(server).slots)

    def story_flavor_selects_device_by_custom_trait(self):
        server = self.boot(
            {'resources1:CUSTOM_NVME': '1', 'trait1:CUSTOM_FAST': 'required'}
        )

        self.assertEqual([0x21010030], self.allocated_slots(server))
        self.assertEqual({0x21010030: True}, self.lpar(server).slots)

    def story_flavor_selects_device_by_location_code(self):
        name = self.slot(0x21010021).drc_name
        trait = base.location_trait(name)
        server = self.boot(
            {'resources1:CUSTOM_GPU': '1', f'trait1:{trait}': 'required'}
        )

        self.assertEqual([0x21010021], self.allocated_slots(server))

    def story_servers_never_share_device(self):
        servers = [self.boot(base.gpu_groups(1)) for _ in range(4)]

        taken = [self.allocated_slots(server)[0] for server in servers]
        self.assertEqual(4, len(set(taken)))
        for server, slot in zip(servers, taken, strict=True):
            self.assertEqual({slot: True}, self.lpar(server).slots)


class MissingDeviceTest(base.PowerVMTestCase):
    """Nova finds no host for a device that is not available."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def refused(self, groups):
        return self.boot(groups, expected='ERROR')

    def test_boot_fails_without_matching_device(self):
        self.tell_stories()

    def story_boot_fails_if_device_is_taken(self):
        groups = {
            'resources1:CUSTOM_GPU': '1',
            'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
        }
        self.boot(groups)

        server = self.refused(groups)

        self.assertIn('No valid host', server['fault']['message'])
        self.assertIsNone(self.lpar(server))

    def story_boot_fails_for_more_devices_than_present(self):
        groups = {'group_policy': 'isolate'}
        for number in range(1, 6):
            groups |= base.gpu_groups(number)

        server = self.refused(groups)

        self.assertIn('No valid host', server['fault']['message'])

    def story_multi_create_fails_without_filter_of_candidates(self):
        # Nova claims a host's first candidate only, so the same device.
        # With the filter: test_servers_at_once.
        group = base.gpu_groups(1)
        server = self.boot(group, expected='ERROR', request={'min_count': 2})

        self.assertIn('No valid host', server['fault']['message'])
        for other in self.api.get_servers():
            self.assertEqual(
                'ERROR', self._wait_until_built(other['id'])['status']
            )
            self._delete_server(other)
        for _ in range(2):
            self.boot(group)

    def story_boot_fails_for_class_that_no_host_offers(self):
        server = self.refused({'resources1:CUSTOM_NVME': '1'})

        self.assertIn('No valid host', server['fault']['message'])

    def story_boot_fails_for_slot_of_vios(self):
        server = self.refused(
            {
                'resources1:CUSTOM_IOSLOT': '1',
                'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010011': 'required',
            }
        )

        self.assertIn('No valid host', server['fault']['message'])
