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

"""Properties of plans."""

import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from nova_powervm.devices import names
from nova_powervm.devices import slot_providers
from nova_powervm.devices.plan import Action
from tests import proofs
from tests.property import strategies
from tests.unit.devices import values

REMAINING = (
    Action.CREATE,
    Action.PUBLISH,
    Action.KEEP_CLASS,
    Action.WITHDRAW,
)
#: The only id of a card that providers have here.
CARD = 'CUSTOM_POWERVM_IOSLOT_CLASS_0200'


@st.composite
def situations(draw):
    """Draw devices, providers, and Placement's answer about them."""
    providers = draw(strategies.providers)
    consumers = {
        provider.uuid: dict.fromkeys(
            draw(st.sampled_from(((), ('instance',), ('a', 'b')))),
            frozenset(provider.inventory),
        )
        for provider in providers
        if draw(st.booleans())
    }
    return draw(strategies.devices), providers, consumers


def plan_for(devices, providers, consumers, held=()):
    return values.make_plan(
        devices, providers, slot_providers.Allocations(consumers), (), held
    )


def apply(plan, providers):
    """Return the providers after a plan was applied."""
    after = {provider.uuid: provider for provider in providers}
    for entry in plan.entries:
        uuid = entry.uuid or f'new {entry.name}'
        if entry.action is Action.DELETE:
            del after[uuid]
        else:
            after[uuid] = slot_providers.Provider(
                uuid, entry.name, entry.inventory, entry.traits
            )
    return list(after.values())


def reserved(provider):
    return max(
        (r.get('reserved', 0) for r in provider.inventory.values()), default=0
    )


def frozen(provider):
    """Return whether the ids and the class of a provider must stay."""
    return (
        CARD in provider.traits
        and reserved(provider)
        and not provider.is_withdrawn
    )


class PlanTest(unittest.TestCase):
    @proofs.proves('O9')
    @given(situations())
    def test_plan_never_lowers_reservation_of_others(self, situation):
        devices, providers, consumers = situation
        plan = plan_for(devices, providers, consumers)
        before = {provider.uuid: provider for provider in providers}
        for entry in plan.entries_with(Action.PUBLISH, Action.KEEP_CLASS):
            there = before[entry.uuid]
            if reserved(there) and names.WITHDRAWN_TRAIT not in there.traits:
                for record in entry.inventory.values():
                    self.assertEqual(1, record['reserved'])

    @given(situations(), st.data())
    def test_plan_burns_only_devices_that_lpars_hold(self, situation, data):
        devices, providers, consumers = situation
        indexes = [device.slot.drc_index for device in devices]
        held = data.draw(st.sets(st.sampled_from(indexes or [0])))
        plan = plan_for(devices, providers, consumers, held)
        before = {provider.uuid: provider for provider in providers}
        once = {d.slot.drc_index for d in devices if d.one_time_use}
        for entry in plan.entries_with(*REMAINING):
            index = entry.drc_index
            if index in once & held and entry.inventory:
                self.assertTrue(entry.burned)
            elif entry.burned:
                # It was burned before, or the slot's other provider was.
                self.assertTrue(
                    any(
                        reserved(provider)
                        for provider in before.values()
                        if names.slot_of_provider(provider.name) == index
                    )
                )

    @proofs.proves('D70')
    @given(situations())
    def test_plan_offers_each_device_by_one_provider(self, situation):
        devices, providers, consumers = situation
        plan = plan_for(devices, providers, consumers)
        offering = plan.entries_with(
            Action.CREATE, Action.PUBLISH, Action.KEEP_CLASS
        )
        # ... or none, while another provider of the slot is not free.
        withdrawn = {e.drc_index for e in plan.entries_with(Action.WITHDRAW)}
        self.assertEqual(
            [
                device.slot.drc_index
                for device in devices
                if device.slot.drc_index not in withdrawn
            ],
            [entry.drc_index for entry in offering],
        )
        self.assertEqual(
            len(plan.entries), len({entry.name for entry in plan.entries})
        )

    @proofs.proves('C3')
    @given(situations())
    def test_plan_covers_providers_of_slots_only(self, situation):
        devices, providers, consumers = situation
        plan = plan_for(devices, providers, consumers)
        ours = {
            provider.uuid
            for provider in providers
            if names.slot_of_provider(provider.name) is not None
        }
        self.assertEqual(
            ours, {entry.uuid for entry in plan.entries if entry.uuid}
        )

    @settings(max_examples=200)
    @given(situations())
    def test_plan_keeps_each_rule(self, situation):
        for name in dir(self):
            if name.startswith('rule_'):
                getattr(self, name)(*situation)

    # The rules.

    def rule_second_plan_changes_nothing(self, devices, providers, consumers):
        # A withdrawal takes two plans: first the trait, then reserved.
        after = providers
        for _ in range(2):
            after = apply(plan_for(devices, after, consumers), after)
        again = plan_for(devices, after, consumers)
        self.assertEqual(
            {provider.uuid: provider for provider in after},
            {provider.uuid: provider for provider in apply(again, after)},
        )
        self.assertEqual((), again.entries_with(Action.CREATE, Action.DELETE))

    def rule_provider_in_use_or_in_doubt_is_not_deleted(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        for entry in plan.entries_with(Action.DELETE):
            self.assertIn(entry.uuid, consumers)
            self.assertEqual([], list(consumers[entry.uuid]))

    def rule_provider_in_use_or_in_doubt_loses_no_class(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        before = {provider.uuid: provider for provider in providers}
        for entry in plan.entries_with(*REMAINING):
            if entry.uuid and consumers.get(entry.uuid, ('doubt',)):
                self.assertLessEqual(
                    set(before[entry.uuid].inventory), set(entry.inventory)
                )

    def rule_free_providers_follow_inventory_file(
        self, devices, providers, consumers
    ):
        nobody = {provider.uuid: {} for provider in providers}
        plan = plan_for(devices, providers, nobody)
        self.assertEqual((), plan.entries_with(Action.KEEP_CLASS))
        # Only a reservation by an operator keeps a free provider.
        kept = {
            entry.drc_index for entry in plan.entries_with(Action.WITHDRAW)
        }
        reserved = {
            names.slot_of_provider(provider.name)
            for provider in providers
            if not provider.is_withdrawn
            and any(
                record.get('reserved')
                for record in provider.inventory.values()
            )
        }
        self.assertLessEqual(kept, reserved)
        offered = plan.entries_with(Action.CREATE, Action.PUBLISH)
        free = [d for d in devices if d.slot.drc_index not in kept]
        before = {p.uuid: p for p in providers if frozen(p)}
        self.assertEqual(
            [
                tuple(sorted(before[entry.uuid].inventory))
                if entry.uuid in before
                else (device.resource_class,)
                for device, entry in zip(free, offered, strict=True)
            ],
            [entry.resource_classes for entry in offered],
        )
        for device, entry in zip(free, offered, strict=True):
            self.assertLessEqual(device.traits, entry.traits)

    def rule_plan_depends_on_answers_about_questionable_providers_only(
        self, devices, providers, consumers
    ):
        pairing = slot_providers.pair(devices, providers)
        asked = {provider.uuid for provider in pairing.undecided}
        some = {u: held for u, held in consumers.items() if u in asked}
        self.assertEqual(
            plan_for(devices, providers, consumers),
            plan_for(devices, providers, some),
        )

    def rule_plan_raises_reserved_only_on_withdrawn_providers(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        before = {provider.uuid: provider for provider in providers}
        # If one of a slot's two providers was used, so was the other.
        used = {
            names.slot_of_provider(provider.name)
            for provider in providers
            if reserved(provider) and not provider.is_withdrawn
        } & {d.slot.drc_index for d in devices if d.one_time_use}
        for entry in plan.entries_with(*REMAINING):
            if entry.drc_index in used:
                continue
            marked = names.WITHDRAWN_TRAIT in entry.traits
            self.assertLessEqual(marked, entry.action is Action.WITHDRAW)
            raised = [r for r in entry.inventory.values() if r['reserved']]
            if entry.uuid is None:
                self.assertEqual([], raised)
            elif raised and not reserved(before[entry.uuid]):
                self.assertIn(names.WITHDRAWN_TRAIT, before[entry.uuid].traits)
                self.assertTrue(marked)

    def rule_offered_provider_has_traits_of_its_device(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        wanted = {d.slot.drc_index: d.traits for d in devices}
        kept = {p.uuid for p in providers if frozen(p)}
        for entry in plan.entries_with(*REMAINING[:3]):
            ids = {CARD} if entry.uuid in kept else set()
            self.assertEqual(
                (wanted[entry.drc_index] | ids) - {names.ONE_TIME_USE_TRAIT},
                entry.traits - {names.ONE_TIME_USE_TRAIT},
            )

    def rule_reserved_provider_stays_what_was_burned(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        before = {p.uuid: p for p in providers if frozen(p)}
        for entry in plan.entries:
            if there := before.get(entry.uuid):
                self.assertIsNot(Action.DELETE, entry.action)
                self.assertLessEqual(
                    there.traits & {CARD, names.ONE_TIME_USE_TRAIT},
                    entry.traits,
                )
                if entry.action is not Action.KEEP_CLASS:
                    self.assertEqual(
                        there.inventory.keys(), entry.inventory.keys()
                    )

    def rule_plan_does_not_depend_on_order_of_inputs(
        self, devices, providers, consumers
    ):
        plan = plan_for(devices, providers, consumers)
        turned = plan_for(devices[::-1], providers[::-1], consumers)
        self.assertEqual(
            {entry.name: entry for entry in plan.entries},
            {entry.name: entry for entry in turned.entries},
        )
