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

"""Steps about the host's slots and their resource providers."""

import configparser

from demo import config
from demo import display
from demo import expected_providers
from demo import stack as stack_lib
from demo import step_context

Context = step_context.Context
Outcome = step_context.Outcome

# Two servers get three GPUs; a third server requests one of these.
_GPUS_NEEDED = 3


def show_slots(context: Context) -> Outcome:
    """Show the slots of the host, which needs free GPUs."""
    slots = context.host.slots()
    offers = expected_providers.offered(context.paragraphs, slots)
    context.gpus = offers['gpus']
    enough = f'the host has at least {_GPUS_NEEDED} free GPUs'
    return (
        {enough: True},
        {enough: len(context.gpus) >= _GPUS_NEEDED},
        display.slots(slots),
    )


def show_inventory(context: Context) -> Outcome:
    """Show the inventory file, each paragraph of which needs a free slot."""
    nova = configparser.RawConfigParser(strict=False)
    nova.read(context.stack.etc / config.NOVA)
    path = context.stack.inventory_file
    offers = expected_providers.offered(
        context.paragraphs, context.host.slots()
    )
    observed = {
        '[powervm]inventory_file': nova['powervm']['inventory_file'],
        'paragraphs that no free slot matches': [
            name for name, indexes in offers.items() if not indexes
        ],
    }
    expected = {
        '[powervm]inventory_file': str(path),
        'paragraphs that no free slot matches': [],
    }
    shown = [str(path), '', *path.read_text().splitlines(), '']
    return expected, observed, shown + display.offers(offers)


def check_provider_tree(context: Context) -> Outcome:
    """Compare the provider tree with the one that the slots should have."""
    node = context.cloud.compute_node_uuid()
    root, *children = tree = context.cloud.provider_tree(node)
    context.provider_names = {child.uuid: child.name for child in children}
    context.unused = {
        child.name: dict.fromkeys(child.inventories, 0) for child in children
    }
    expected = {'root': {'name': stack_lib.NODE, 'uuid': node}}
    for owner, paragraphs in (
        (expected_providers.NOVA, context.paragraphs),
        (expected_providers.CYBORG, context.accelerator_paragraphs),
    ):
        expected |= expected_providers.providers(
            paragraphs, context.host.slots(), stack_lib.NODE, node, owner
        )
    observed = {
        'root': {'name': root.name, 'uuid': root.uuid},
        **{child.name: child.published() for child in children},
    }
    return expected, observed, display.tree(tree)


def check_in_tree(context: Context) -> Outcome:
    """Verify that in_tree with any slot provider returns the whole tree."""
    names = context.provider_names
    whole = sorted([context.cloud.compute_node_uuid(), *names])
    observed = {
        name: context.cloud.provider_tree_uuids(uuid)
        for uuid, name in names.items()
    }
    expected = {name: whole for name in names.values()}
    uuid, name = next(iter(names.items()))
    shown = [
        f'GET /resource_providers?in_tree={uuid}  ({name})',
        *(f'  {found}' for found in observed[name]),
    ]
    return expected, observed, shown
