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

import fixtures
from nova import objects
from nova.compute import task_states
from oslo_db import exception as db_exception

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


class AttachedSlotsTest(base.PowerVMTestCase):
    """One host, and one server with a GPU for most stories."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.shared = self.boot(base.gpu_groups(1))
        # Keep the server for all stories.
        self._booted.clear()

    def prepare(self):
        """Have the shared server run."""
        self.use(self.shared)
        if self.lpar(self.server).state != 'running':
            self._start_server(self.server)

    def use(self, server):
        """Let a story be about a server."""
        self.server = server
        (self.index,) = self.allocated_slots(server)

    def change_owner(self, index=None, owner=None):
        """Change the owner of a slot outside Nova."""
        self.control().set_owner(f'{index or self.index:08X}', owner)

    def assert_exact(self, state='running'):
        """Assert that the server's LPAR has exactly its slot."""
        lpar = self.lpar(self.server)
        self.assertEqual(state, lpar.state)
        self.assertEqual({self.index: True}, lpar.slots)

    def wait_for_refusal_without_event(self):
        self.await_found(
            lambda: 'its action gets no event' in self.logged(),
            'the rebuild is not refused',
        )
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

    def wait_for_failed_action(self, action, event, *words):
        """Wait until an action has failed, and its words are in the log."""
        self._wait_for_action_fail_completion(
            self.server, action, f'compute_{event}_instance'
        )
        # Nova logs the error after it has recorded the action's end.
        self.await_found(
            lambda: all(word in self.logged() for word in words),
            f'not all of {words} are in the log',
        )

    def after_host_boot(self):
        """Stop the LPARs as a host boot does, and restart nova-compute."""
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()

    def test_slots_of_lpars_are_those_of_their_servers(self):
        self.tell_stories()

    @proofs.proves('device.passthrough.slot')
    def story_reboot_and_start_reassign_lost_slot(self):
        self.change_owner()
        self._reboot_server(self.server, hard=True)
        self.assert_exact()
        self.assertIn('lacks', self.logged())

        self._stop_server(self.server)
        self.change_owner()
        self._start_server(self.server)
        self.assert_exact()

    def story_service_start_names_lost_slot_and_host_boot_reassigns_it(self):
        self.change_owner()

        self.restart_host()

        self.assertRegex(
            self.logged(),
            rf'ERROR.*{self.server["id"]} was allocated the slots '
            rf'{self.index:08X}',
        )

        # Nova calls before the provider tree was updated once.
        self.after_host_boot()

        self.assert_exact()

    def story_service_start_finishes_interrupted_delete(self):
        self.use(self.boot(base.gpu_groups(1)))
        # Nova calls destroy before the provider tree was updated once.
        instance = self.instance(self.server)
        instance.task_state = task_states.DELETING
        instance.save()

        self.restart_host()

        self.assertIsNone(self.lpar(self.server))
        self.assertIsNone(self.slot_owner(self.index))

    @proofs.proves('device.passthrough.slot')
    def story_start_fails_with_surplus_slot_that_is_withheld(self):
        self._stop_server(self.server)
        spare = min(set(self.slot_providers()) - {self.index})
        self.change_owner(spare, self.lpar(self.server).uuid)

        self.api.post_server_action(self.server['id'], {'os-start': None})

        self.wait_for_failed_action(
            'start', 'start', f'slot {spare:08X} was not asked for'
        )
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({self.index, spare}, set(lpar.slots))

        # A boot of the host does not start it either.
        self.after_host_boot()
        self.assertEqual('not activated', self.lpar(self.server).state)
        self.assertNotIn('does not have them', self.logged())

        # A slot held without allocation is not offered.
        self._run_periodics()
        self.assertNotIn(spare, self.slot_providers())
        self.change_owner(spare)
        self._run_periodics()
        self.assertIn(spare, self.slot_providers())

    def story_failed_stop_in_rebuild_keeps_allocation(self):
        self.control().add_fault(
            match='LogicalPartition.job', status=500, every=True
        )
        image = self.create_image(b'another image')
        reason = self.refuse_rebuild(self.server, image)
        self.assertIn('The host could not do this', reason)
        self.assertIn('stopping LPAR', self.logged())
        with fixtures.MockPatchObject(
            objects.InstanceActionList,
            'get_by_instance_uuid',
            side_effect=db_exception.DBConnectionError(),
        ):
            self.api.post_server_action(
                self.server['id'], {'rebuild': {'imageRef': image}}
            )
            self.wait_for_refusal_without_event()
        self.control().clear_faults()
        self._run_periodics()

        self.assertEqual(
            'ACTIVE', self.api.get_server(self.server['id'])['status']
        )
        self.assertEqual([self.index], self.allocated_slots(self.server))
        self.assertIn(self.index, self.slot_providers())
        self.assert_exact()

    def story_slot_is_withheld_after_its_allocation_was_deleted(self):
        self.use(self.boot(base.gpu_groups(1)))
        # Without a reason no new plan is made after this cycle.
        self._run_periodics()
        self.placement.delete(f'/allocations/{self.server["id"]}')
        self._run_periodics()

        self.assertNotIn(self.index, self.slot_providers())
        self.assert_exact()
        self.assertIn('its instance has no allocation', self.logged())
        self.restart_host()
        self._run_periodics()
        self.assertNotIn(self.index, self.slot_providers())

        self._delete_server(self.server)
        self._run_periodics()
        self.assertIn(self.index, self.slot_providers())
