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

"""Who may give back which used device (one-time use specification).

A device of a paragraph with ``one_time_use`` is kept back once it was used:
its provider's reserved equals its total. When it has been cleaned, somebody
has to lower reserved again, and the driver never does.
"""

from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool.rules import placement_tree

#: Every kind of refusal, for the help of the command.
REFUSALS = {
    'unknown': 'the host has no provider of this name, uuid or slot',
    'ambiguous': 'two providers stand for the slot: name one by its uuid',
    'foreign': 'it is not the provider of a slot',
    'allocated': 'an instance or a migration holds it',
    'withdrawn': 'the driver itself keeps it back, and gives it back itself',
    'not-one-time': 'it is not a one-time-use device; what an operator '
    'reserved the same operator gives back, with the openstack command',
    'not-burned': 'nothing of it is reserved, so there is nothing to release',
    'changed': 'it was changed again and again meanwhile',
}


def make_refusal(
    kind: str, which: str, detail: str
) -> exception.ReleaseRefused:
    """Make the error of one kind of refusal.

    :param kind: A key of :data:`REFUSALS`.
    :param which: What is refused.
    :param detail: The reason, with what is known of this one.
    """
    if kind not in REFUSALS:
        raise ValueError(kind)
    return exception.ReleaseRefused(kind=kind, which=which, reason=detail)


def find_provider(
    which: str, tree: placement_tree.Tree
) -> placement_tree.PlacementProvider:
    """Find the provider that somebody means.

    :param which: The DRC index of a slot in hex digits (``0x`` may lead), or
        a provider's name or uuid.
    :param tree: What Placement holds below the node.
    :raises exception.ReleaseRefused: None, or more than one is meant, or one
        that is not of a slot.
    """
    named = [o for o in tree.below if which in (o.uuid, o.name)]
    meant = named or [
        o for o in tree.slot_providers if o.drc_index == _index(which)
    ]
    if not meant:
        there = ', '.join(
            sorted(
                slots.format_drc_index(o.drc_index or 0)
                for o in tree.slot_providers
            )
        )
        raise make_refusal(
            'unknown',
            which,
            f'{tree.node} has no such slot or provider in Placement; its '
            f'slots are: {there or "none"}',
        )
    if len(meant) > 1:
        raise make_refusal(
            'ambiguous',
            which,
            'these providers stand for it: '
            + ', '.join(o.uuid for o in meant)
            + '. Name one by its uuid',
        )
    if meant[0] not in tree.slot_providers:
        raise make_refusal(
            'foreign', which, 'this driver did not make the provider'
        )
    return meant[0]


def _index(which: str) -> int | None:
    try:
        return int(which, 16)
    except ValueError:
        return None


def check_releasable(provider: placement_tree.PlacementProvider) -> None:
    """Refuse to release what must not be released.

    :param provider: As it is now.
    :raises exception.ReleaseRefused: Says why.
    """
    which = str(provider)
    if provider.consumers:
        raise make_refusal(
            'allocated',
            which,
            f'it is allocated to {", ".join(sorted(provider.consumers))}. '
            'Delete the instance first; a device must be cleaned between '
            'two users',
        )
    if names.WITHDRAWN_TRAIT in provider.traits:
        raise make_refusal(
            'withdrawn',
            which,
            'the driver keeps it back because its slot is not offered. '
            '"nova-powervm-inventory show" tells the reason; the driver '
            'mends it when that has gone',
        )
    if not provider.one_time_use:
        raise make_refusal(
            'not-one-time',
            which,
            'it is not a one-time-use device. If an operator has reserved '
            'it: openstack resource provider inventory set --amend '
            f'--resource {_classes(provider)}:reserved=0 {provider.uuid}',
        )
    if not provider.reserved:
        raise make_refusal(
            'not-burned', which, 'nothing of it is reserved; it is free'
        )


def _classes(provider: placement_tree.PlacementProvider) -> str:
    return next(iter(sorted(provider.inventory)), 'CLASS')


def make_released_records(
    provider: placement_tree.PlacementProvider,
) -> Sequence[tuple[str, dict[str, Any]]]:
    """Give the records of inventory that release the device.

    :param provider: One that passed :func:`check_releasable`.
    :returns: Resource class and whole record, for those that change.
    """
    return [
        (name, {**record, 'reserved': 0})
        for name, record in sorted(provider.inventory.items())
        if record.get('reserved')
    ]


def find_used_devices(
    tree: placement_tree.Tree,
) -> Sequence[placement_tree.PlacementProvider]:
    """List the devices that wait for their release, by slot."""
    waiting = (o for o in tree.slot_providers if o.needs_cleaning)
    return sorted(waiting, key=lambda o: (o.drc_index or 0, o.uuid))
