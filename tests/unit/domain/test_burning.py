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

"""The life cycle of devices for one use: each cell of the specification."""

import dataclasses
import unittest

import ddt

from nova_powervm.domain import burning
from nova_powervm.domain import existing
from nova_powervm.domain import matching
from nova_powervm.domain import names
from nova_powervm.domain import planning
from nova_powervm.domain import slots
from nova_powervm.domain.planned import Action
from tests.unit.domain.values import INDEX
from tests.unit.domain.values import NAME
from tests.unit.domain.values import device
from tests.unit.domain.values import paragraph
from tests.unit.domain.values import provider
from tests.unit.domain.values import record
from tests.unit.domain.values import slot

ONCE = names.ONE_TIME_USE_TRAIT
WITHDRAWN = names.WITHDRAWN_TRAIT
#: Uuids of consumers.
INSTANCE = 'instance'
MIGRATION = 'migration'


def once(flag=True):
    """Make a device that is for one use."""
    return dataclasses.replace(
        device(traits=['OWNER_NOVA', *([ONCE] if flag else [])]),
        one_time_use=flag,
    )


def withheld():
    """Make the verdict of a device for one use that is not offered."""
    marked = dataclasses.replace(paragraph(), one_time_use=True)
    return matching.Verdict(
        slot(), (marked,), slots.Reason('owned', 'it is owned by a VIOS')
    )


class Host:
    """One slot of a host, as Placement and the journal know it.

    :param flagged: Whether its paragraph says one_time_use.
    """

    def __init__(self, flagged=True):
        self.devices = [once(flagged)]
        self.verdicts = []
        self.provider = None
        self.holder = None
        self.journal = frozenset()
        self.update()

    def update(self):
        """Plan and carry out, as an update does; give the entry."""
        there = [self.provider] if self.provider else []
        pairing = existing.pair(self.devices, there)
        full = [p.uuid for p in pairing.burnable if self.holder or self.burned]
        plan = planning.make_plan(
            pairing,
            existing.Allocations(
                {p.uuid: [self.holder] if self.holder else [] for p in there}
            ),
            lambda index: names.provider_name('host1', index),
            self.verdicts,
            burning.Burns(frozenset(full), self.journal),
        )
        self.journal = burning.advance(
            self.journal, plan.burned, plan.released
        )
        if not plan.entries:
            return None
        (entry,) = plan.entries
        self.provider = (
            None
            if entry.action is Action.DELETE
            else existing.Provider(
                'uuid', entry.name, entry.inventory, entry.traits
            )
        )
        return entry

    @property
    def burned(self):
        """Whether all of its inventory is reserved."""
        return all(r['reserved'] for r in self.provider.inventory.values())

    def release(self):
        """Lower what is reserved, as an operator does."""
        self.provider = dataclasses.replace(
            self.provider, inventory={'CUSTOM_GPU': record(0)}
        )

    def allocate(self, consumer=INSTANCE):
        """Allocate it and claim; a burned one is not to be had."""
        assert not self.holder
        assert not self.burned
        self.holder = consumer
        self.update()

    def free(self):
        """Delete the allocation; a later cycle looks at what is left."""
        self.holder = None
        self.update()


class LifeCycleTest(unittest.TestCase):
    """Specification "One-time-use devices", "Life cycle operations"."""

    def used(self):
        host = Host()
        self.assertFalse(host.burned)
        host.allocate()
        self.assertTrue(host.burned)
        return host

    def test_boot_burns_it(self):
        self.assertEqual({INDEX}, self.used().journal)

    def test_delete_leaves_it_burned(self):
        host = self.used()
        host.free()
        self.assertTrue(host.burned)
        host.update()
        self.assertTrue(host.burned)

    def test_a_release_makes_it_as_new(self):
        host = self.used()
        host.free()
        host.release()
        host.update()
        self.assertFalse(host.burned)
        self.assertEqual(frozenset(), host.journal)
        host.allocate()
        self.assertTrue(host.burned)

    def test_rebuild_changes_nothing(self):
        host = self.used()
        before = host.provider
        host.update()
        self.assertEqual(before, host.provider)

    def test_evacuate(self):
        source, destination = self.used(), Host()
        # The instance holds both until the source is back.
        destination.allocate()
        self.assertTrue(destination.burned)
        source.update()
        self.assertTrue(source.burned)
        source.free()
        self.assertTrue(source.burned)

    def migrated(self):
        """Move an instance as far as VERIFY_RESIZE."""
        source, destination = self.used(), Host()
        source.holder = MIGRATION
        source.update()
        destination.allocate()
        return source, destination

    def test_cold_migration_burns_the_destinations_by_verify_resize(self):
        source, destination = self.migrated()
        self.assertTrue(source.burned)
        self.assertTrue(destination.burned)

    def test_confirm_leaves_the_sources_burned(self):
        source, destination = self.migrated()
        source.free()
        self.assertTrue(source.burned)
        self.assertTrue(destination.burned)

    def test_revert_leaves_the_destinations_burned(self):
        source, destination = self.migrated()
        destination.free()
        source.holder = INSTANCE
        source.update()
        self.assertTrue(destination.burned)
        self.assertTrue(source.burned)

    def test_released_while_in_use_it_is_burned_again(self):
        host = self.used()
        host.release()
        host.update()
        self.assertTrue(host.burned)

    def test_a_device_in_use_is_burned_when_its_paragraph_is_marked(self):
        host = Host(flagged=False)
        host.allocate()
        self.assertFalse(host.burned)
        host.devices = [once()]
        host.update()
        self.assertTrue(host.burned)
        self.assertIn(ONCE, host.provider.traits)

    def test_without_the_mark_it_stays_burned_until_it_is_released(self):
        host = self.used()
        host.devices = [once(False)]
        host.free()
        self.assertTrue(host.burned)
        self.assertIn(ONCE, host.provider.traits)
        host.release()
        host.update()
        self.assertFalse(host.burned)
        self.assertNotIn(ONCE, host.provider.traits)


@ddt.ddt
class GoneTest(unittest.TestCase):
    """Slot, paragraph or provider go, and come back."""

    def used(self):
        host = Host()
        host.allocate()
        return host

    @ddt.data(True, False)
    def test_slot_or_paragraph_gone_and_back(self, free):
        host = self.used()
        if free:
            host.free()
        devices, host.devices = host.devices, []
        entry = host.update()
        self.assertEqual(Action.WITHDRAW, entry.action)
        self.assertNotIn(WITHDRAWN, host.provider.traits)
        self.assertIn('used once', entry.reason)
        host.free()
        host.devices = devices
        host.update()
        self.assertTrue(host.burned)

    def test_allocated_when_its_slot_goes_before_the_claim(self):
        host = Host()
        host.holder = INSTANCE
        devices, host.devices = host.devices, []
        host.update()
        self.assertEqual({INDEX}, host.journal)
        self.assertNotIn(WITHDRAWN, host.provider.traits)
        host.free()
        host.devices = devices
        host.update()
        self.assertTrue(host.burned)

    def test_unused_it_goes(self):
        host = Host()
        host.devices = []
        self.assertEqual(Action.DELETE, host.update().action)

    def test_the_provider_was_deleted(self):
        host = self.used()
        host.free()
        host.provider = None
        entry = host.update()
        self.assertEqual(Action.CREATE, entry.action)
        self.assertTrue(host.burned)

    def test_the_provider_was_deleted_and_the_mark_is_gone(self):
        host = self.used()
        host.free()
        host.provider, host.devices = None, [once(False)]
        host.update()
        self.assertTrue(host.burned)
        host.update()
        self.assertEqual({INDEX}, host.journal)

    def test_somebody_made_the_provider_but_no_inventory(self):
        host = self.used()
        host.free()
        for devices in ([once()], [once(False)]):
            host.provider, host.devices = provider(classes=()), devices
            host.update()
            self.assertTrue(host.burned)
            self.assertEqual({INDEX}, host.journal)

    def test_an_orphan_without_inventory_says_nothing(self):
        host = self.used()
        host.free()
        host.provider, host.devices = provider(classes=()), []
        self.assertEqual(Action.DELETE, host.update().action)
        self.assertEqual({INDEX}, host.journal)

    def test_an_unused_one_that_was_deleted_is_made_free(self):
        host = Host()
        host.provider = None
        host.update()
        self.assertFalse(host.burned)


class WithdrawnTest(unittest.TestCase):
    """What was withdrawn before its paragraph got its mark."""

    def withdrawn(self):
        host = Host(flagged=False)
        host.allocate()
        host.devices = []
        host.update()
        self.assertIn(WITHDRAWN, host.provider.traits)
        host.devices = [once()]
        return host

    def test_in_use(self):
        host = self.withdrawn()
        host.update()
        self.assertTrue(host.burned)
        self.assertNotIn(WITHDRAWN, host.provider.traits)
        host.free()
        self.assertTrue(host.burned)

    def test_free(self):
        host = self.withdrawn()
        host.free()
        self.assertFalse(host.burned)
        self.assertEqual(frozenset(), host.journal)

    def test_in_use_and_its_slot_is_still_withheld(self):
        host = self.withdrawn()
        host.devices = []
        host.verdicts = [withheld()]
        entry = host.update()
        self.assertIn(ONCE, entry.traits)
        self.assertNotIn(WITHDRAWN, entry.traits)
        self.assertEqual({INDEX}, host.journal)
        # The slot is offered again after the instance is gone.
        host.free()
        host.devices, host.verdicts = [once()], []
        host.update()
        self.assertTrue(host.burned)

    def test_free_and_its_slot_is_still_withheld(self):
        host = self.withdrawn()
        host.devices, host.holder = [], None
        host.verdicts = [withheld()]
        self.assertEqual(Action.DELETE, host.update().action)

    def test_nobody_knows_and_its_slot_is_still_withheld(self):
        there = provider(reserved=1, traits=[WITHDRAWN])
        plan = planning.make_plan(
            existing.pair([], [there]),
            existing.Allocations({}),
            str,
            [withheld()],
        )
        (entry,) = plan.entries
        self.assertEqual({WITHDRAWN}, entry.traits)

    def test_the_mark_counts_for_nothing_on_a_device_for_one_use(self):
        there = provider(reserved=1, traits=[WITHDRAWN, ONCE])
        for devices in ([], [once()], [once(False)]):
            pairing = existing.pair(devices, [there])
            plan = planning.make_plan(
                pairing,
                existing.Allocations({there.uuid: []}),
                str,
                [],
            )
            (entry,) = plan.entries
            self.assertEqual({'CUSTOM_GPU': record(1)}, entry.inventory)


class TwinTest(unittest.TestCase):
    def test_a_used_device_with_two_providers_is_not_offered_by_either(self):
        short = 'PowerVM IOSlot 21010020'
        for burned, free in ((NAME, short), (short, NAME)):
            providers = [
                provider(burned, reserved=1, traits=[ONCE]),
                provider(free, traits=[ONCE]),
            ]
            plan = planning.make_plan(
                existing.pair([once()], providers),
                existing.Allocations({p.uuid: [] for p in providers}),
                str,
                [],
                burning.Burns(frozenset([providers[0].uuid])),
            )
            offered = [
                entry.name
                for entry in plan.of(Action.PUBLISH, Action.CREATE)
                if not entry.inventory['CUSTOM_GPU']['reserved']
            ]
            self.assertEqual([], offered)
            self.assertEqual({INDEX}, plan.burned)
            self.assertEqual(frozenset(), plan.released)


class AdvanceTest(unittest.TestCase):
    def test_what_the_plan_does_not_speak_of_stays(self):
        self.assertEqual(
            {1, 2, 4}, burning.advance({1, 2, 3}, burned={4}, free={3})
        )

    def test_in_doubt_it_is_burned(self):
        self.assertEqual({1}, burning.advance({1}, burned={1}, free={1}))
