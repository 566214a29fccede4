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

from tests import proofs
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


class DevicesTest(base.PowerVMTestCase):
    """One host with four GPUs, and a device that is named by its slot."""

    inventory = WITH_LOCATION

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_servers_have_their_devices(self):
        self.tell_stories()

    def assert_has(self, server, number):
        """Assert that a server has the slots that it was allocated.

        :param number: How many; they are returned.
        """
        slots = self.allocated_slots(server)
        self.assertEqual(number, len(slots))
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual(dict.fromkeys(slots, True), lpar.slots)
        for slot in slots:
            self.assertEqual(lpar.uuid, self.slot_owner(slot))
        return slots

    @proofs.proves(
        'D1',
        'D6',
        'D76',
        'D78',
        'D79',
        'D82',
        'V21',
        'device.passthrough.slot',
        'device.rebuild',
        'operation.launch',
        'operation.rebuild',
        'operation.terminate',
    )
    def story_server_keeps_its_slot_until_it_is_deleted(self):
        server = self.boot(base.gpu_groups(1), memory_mb=2048, vcpu=2)

        (slot,) = self.assert_has(server, 1)
        lpar = self.lpar(server)
        self.assertEqual(2048, lpar.memory_mb)
        self.assertEqual(2, lpar.vcpus)
        self.assertEqual(0.2, lpar.proc_units)
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assertEqual(name, lpar.name)
        stored = self.instance(server).resources
        self.assertEqual(
            [f'{slot:08X}'], [resource.identifier for resource in stored]
        )

        self._rebuild_server(server, self.create_image(b'another image'))

        self.assertEqual([slot], self.assert_has(server, 1))

        self._delete_server(server)

        self.assertIsNone(self.lpar(server))
        self.assertIsNone(self.slot_owner(slot))
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    @proofs.proves(
        'D1',
        'D7',
        'D18',
        'D62',
        'D74',
        'D75',
        'N17',
        'N21',
        'device.passthrough.slot',
        'device.traits.generated',
        'device.traits.operator',
    )
    def story_flavors_select_devices_that_servers_never_share(self):
        name = self.slot(0x21010021).drc_name
        by_location = self.boot(
            {
                'resources1:CUSTOM_GPU': '1',
                f'trait1:{base.location_trait(name)}': 'required',
            }
        )
        # The specification's flavor, with working keys.
        by_ids_and_index = self.boot(
            base.gpu_groups(1)
            | {
                'resources2:CUSTOM_GPU': '1',
                'trait2:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010022': 'required',
                'group_policy': 'isolate',
            }
        )
        of_two_classes = self.boot(
            base.gpu_groups(1)
            | {
                'resources2:CUSTOM_NVME': '1',
                'trait2:CUSTOM_FAST': 'required',
                'group_policy': 'none',
            }
        )

        self.assertEqual([0x21010021], self.assert_has(by_location, 1))
        two = self.assert_has(by_ids_and_index, 2)
        self.assertIn(0x21010022, two)
        both = self.assert_has(of_two_classes, 2)
        self.assertIn(0x21010030, both)
        self.assertEqual(5, len({0x21010021, *two, *both}))

        # All are taken.
        server = self.boot(base.gpu_groups(1), expected='ERROR')
        self.assertIn('No valid host', server['fault']['message'])
        self.assertIsNone(self.lpar(server))
