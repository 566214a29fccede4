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

"""A slot is never offered while it belongs to somebody else."""

import unittest

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from emulator.tests import base
from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.devices.plan import Action
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from powervm_emulator import worlds
from tests.property import strategies

NEIGHBOUR = 'card of Cyborg'


@st.composite
def situations(draw):
    """Draw a host, a file, a tree, and owners of slots."""
    providers = draw(strategies.providers)
    uuids = [provider.uuid for provider in providers]
    holdings = draw(
        st.dictionaries(
            st.sampled_from(strategies.LPARS),
            st.frozensets(st.sampled_from(uuids)) if uuids else st.just(()),
        )
    )
    cyborgs = draw(
        st.dictionaries(strategies.INDEXES, st.just(NEIGHBOUR), max_size=2)
    )
    consumers = {
        provider.uuid: dict.fromkeys(
            draw(st.sampled_from(((), ('instance',)))),
            frozenset(provider.inventory),
        )
        for provider in providers
        if draw(st.booleans())
    }
    return (
        draw(strategies.policies),
        draw(st.lists(strategies.host_slots, max_size=6)),
        providers,
        holdings,
        cyborgs,
        consumers,
    )


def plan_for(file, host_slots, providers, holdings, cyborgs, consumers):
    """Plan as the service and the command do it."""
    neighbours = [
        slot_providers.Provider(
            uuid=f'cyborg {index:08X}',
            name=f'{name} {index}',
            traits=frozenset(
                {
                    f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{index:08X}',
                    'OWNER_CYBORG',
                }
            ),
        )
        for index, name in cyborgs.items()
    ]
    return plan.make_plan(
        plan.assess(
            plan.Facts(
                policy=file,
                io_slots=tuple(host_slots),
                holdings=holdings,
                descendants=(*providers, *neighbours),
            )
        ),
        slot_providers.Allocations(consumers),
        lambda index: names.provider_name('host1', index),
    )


def available(plan):
    """Return the entries that the scheduler can allocate."""
    return [
        entry
        for entry in plan.entries_with(
            Action.CREATE, Action.PUBLISH, Action.KEEP_CLASS
        )
        if any(not r['reserved'] for r in entry.inventory.values())
    ]


class OfferTest(unittest.TestCase):
    @given(situations())
    def test_offered_slot_belongs_to_nobody_else(self, situation):
        _, host_slots, _, holdings, cyborgs, _ = situation
        made = plan_for(*situation)
        for entry in available(made):
            (slot,) = (s for s in host_slots if s.drc_index == entry.drc_index)
            self.assertFalse(slot.is_empty)
            self.assertFalse(slot.sriov)
            self.assertNotIn(entry.drc_index, cyborgs)
            if slot.owner is not None:
                self.assertIs(slots.PartitionKind.CLIENT, slot.owner.kind)
                self.assertIn(entry.uuid, holdings[slot.owner.uuid])

    @given(situations())
    def test_plan_offers_each_slot_once(self, situation):
        offered = [e.drc_index for e in available(plan_for(*situation))]
        self.assertEqual(len(set(offered)), len(offered))


class SlotOwnerTest(base.EmulatorTestCase):
    """The offer does not depend on whether the host reports owners."""

    FILE = policy.Policy(
        (
            policy.Paragraph(
                name='all',
                identification={'drc_name': '*'},
                resource_class='CUSTOM_IOSLOT',
                traits=(),
            ),
        )
    )
    OWNERS = (None, 'vios1', 'database', 'archive')

    def read(self):
        server = options.Server(
            self.emulator.url, self.emulator.username, self.emulator.password
        )
        adapter = session.connect(server)
        try:
            return system.RestSystem(adapter, server).read()
        finally:
            adapter.session.close()

    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors],
    )
    @given(st.data())
    def test_offer_is_same_whether_host_reports_owners_or_not(self, data):
        world = worlds.default()
        (host,) = world['systems']
        free = set()
        for slot in host['slots']:
            if slot.get('vendor_id'):
                owner = data.draw(st.sampled_from(self.OWNERS))
                if owner is None:
                    free.add(int(slot['drc_index'], 16))
                else:
                    slot['owner'] = owner
        for reported, claimed in ((True, True), (True, False), (False, False)):
            host['reports_slot_owners'] = reported
            host['slot_owner_capability'] = claimed
            self.control.load_world(world)
            managed = self.read()
            instances = {
                slot.owner.uuid: frozenset()
                for slot in managed.io_slots
                if slot.owner and slot.owner.name == 'archive'
            }
            plan = plan_for(self.FILE, managed.io_slots, [], instances, {}, {})
            offered = {entry.drc_index for entry in available(plan)}
            self.assertEqual(free, offered)
