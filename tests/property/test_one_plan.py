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

"""nova-compute and the operator's command make one plan of the same facts.

Each goes its own way to the plan: the service by Nova's ProviderTree, Nova's
records and questions to Placement, the command by what it reads of Placement.
"""

import dataclasses
import types
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from nova import objects
from nova.compute import provider_tree

from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.lpar import partition
from nova_powervm.ops import claiming
from nova_powervm.ops import host as host_ops
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import placement_tree
from nova_powervm.virt.provider_tree import updating
from tests.property import strategies
from tests.unit.devices import values

objects.register_all()

ROOT = '00000000-0000-4000-8000-000000000000'
CONSUMERS = [
    next(
        uuid
        for uuid in partition.instance_uuids(lpar)
        if partition.lpar_uuid(uuid) == lpar
    )
    for lpar in strategies.LPARS
]

EVERYTHING = policy.Policy(
    (policy.Paragraph('all', {'drc_index': '*'}, 'CUSTOM_GPU', ()),)
)


@st.composite
def clouds(draw):
    """Draw a file, a host, and what Placement and Nova hold of it."""
    below = []
    for provider in draw(strategies.providers):
        traits = provider.traits | draw(
            st.sampled_from((frozenset(), frozenset({'OWNER_CYBORG'})))
        )
        holder = draw(st.sampled_from([None, None, *CONSUMERS]))
        below.append(
            placement_tree.Provider(
                uuid=provider.uuid,
                name=provider.name,
                parent_uuid=ROOT,
                generation=1,
                inventory=provider.inventory,
                traits=traits,
                consumers={holder: dict.fromkeys(provider.inventory, 1)}
                if holder and provider.inventory
                else {},
            )
        )
    # Every instance holds something of the node itself.
    running = draw(st.sets(st.sampled_from(CONSUMERS)))
    root = placement_tree.Provider(
        ROOT,
        'host1',
        None,
        1,
        consumers={consumer: {'VCPU': 1} for consumer in running},
    )
    # A provider cannot be allocated to an instance that is not there.
    below = [
        dataclasses.replace(
            each,
            consumers={
                consumer: held
                for consumer, held in each.consumers.items()
                if consumer in running
            },
        )
        for each in below
    ]
    tree = placement_tree.Tree('host1', root, tuple(below))
    host_slots = draw(
        st.lists(
            strategies.host_slots,
            max_size=5,
            unique_by=lambda slot: slot.drc_index,
        )
    )
    host_slots = [
        draw(_given_to(slot, sorted(running))) for slot in host_slots
    ]
    # Nova stores what it claimed; the allocation of it can be lost later.
    forgotten = draw(
        st.sets(st.sampled_from([b.uuid for b in below] or ['-']))
    )
    file = draw(st.one_of(st.just(EVERYTHING), strategies.policies))
    return file, tuple(host_slots), tree, forgotten


def _given_to(slot, running):
    """Draw whether the LPAR of a running instance has a slot."""
    owned = [
        dataclasses.replace(
            slot,
            owner=values.client(partition.lpar_uuid(consumer)),
            vendor_id=0x10DE,
            pci_class=0x0302,
        )
        for consumer in running
    ]
    return st.sampled_from([slot, *owned])


class Cloud:
    """What the service asks: the host, Nova's records and Placement."""

    def __init__(self, file, host_slots, tree, forgotten):
        self.policy = file
        self._slots = host_slots
        self._tree = tree
        self._forgotten = forgotten

    # The host

    def read(self):
        return values.managed_system(io_slots=self._slots)

    def capacity(self):
        return host_values.DiskCapacity(0, 0)

    # Nova's records

    def stale_lpars(self, lpars, host):
        return {}

    def holdings(self, lpars):
        """Give what was stored: what is allocated, and what was lost."""
        known = self._tree.instance_lpars
        return {
            lpar: {
                each.uuid: claims.SlotProvider(
                    each.uuid, index, frozenset(each.inventory)
                )
                for each in self._tree.below
                if (index := each.drc_index) is not None
                and (
                    known[lpar] in each.consumers
                    or (each.uuid in self._forgotten and not each.consumers)
                )
            }
            for lpar in lpars
            if lpar in known
        }

    # Placement

    def get_consumers(self, asked):
        return {
            each.uuid: set(each.consumers)
            for each in self._tree.below
            if each.uuid in asked
        }

    def get_allocations(self, asked):
        by_uuid = {each.uuid: each for each in self._tree.below}
        return slot_providers.Allocations(
            {p.uuid: by_uuid[p.uuid].consumers for p in asked},
            [p.uuid for p in asked if by_uuid[p.uuid].reserved],
        )

    def get(self, path, **_):
        """Answer nova-compute's report client."""
        content = {
            'resource_providers': [
                {
                    'uuid': each.uuid,
                    'name': each.name,
                    'generation': each.generation,
                    'parent_provider_uuid': each.parent_uuid,
                }
                for each in (self._tree.root, *self._tree.below)
            ],
            'inventories': {},
        }
        return types.SimpleNamespace(json=lambda: content)


def nova_tree(tree):
    """Make Nova's own tree of what Placement holds."""
    made = provider_tree.ProviderTree()
    made.new_root('host1', ROOT, generation=1)
    for each in tree.below:
        made.new_child(each.name, ROOT, uuid=each.uuid, generation=1)
        made.update_inventory(each.uuid, each.inventory)
        made.update_traits(each.uuid, each.traits)
    return made


def plan_of_service(file, host_slots, tree, forgotten):
    """Run two cycles, and give the plan of the second."""
    cloud = Cloud(file, host_slots, tree, forgotten)
    reader = host_ops.HostReader(cloud, cloud, cloud, cloud, 'host1')
    reader.read()
    reading = reader.read()
    slot_claims = claiming.ClaimOps(lambda: cloud.policy)
    # As after the first update: two owners do not stop it.
    slot_claims.published = claiming.PublishedSlots()
    updater = updating.ProviderTreeUpdater(
        cloud,
        cloud,
        cloud,
        names.namer('host1', 'node'),
        {},
        slot_claims,
    )
    made = []
    updater._log = types.SimpleNamespace(log=lambda _, plan: made.append(plan))
    updater.update(nova_tree(tree), 'host1', reading)
    (plan,) = made
    return plan


class OnePlanTest(unittest.TestCase):
    @settings(max_examples=200)
    @given(clouds())
    def test_service_and_command_make_the_same_plan(self, cloud):
        file, host_slots, tree, _ = cloud
        reading = host_reader.HostReading(
            values.managed_system(io_slots=host_slots), 'host'
        )
        command = surveys.make_survey(file, reading, tree, 'host1').plan

        service = plan_of_service(*cloud)

        self.assertEqual(command.verdicts, service.verdicts)
        self.assertEqual(list(command.entries), list(service.entries))
