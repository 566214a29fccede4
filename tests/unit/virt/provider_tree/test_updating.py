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

"""What an update of the provider tree writes, and when."""

import types
import unittest

from nova import objects
from nova.compute import provider_tree

from nova_powervm import exception
from nova_powervm.devices import plan as plans
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slot_providers
from nova_powervm.ops import claiming
from nova_powervm.virt.provider_tree import contents
from nova_powervm.virt.provider_tree import updating
from tests.unit.devices import values

objects.register_all()


def make_tree():
    """Make Nova's tree of a slot that Cyborg has a provider of, too."""
    tree = provider_tree.ProviderTree()
    root = tree.new_root('host1', None, generation=1)
    for name, traits in (
        (values.NAME, {'OWNER_NOVA'}),
        (
            'theirs',
            {'OWNER_CYBORG', 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020'},
        ),
    ):
        tree.new_child(name, root, generation=1)
        tree.update_inventory(name, {'CUSTOM_GPU': values.record()})
        tree.update_traits(name, traits)
    return tree


def client_of(tree):
    """Make the client of a Placement that has the same tree."""
    found = [
        {
            'uuid': data.uuid,
            'name': data.name,
            'generation': data.generation,
            'parent_provider_uuid': data.parent_uuid,
        }
        for data in map(tree.data, tree.get_provider_uuids('host1'))
    ]
    answer = types.SimpleNamespace(json=lambda: {'resource_providers': found})
    return types.SimpleNamespace(get=lambda *_, **__: answer)


class TwoOwnersTest(unittest.TestCase):
    def update(self, *, is_complete):
        """Update the providers of a slot that Nova has allocated."""
        claims = claiming.ClaimOps(None)
        claims.published = claiming.PublishedSlots(is_complete=is_complete)
        tree = make_tree()
        file = policies.Policy((values.paragraph(),), 'inventory.yaml')
        return updating.ProviderTreeUpdater(
            client_of(tree),
            types.SimpleNamespace(policy=file),
            types.SimpleNamespace(
                get_allocations=lambda asked: slot_providers.Allocations(
                    {
                        each.uuid: {values.LPAR.lower(): ['CUSTOM_GPU']}
                        for each in asked
                    }
                )
            ),
            None,
            {},
            claims,
        ).update(
            tree,
            'host1',
            types.SimpleNamespace(
                system=values.managed_system(io_slots=(values.slot(),)),
                holdings={},
                lost=frozenset(),
                stale_lpars={},
            ),
        )

    def test_only_a_starting_service_is_stopped(self):
        (entry,) = self.update(is_complete=True).entries
        self.assertIs(plans.Action.WITHDRAW, entry.action)
        with self.assertRaisesRegex(exception.OwnersDiffer, '21010020'):
            self.update(is_complete=False)


class RootInventoryTest(unittest.TestCase):
    def test_server_may_take_the_vcpu_of_all_processors(self):
        sixteen = contents.RootResource(16, 0)

        found = contents.root_inventory(
            {contents.VCPU: sixteen, contents.MEMORY_MB: sixteen},
            {contents.VCPU: 4.0, contents.MEMORY_MB: 1.5},
        )

        self.assertEqual(
            {contents.VCPU: 64, contents.MEMORY_MB: 16},
            {name: entry['max_unit'] for name, entry in found.items()},
        )
