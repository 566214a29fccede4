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

"""Requests and profiles that real Cyborg services never make."""

from tests import proofs
from tests.functional import accelerated_servers
from tests.functional import base
from tests.functional import cyborg
from tests.functional.accelerated_servers import NVME

VIOS_SLOT = 0x21010011


class OddRequestTestCase(base.PowerVMTestCase):
    """Provides requests that real Cyborg services never make.

    Nova's fixture of Cyborg stands here for a Cyborg with other drivers and
    with faults: the driver is the last to see what such a Cyborg promises.
    """

    inventory = accelerated_servers.AcceleratorTestCase.inventory

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.cyborg = self.useFixture(cyborg.Cyborg())
        self.start_host()
        self.device = self.add_device('host1_fpga')

    def add_device(self, name, traits=(), total=4):
        """Create a provider of Cyborg below the compute node."""
        return accelerated_servers.add_device(self, name, traits, total)

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


class RefusedAcceleratorTest(OddRequestTestCase):
    """Unusable accelerator requests are refused before anything is created.

    Real Cyborg neither binds a slot twice nor has such handles and slots.
    """

    def test_unusable_requests_are_refused(self):
        self.tell_stories()

    @proofs.proves('C46', 'V26', 'device.cyborg-arq')
    def story_spawn_refuses_unusable_handles_and_slots(self):
        # More of them are in tests/unit/devices/test_accelerators.py.
        for handle, words in (
            (cyborg.slot(VIOS_SLOT), ['21010011', 'it is owned']),
            (cyborg.slot(0x21010020), ['21010020', 'Nova manages']),
        ):
            with self.subTest(handle=handle):
                self.refused([handle], words=words)

    @proofs.proves('C47', 'V4')
    def story_refused_request_ends_build(self):
        # After another try the fault would have a message of Nova's.
        self.flags(max_attempts=3, group='scheduler')

        self.refused(
            [('MDEV', {'asked_type': 'nvidia-223'})],
            words=['MDEV', 'PowerVM'],
        )

    def story_spawn_refuses_accelerator_of_other_instance(self):
        holder = self.accelerated([cyborg.slot(NVME)])

        self.refused([cyborg.slot(NVME)], words=['21010030', 'it is owned'])

        self.assert_has(holder, NVME)


class DeviceProfileWithoutMarkTest(OddRequestTestCase):
    """A device profile without Cyborg's mark is allocated a device of Nova.

    Real Cyborg does not bind to a provider that it does not know, so Nova
    fails before it calls the driver: see the next class.
    """

    inventory = """\
fpga:
  identification: {drc_index: "21010021"}
  resource_class: FPGA
  one_time_use: true
"""

    @proofs.proves('V22', 'device.cyborg-arq')
    def test_spawn_refuses_provider_of_nova_and_names_cure(self):
        # The scheduler has no choice.
        self.set_inventory(self.device, {'FPGA': {'total': 4, 'reserved': 4}})
        self.refused(
            [cyborg.slot(NVME)],
            mark=None,
            words=['trait:CUSTOM_<marker>=required', 'took slot 21010021'],
        )

        self.forget_tree()
        ours = self.slot_providers()[0x21010021]['uuid']
        (inventory,) = self._get_provider_inventory(ours).values()
        self.assertEqual(0, inventory['reserved'])
