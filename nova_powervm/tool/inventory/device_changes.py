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

"""Changes of a device in Placement, each on what was just read."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

#: Number of writes to a provider that others keep changing.
TRIES = 6

_Client = placement_client.PlacementClient
_Provider = placement_tree.Provider
_Slots = Collection[slots.Slot]
_Records = Sequence[tuple[str, Mapping[str, Any]]]


def release(client: _Client, provider: _Provider, io_slots: _Slots) -> None:
    """Release a device.

    :param io_slots: The slots of the host, as just read.
    :raises errors.DeviceUnchanged: It must not be released.
    """

    def decide(now: _Provider) -> tuple[frozenset[str], _Records]:
        releasing.check_release(now, io_slots)
        return now.traits, releasing.make_released_records(now)

    _change(client, provider, decide)


def quarantine(client: _Client, provider: _Provider, code: str) -> None:
    """Mark a device, and then reserve it.

    nova-compute completes a mark without a reserve, but takes a reserve
    without a mark for somebody else's.

    :param code: One of :data:`names.OPERATOR_REASONS`, which replaces
        another one of these.
    :raises errors.DeviceUnchanged: Others kept changing the provider. It may
        be marked without a reserve, which nova-compute adds.
    """

    def decide(now: _Provider) -> tuple[frozenset[str], _Records]:
        others = _marks(now) - names.REPLACED_TRAITS
        kept = now.traits - others - {names.WITHDRAWN_TRAIT}
        marked = kept | {names.QUARANTINED_TRAIT, names.quarantine_trait(code)}
        return marked, [
            (name, {**record, 'reserved': record['total']})
            for name, record in sorted(now.inventory.items())
            if record.get('reserved', 0) < record['total']
        ]

    _change(client, provider, decide)


def restore(client: _Client, provider: _Provider, io_slots: _Slots) -> None:
    """Replace the marks of a device by that of nova-compute.

    With its own mark, nova-compute lowers the reserve when it offers the
    device. A one-time-use device stays reserved, which is a burn.

    :param io_slots: The slots of the host, as just read.
    :raises errors.DeviceUnchanged: It is not in quarantine, or another card
        is in its slot.
    """
    if not _marks(provider):
        raise errors.DeviceUnchanged(
            which=provider, reason='it is not in quarantine'
        )

    def decide(now: _Provider) -> tuple[frozenset[str], _Records]:
        releasing.check_same_card(now, io_slots)
        return _restored(now), ()

    _change(client, provider, decide)


def accept_card(
    client: _Client, provider: _Provider, io_slots: _Slots
) -> None:
    """Let a provider forget its card and place, and end its quarantine.

    nova-compute takes the ids, and with them class and traits, of the card
    that is there now. A one-time-use device stays reserved.

    :param io_slots: The slots of the host, as just read.
    :raises errors.DeviceUnchanged: No other card is in its slot.
    """

    def decide(now: _Provider) -> tuple[frozenset[str], _Records]:
        releasing.check_new_card(now, io_slots)
        known = card_ids.select_traits(now.traits) | card_ids.select_place(
            now.traits
        )
        return _restored(now) - known, ()

    _change(client, provider, decide)


def _restored(provider: _Provider) -> frozenset[str]:
    """Return the traits of a provider after its quarantine, if it is in one.

    A reserve of somebody else's stays.
    """
    marks = _marks(provider)
    if provider.one_time_use or not marks:
        return provider.traits - marks
    return provider.traits - marks | {names.WITHDRAWN_TRAIT}


def _marks(provider: _Provider) -> frozenset[str]:
    return names.quarantine_traits(provider.traits)


def _change(
    client: _Client,
    provider: _Provider,
    decide: Callable[[_Provider], tuple[frozenset[str], _Records]],
) -> None:
    """Write traits, and then inventories, each on what was just read.

    :param decide: Returns the traits that a provider should have, and the
        records that have to be written.
    """
    for _ in range(TRIES):
        # A write needs all of it, and changes its generation.
        now = client.provider(provider.uuid)
        if now is None:
            raise errors.DeviceUnchanged(
                which=provider, reason='its provider was deleted meanwhile'
            )
        traits, records = decide(now)
        if traits != now.traits:
            is_written = client.write_traits(now, traits)
        elif records:
            is_written = client.write_inventory(now, *records[0])
            records = records[1:]
        else:
            return
        if is_written and not records:
            return
    raise errors.DeviceUnchanged(
        which=provider,
        reason=f'others changed it {TRIES} times meanwhile; try again',
    )
