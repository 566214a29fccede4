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

"""Accelerator requests of Cyborg, beside devices that Nova manages."""

import os_traits
from nova import exception as nova_exception

from tests.functional import base
from tests.functional import cyborg

#: Nova's; the other GPUs and the NVMe drive are Cyborg's.
OURS = {0x21010020, 0x21010021}
GPU, NVME = 0x21020024, 0x21010030
VIOS_SLOT = 0x21010011


class AcceleratorTestCase(base.PowerVMTestCase):
    """Provides one host with devices of Nova and devices of Cyborg."""

    inventory = """\
first:
  identification: {drc_index: "21010020"}
  resource_class: CUSTOM_GPU
second:
  identification: {drc_index: "21010021"}
  resource_class: CUSTOM_GPU
"""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.cyborg = self.useFixture(cyborg.Cyborg())
        self.start_host()
        self.device = self.add_device('host1_fpga')

    def add_device(self, name, traits=(), total=4):
        """Create a provider of Cyborg below the compute node."""
        root = self._get_provider_uuid_by_host('host1')
        uuid = self.placement.post(
            '/resource_providers',
            {'name': name, 'parent_provider_uuid': root},
            version='1.20',
        ).body['uuid']
        self.set_inventory(uuid, {'FPGA': {'total': total}})
        if cyborg.MARK not in self._get_all_traits():
            self._create_trait(cyborg.MARK)
        self._set_provider_traits(
            uuid, [os_traits.OWNER_CYBORG, cyborg.MARK, *traits]
        )
        self.forget_tree()
        return uuid

    def forget_tree(self):
        """Make nova-compute read all providers again."""
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        self._run_periodics()

    def accelerated(self, *groups, extra=None, mark=cyborg.MARK, **options):
        """Boot a server with a device profile."""
        self.cyborg.promise(*groups, mark=mark)
        specs = {'accel:device_profile': cyborg.PROFILE, **(extra or {})}
        return self.boot(specs, **options)

    def assert_has(self, server, *slots):
        """Assert that a server's LPAR is running with exactly these slots."""
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual(dict.fromkeys(slots, True), lpar.slots)

    def refused(self, *groups, words, **options):
        """Assert that a boot is refused unchanged and its requests unbound."""
        self.control().clear_journal()
        server = self.accelerated(*groups, expected='ERROR', **options)
        for word in words:
            self.assertIn(word, server['fault']['message'])
        self.wait_until_unallocated(server)
        self.assertEqual([], self.cyborg.bound_to(server['id']))
        self.assertIsNone(self.lpar(server))
        made = self.control().journal_counts()
        self.assertNotIn('PUT LogicalPartition.create', made)


class AcceleratorSlotTest(AcceleratorTestCase):
    """An LPAR gets the slots of its instance's accelerator requests."""

    def test_lpar_keeps_accelerator_slot_until_delete(self):
        server = self.accelerated([cyborg.slot(NVME)])
        self.assert_has(server, NVME)
        self.assertIn('21010030 (ACCELERATOR)', self.stdlog.logger.output)

        for action, jobs in (
            (lambda: self._reboot_server(server), ['PowerOff']),
            (lambda: self._reboot_server(server, hard=True), ['PowerOff']),
            (lambda: self._stop_and_start(server), ['PowerOff', 'PowerOn']),
            (lambda: self._rebuild(server), ['PowerOff', 'PowerOn']),
        ):
            self.control().clear_journal()
            self.cyborg.reads.clear()
            action()
            self.assertEqual(jobs, self.jobs())
            self.assertEqual({server['id']}, set(self.cyborg.reads))
            self.assert_has(server, NVME)

        self._delete_server(server)
        self.assertIsNone(self.slot_owner(NVME))
        self.assertEqual([], self.cyborg.bound_to(server['id']))

    def _stop_and_start(self, server):
        self._stop_server(server)
        self._start_server(server)

    def _rebuild(self, server):
        self._rebuild_server(server, self.create_image(b'new'))

    def test_lpar_gets_accelerator_slots_beside_slot_of_nova(self):
        server = self.accelerated(
            [cyborg.slot(0x21010022), cyborg.slot(GPU)],
            [cyborg.slot(NVME)],
            extra={
                'resources1:CUSTOM_GPU': '1',
                'trait1:OWNER_NOVA': 'required',
                'group_policy': 'none',
            },
        )

        (own,) = self.allocated_slots(server)
        self.assertIn(own, OURS)
        self.assert_has(server, own, 0x21010022, GPU, NVME)
        log = self.stdlog.logger.output
        self.assertIn(f'{own:08X} (COMPUTE)', log)
        for other in (0x21010022, GPU, NVME):
            self.assertIn(f'{other:08X} (ACCELERATOR)', log)
        self.assertEqual(3, len(self.cyborg.bound_to(server['id'])))

        self.control().clear_journal()
        self._reboot_server(server, hard=True)
        self.assertEqual(['PowerOff'], self.jobs())
        self.assert_has(server, own, 0x21010022, GPU, NVME)

    def test_spawn_ignores_test_pci_handle(self):
        server = self.accelerated([('TEST_PCI', {'bus': '0c'})])

        self.assert_has(server)

    def test_hard_reboot_reassigns_lost_accelerator_slot(self):
        server = self.accelerated([cyborg.slot(NVME)])
        self.control().set_owner('21010030', None)

        self._reboot_server(server, hard=True)

        self.assert_has(server, NVME)


class RefusedAcceleratorTest(AcceleratorTestCase):
    """Unusable accelerator requests are refused before anything is created."""

    def test_spawn_refuses_unusable_handles_and_slots(self):
        for handle, words in (
            (('MDEV', {'asked_type': 'nvidia-223'}), ['MDEV', 'PowerVM']),
            (('PCI', {'bus': '0c'}), ['without drc_index']),
            (('PCI', {'drc_index': '0x21'}), ["'0x21'", 'hexadecimal']),
            (cyborg.slot(0x2101FFFF), ['2101FFFF', 'does not report']),
            (cyborg.slot(VIOS_SLOT), ['21010011', 'VIOS vios1']),
            (cyborg.slot(0x21010040), ['21010040', 'empty']),
            (cyborg.slot(0x21010020), ['21010020', 'Nova manages']),
        ):
            with self.subTest(handle=handle):
                self.refused([handle], words=words)

    def test_refused_request_ends_build(self):
        # After another try the fault would have a message of Nova's.
        self.flags(max_attempts=3, group='scheduler')

        self.refused([('MDEV', {})], words=['MDEV'])

    def test_spawn_refuses_accelerator_of_other_instance(self):
        holder = self.accelerated([cyborg.slot(NVME)])

        self.refused([cyborg.slot(NVME)], words=['21010030', 'owned by'])

        self.assert_has(holder, NVME)

    def test_spawn_refuses_two_requests_for_one_slot(self):
        self.refused(
            [cyborg.slot(NVME), cyborg.slot(NVME)], words=['both name']
        )

    def test_spawn_refuses_request_whose_binding_failed(self):
        self.cyborg.state = 'BindFailed'

        self.refused([cyborg.slot(NVME)], words=['is not bound', 'BindFailed'])

    def test_failed_spawn_frees_bound_slot(self):
        self.control().plan_job('PowerOn', 'no power')

        server = self.accelerated([cyborg.slot(NVME)], expected='ERROR')

        self.wait_until_unallocated(server)
        self.assertIsNone(self.slot_owner(NVME))
        self.assertIsNone(self.lpar(server))
        self.assertEqual([], self.cyborg.bound_to(server['id']))
        self.assert_has(self.accelerated([cyborg.slot(NVME)]), NVME)


class DeviceProfileWithoutMarkTest(AcceleratorTestCase):
    """A device profile without Cyborg's mark is allocated a device of Nova."""

    inventory = """\
fpga:
  identification: {drc_index: "21010021"}
  resource_class: FPGA
  one_time_use: true
"""

    def test_spawn_refuses_provider_of_nova_and_names_cure(self):
        # The scheduler has no choice.
        self.set_inventory(self.device, {'FPGA': {'total': 4, 'reserved': 4}})
        self.refused(
            [cyborg.slot(NVME)],
            mark=None,
            words=['trait:CUSTOM_<marker>=required', 'bound to slot 21010021'],
        )

        self.forget_tree()
        ours = self.slot_providers()[0x21010021]['uuid']
        (inventory,) = self._get_provider_inventory(ours).values()
        self.assertEqual(0, inventory['reserved'])


class CyborgUnavailableTest(AcceleratorTestCase):
    """While Cyborg is down, no slot is detached and no LPAR started."""

    def test_server_keeps_its_slot_and_does_not_start_without_cyborg(self):
        self.tell_stories()

    def prepare(self):
        """Boot a server with an accelerator of Cyborg."""
        self.cyborg.down = False
        self.cyborg.looks = None
        self.flags(
            resume_guests_state_on_host_boot=False, arq_binding_timeout=1
        )
        self.server = self.accelerated([cyborg.slot(NVME)])
        (self.arq,) = self.cyborg.bound_to(self.server['id'])

    def story_hard_reboot_fails_and_keeps_slot_while_cyborg_is_down(self):
        self.cyborg.down = True

        self.api.post_server_action(
            self.server['id'], {'reboot': {'type': 'HARD'}}
        )

        self._wait_for_action_fail_completion(
            self.server, 'reboot', 'compute_reboot_instance'
        )
        self.assert_has(self.server, NVME)
        self.cyborg.down = False

    def story_rebuild_refuses_unbound_request(self):
        # While Cyborg is down, Nova's conductor fails earlier.
        self.arq['state'] = 'Initial'
        before = self.disks()

        reason = self.refuse_rebuild(self.server, self.image)

        self.assertIn('is not bound yet', reason)
        self.assertEqual(before, self.disks())
        self.assert_has(self.server, NVME)
        self.assertIn('waiting up to 1 seconds', self.logged())

    def story_start_refuses_unbound_request(self):
        self._stop_server(self.server)
        self.arq['state'] = 'Initial'

        self.api.post_server_action(self.server['id'], {'os-start': None})

        self._wait_for_action_fail_completion(
            self.server, 'start', 'compute_start_instance'
        )
        self.assertIn('waiting up to 1 seconds', self.logged())
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({NVME: True}, lpar.slots)

    def story_power_on_waits_until_request_is_bound(self):
        self._stop_server(self.server)
        for action in (
            lambda: self._start_server(self.server),
            lambda: self._reboot_server(self.server, hard=True),
            lambda: self._rebuild_server(self.server, self.image),
        ):
            # Nova makes the first read.
            self.cyborg.looks = 3
            action()
            self.assert_has(self.server, NVME)

    def story_host_boot_leaves_server_off_while_cyborg_is_down(self):
        self.cyborg.down = True
        self._after_host_boot()
        server = self.api.get_server(self.server['id'])
        self.assertEqual('ERROR', server['status'])
        self.assertIn('Cyborg is down', self.logged())
        lpar = self.lpar(self.server)
        self.assertEqual('not activated', lpar.state)
        self.assertEqual({NVME: True}, lpar.slots)
        self.cyborg.down = False

    def story_host_boot_does_not_wait_for_unbound_request(self):
        # All other instances and nova-compute itself would wait, too.
        self.flags(arq_binding_timeout=300)
        self.arq['state'] = 'Initial'
        self._after_host_boot()
        self.assertIn('is not bound yet', self.logged())
        self.assertIn('does not wait for them', self.logged())
        self.assertEqual('not activated', self.lpar(self.server).state)

    def story_host_boot_starts_server_with_service_user(self):
        with self.cyborg.over_http() as api:
            self._after_host_boot()
        self.assert_has(self.server, NVME)
        self.assertIn('GET /accelerator/v2/accelerator_requests', api.served)

    def story_host_boot_leaves_server_off_without_service_user(self):
        with self.cyborg.over_http():
            self.flags(group='service_user', auth_type=None)
            self._after_host_boot()
        self.assertRegex(self.logged(), r'WARNING.*\[service_user\]')
        self.assertEqual('not activated', self.lpar(self.server).state)

    def _after_host_boot(self):
        self.flags(resume_guests_state_on_host_boot=True)
        uuid = self.lpar(self.server).uuid
        self.control().set_partition(uuid, state='not activated')
        self.restart_host()


class CyborgConflictTest(AcceleratorTestCase):
    """A slot that both Nova and Cyborg manage is withheld."""

    TRAIT = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{:08X}'

    def offered(self):
        """Return the slots that have a provider of this driver."""
        # One of Cyborg's may have the same DRC index in its name.
        root = self._get_provider_uuid_by_host('host1')
        return {
            int(provider['name'][-8:], 16)
            for provider in self._get_all_rps_in_a_tree(root)
            if provider['name'].startswith('PowerVM IOSlot host1 ')
        }

    def test_slot_with_cyborg_provider_is_not_offered(self):
        self.assertEqual(OURS, self.offered())
        uuid = self.add_device(
            'host1_gpu', [self.TRAIT.format(0x21010020)], total=1
        )

        self.assertEqual({0x21010021}, self.offered())
        log = self.stdlog.logger.output
        self.assertRegex(log, r'ERROR.*21010020.*inventory.yaml.*host1_gpu')
        traits = self._get_provider_traits(uuid)
        self.assertIn(os_traits.OWNER_CYBORG, traits)
        self.assertNotIn(os_traits.OWNER_NOVA, traits)

        # The name alone does not make it a provider of this driver.
        named = self.add_device('PowerVM IOSlot cyborg 21010021', total=1)
        self.assertEqual(set(), self.offered())
        self.assertEqual(
            {os_traits.OWNER_CYBORG, cyborg.MARK},
            set(self._get_provider_traits(named)),
        )
        self._delete_provider(named)
        self.forget_tree()

        # A free device does not stop the service ...
        self.restart_host()
        self.assertEqual({0x21010021}, self.offered())

        # ... and is offered again once Cyborg gives it up.
        self._delete_provider(uuid)
        self.forget_tree()
        self.assertEqual(OURS, self.offered())

    def _delete_provider(self, uuid):
        answer = self.placement.delete(f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status)

    def test_allocated_slot_with_cyborg_provider_stops_starting_service(self):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        self.add_device('host1_gpu', [self.TRAIT.format(slot)], total=1)

        # A running service marks it, and reserves it in the next cycle ...
        self._run_periodics()
        kept = self.slot_providers()[slot]['uuid']
        self.assertEqual(
            1, self._get_provider_inventory(kept)['CUSTOM_GPU']['reserved']
        )
        self.assert_has(server, slot)

        # ... but a starting service stops.
        error = self.assertRaises(
            nova_exception.InvalidConfiguration, self.restart_host
        )
        self.assertIn(f'{slot:08X}', str(error))
        self.assertIn('host1_gpu', str(error))
        self.assertIn(server['id'], str(error))

    def test_slot_of_bound_request_is_not_offered(self):
        holder = self.accelerated([cyborg.slot(NVME)])
        self.restart_host(
            inventory=self.inventory
            + 'third:\n  identification: {drc_index: "21010030"}\n'
        )
        self.assertEqual(OURS, self.offered())
        self.assertIn(
            'its instance has no allocation', self.stdlog.logger.output
        )

        self._reboot_server(holder, hard=True)
        self.forget_tree()

        self.assertEqual(OURS, self.offered())
        self.assert_has(holder, NVME)
