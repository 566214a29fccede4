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

"""Plans that refuse an operation: what is said, and what cures it."""

import unittest

import ddt

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from tests.unit.lpar import plan_values as values
from tests.unit.lpar.plan_values import FOREIGN
from tests.unit.lpar.plan_values import GPU
from tests.unit.lpar.plan_values import OFF
from tests.unit.lpar.plan_values import ONCE
from tests.unit.lpar.plan_values import RUNNING
from tests.unit.lpar.plan_values import decide
from tests.unit.lpar.plan_values import lpar
from tests.unit.lpar.plan_values import refusal
from tests.unit.lpar.plan_values import wanted
from tests.unit.lpar.plan_values import words


@ddt.ddt
class StateRefusalTest(unittest.TestCase):
    """Refusals because of the state of the LPAR."""

    def test_unknown_state_advises_to_wait(self):
        made = decide(operations.HARD_REBOOT, wanted(), lpar('not available'))

        self.assertEqual(
            f'LPAR {values.NAME} of instance {values.INSTANCE} is in the '
            'state "not available": the host does not know whether it is '
            'running, so the driver neither starts nor stops it. Try again '
            'when `pvmctl lpar list` shows another state.',
            refusal(made),
        )
        self.assertEqual((), made.steps)

    @ddt.data(operations.START, operations.RESIZE)
    def test_suspended_guest_is_left_to_hard_reboot(self, row):
        made = decide(row, wanted(), lpar(values.SUSPENDED, ()))

        self.assertIn(
            'starting it would discard the memory of its guest. Resume it on '
            'the host, or reboot the server hard to discard the memory',
            refusal(made),
        )

    def test_running_lpar_in_the_way_is_named(self):
        made = decide(operations.SPAWN, wanted(), lpar(RUNNING))

        self.assertRegex(
            refusal(made),
            f'LPAR {values.NAME} .* it exists and is running. Check with '
            '`pvmctl lpar list` .* never its disks in a shared storage pool',
        )

    def test_start_names_slots_that_running_lpar_lacks(self):
        made = decide(
            operations.START, wanted(GPU, ONCE), lpar(RUNNING, {GPU: False})
        )

        self.assertIsInstance(made.refusal, exception.SlotsMissing)
        self.assertIn(
            'lacks the slots 21010020, 21010021. Reboot the server hard to '
            'give them back',
            refusal(made),
        )


@ddt.ddt
class SlotRefusalTest(unittest.TestCase):
    """Refusals because of slots."""

    def test_slot_of_nobody_is_named(self):
        made = decide(operations.START, wanted(), lpar(OFF, (GPU, FOREIGN)))

        self.assertIn(
            'should have the slots [21010020] but has [21010020, 21010023]: '
            'slot 21010023 was not asked for. It was neither started nor '
            'changed. Correct the slots with pvmctl',
            refusal(made),
        )

    @ddt.named_data(
        ['unknown', {}, (FOREIGN,)],
        ['known', {values.provider_of(FOREIGN): FOREIGN}, (FOREIGN,)],
        [
            'beside another',
            {values.provider_of(FOREIGN): FOREIGN},
            (FOREIGN, ONCE),
        ],
    )
    def test_slot_that_placement_allocated_is_not_to_be_removed(
        self, providers, present
    ):
        made = decide(
            operations.SOFT_REBOOT,
            wanted(GPU, providers=providers),
            lpar(RUNNING, present),
            allocated=(values.provider_of(FOREIGN),),
        )

        self.assertIsInstance(made.refusal, exception.RecordOutdated)
        self.assertIn('Reboot the server hard', refusal(made))
        self.assertNotIn('pvmctl', refusal(made))

    @ddt.named_data(
        ['beside its own', (GPU, FOREIGN), ()],
        ['beside one that it has lost', (GPU, FOREIGN), (ONCE,)],
        ['in place of its own', (FOREIGN,), ()],
    )
    def test_foreign_slot_is_not_called_allocated(self, present, held):
        made = decide(
            operations.SOFT_REBOOT,
            wanted(GPU),
            lpar(RUNNING, present),
            allocated=tuple(map(values.provider_of, held)),
        )

        self.assertIsInstance(made.refusal, exception.SlotsDiffer)

    @ddt.named_data(
        ['missing', {'io_slots': ()}, 'the host does not report it'],
        [
            'of another LPAR',
            {
                'io_slots': (
                    values.values.slot(
                        drc_index=GPU,
                        owner=values.values.client(values.values.OTHER_LPAR),
                    ),
                )
            },
            'it is owned by',
        ],
        [
            'reported twice',
            {'io_slots': (values.values.slot(drc_index=GPU),) * 2},
            'more than once',
        ],
        [
            'empty',
            {'io_slots': (values.values.slot(vendor_id=0xFFFF),)},
            'the slot is empty',
        ],
    )
    def test_slot_cannot_be_used_if(self, host, reason):
        for row, present in (
            (operations.SPAWN, None),
            (operations.START, lpar(OFF, ())),
        ):
            made = decide(
                row, wanted(), present, slots=values.managed_system(**host)
            )

            self.assertEqual('!claim', words(made))
            self.assertIn(
                'slot 21010020 was allocated to it but it cannot be used: ',
                refusal(made),
            )
            self.assertIn(reason, refusal(made))

    def test_slot_of_accelerator_request_names_request(self):
        claim = claims.Claim('p', GPU, claims.Source.ACCELERATOR, 'arq1')
        described = wanted(slots=(spec.WantedSlot(claim),))

        made = decide(
            operations.SPAWN,
            described,
            slots=values.managed_system(io_slots=()),
        )

        self.assertEqual('AcceleratorRefused', words(made))
        self.assertIn('accelerator request arq1 provides', refusal(made))

    @ddt.named_data(
        ['new LPAR', operations.SPAWN, None],
        ['LPAR without it', operations.START, ()],
    )
    def test_device_of_both_managers_is_refused_to(self, row, owned):
        described = wanted(slots=(values.slot(GPU, refusal='it is ours'),))

        made = decide(
            row, described, None if owned is None else lpar(OFF, owned)
        )

        self.assertEqual('AcceleratorRefused', words(made))
        self.assertIn('it is ours', refusal(made))

    @ddt.named_data(['required', True], ['not required', False])
    def test_device_of_both_managers_is_left_to_lpar_that_has_it(
        self, required
    ):
        described = wanted(slots=(values.slot(GPU, refusal='it is ours'),))

        made = decide(operations.START, described, lpar(OFF, {GPU: required}))

        self.assertIsNone(made.refusal)

    @ddt.named_data(
        ['spawn', operations.SPAWN, None, 'Build or evacuate'],
        ['arrival', operations.ARRIVAL, None, 'Build or evacuate'],
        ['lost return', operations.RETURN, None, 'Restore all'],
        ['return', operations.RETURN, OFF, 'Restore all'],
        ['resize', operations.RESIZE, OFF, 'Restore all'],
        ['start', operations.START, OFF, 'Restore all'],
        ['soft reboot', operations.SOFT_REBOOT, RUNNING, 'Restore all'],
        ['hard reboot', operations.HARD_REBOOT, RUNNING, 'Restore all'],
        ['lost hard reboot', operations.HARD_REBOOT, None, 'Restore all'],
    )
    def test_device_that_is_not_allocated_is_not_burned_for(
        self, row, state, advice
    ):
        made = decide(
            row,
            wanted(GPU, ONCE),
            state and lpar(state),
            allocated=(values.provider_of(GPU),),
        )

        self.assertEqual('!claim', words(made))
        self.assertIn(
            'slot 21010021 has a one-time-use device that Placement does not '
            f'allocate to it. {advice}',
            refusal(made),
        )


@ddt.ddt
class SizeRefusalTest(unittest.TestCase):
    """Refusals because of sizes."""

    @ddt.named_data(
        ['spawn', operations.SPAWN, None],
        ['resize', operations.RESIZE, OFF],
        ['hard reboot', operations.HARD_REBOOT, OFF],
    )
    def test_memory_must_be_multiple_of_region_in(self, row, state):
        made = decide(
            row,
            wanted(settings=lpar_settings.FlavorSettings(1000, 2, 0.5)),
            state and lpar(state),
        )

        self.assertIn('768 or 1024', refusal(made))

    def test_processors_need_their_minimum(self):
        made = decide(
            operations.SPAWN,
            wanted(settings=lpar_settings.FlavorSettings(1024, 2, 0.01)),
        )

        self.assertIn('requires 0.05 for each vCPU', refusal(made))

    def test_image_must_fit_flavor(self):
        made = decide(
            operations.SPAWN,
            wanted(),
            image=values.image.Contents(1, 'qcow2', 11 * 1024**3),
        )

        self.assertIn('needs a root disk of 11 GB', refusal(made))


@ddt.ddt
class OtherRefusalTest(unittest.TestCase):
    """Refusals because of adapters and disks."""

    def test_port_whose_address_is_taken_is_not_attached(self):
        made = decide(
            operations.ATTACH_PORT,
            wanted(ports=(values.port(1),)),
            lpar(RUNNING),
            adapters=values.changes([2, 1], [1]),
        )

        self.assertEqual(
            'Port port1 cannot be connected: the LPAR has an adapter with '
            'its MAC address on another network: fa:16:3e:00:00:01. Remove '
            'that adapter with pvmctl.',
            refusal(made),
        )

    def test_disconnected_disk_advises_hard_reboot(self):
        made = decide(operations.START, wanted(), lpar(), mappings=())

        self.assertIn(
            'is not connected to LPAR 4B1C2D3E-0000-4000-8000-000000000001, '
            'so a guest could not start. Reboot the server hard',
            refusal(made),
        )
        self.assertEqual(
            'start',
            words(
                decide(
                    operations.START,
                    wanted(),
                    lpar(),
                    disks=(values.pool_disk(values.EPHEMERAL),),
                    mappings=(),
                )
            ),
        )

    def test_hard_reboot_does_not_advise_itself(self):
        made = decide(
            operations.HARD_REBOOT,
            wanted(pool_is_current=False),
            lpar(),
            mappings=(),
        )

        self.assertIn('its disks are in another pool', refusal(made))
        self.assertNotIn('Reboot', refusal(made))

    @ddt.named_data(
        [
            'has its disk',
            {'has_rescue': True},
            'an earlier rescue has left its disk. Reboot the server hard',
        ],
        [
            'has left root disk disconnected',
            {'mappings': (values.pool_disk(values.SWAP).stored.name,)},
            'its root disk is not connected. Reboot the server hard',
        ],
    )
    def test_rescue_after_one_that(self, host, reason):
        made = decide(operations.RESCUE, wanted(), lpar(RUNNING), **host)

        self.assertIn(f'cannot be rescued: {reason}', refusal(made))

    def test_used_disk_is_named(self):
        made = decide(
            operations.START,
            wanted(),
            lpar(),
            disks=(
                values.pool_disk(),
                values.pool_disk(values.EPHEMERAL, in_use=True),
            ),
        )

        self.assertIn('-eph0 is in use by a running LPAR', refusal(made))
