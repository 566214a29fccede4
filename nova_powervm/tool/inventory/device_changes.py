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

"""What the commands have in common that change devices in Placement."""

import argparse
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import card_ids
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import releasing

#: Number of writes to a provider that others keep changing.
TRIES = 6
TROUBLE = 4

_Provider = placement_tree.PlacementProvider
_Records = Sequence[tuple[str, Mapping[str, Any]]]


class DeviceCommand(base.Lister):
    """Changes the named devices one after the other.

    :cvar nargs: How many devices have to be named, as for argparse.
    """

    trouble = TROUBLE
    nargs = '+'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options that all these commands have."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'which',
            metavar='SLOT|PROVIDER',
            nargs=self.nargs,
            help='DRC index of a slot, or name or uuid of its provider',
        )
        placement_client.add_node_option(parser)
        return parser

    def choose(
        self,
        which: Collection[str],
        tree: placement_tree.Tree,
        check: Callable[[_Provider], None] = lambda provider: None,
    ) -> list[_Provider]:
        """Find and check the named devices, each once.

        :returns: None of them if one is refused.
        """
        chosen: dict[str, _Provider] = {}
        refused = 0
        for name in which:
            try:
                provider = releasing.find_provider(name, tree)
                check(provider)
                chosen[provider.uuid] = provider
            except errors.DeviceUnchanged as error:
                self.complain(error)
                refused += 1
        if refused:
            self.status = base.REFUSED
            self.complain(
                f'{refused} of {len(which)} refused, so nothing was changed.'
            )
            return []
        return list(chosen.values())

    def change_all(
        self,
        chosen: Iterable[_Provider],
        change: Callable[[_Provider], None],
        state: str,
    ) -> base.Listing:
        """Change devices; an error with one does not stop the others."""
        rows = []
        for provider in chosen:
            outcome = state
            try:
                change(provider)
            except errors.DeviceUnchanged as error:
                self.complain(error)
                self.status = self.status or base.REFUSED
                outcome = 'unchanged'
            except exception.PowerVMError as error:
                self.complain(f'{provider}: {error}')
                self.status = TROUBLE
                outcome = 'unknown'
            rows.append((provider, outcome))
        return list_devices(rows)


def list_devices(rows: Iterable[tuple[_Provider, str]]) -> base.Listing:
    """Return the table of devices, each with its state."""
    return ('Slot', 'Provider', 'UUID', 'Allocated to', 'State'), [
        (
            slots.format_drc_index(provider.drc_index or 0),
            provider.name,
            provider.uuid,
            ' '.join(sorted(provider.consumers)),
            state,
        )
        for provider, state in rows
    ]


def release(
    client: placement_client.PlacementClient,
    provider: _Provider,
    io_slots: Collection[slots.Slot],
) -> None:
    """Release a device.

    :param io_slots: The slots of the host, as just read.
    :raises errors.DeviceUnchanged: It must not be released.
    """

    def decide(now: _Provider) -> tuple[frozenset[str], _Records]:
        releasing.check_releasable(now)
        releasing.check_on_host(now, io_slots)
        return now.traits, releasing.make_released_records(now)

    _change(client, provider, decide)


def quarantine(
    client: placement_client.PlacementClient, provider: _Provider, code: str
) -> None:
    """Mark a device, and then reserve it.

    The service completes a mark without a reserve, but takes a reserve without
    a mark for somebody else's.

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


def restore(
    client: placement_client.PlacementClient,
    provider: _Provider,
    io_slots: Collection[slots.Slot],
) -> None:
    """Replace the marks of a device by that of the service.

    With its own mark, the service lowers the reserve when it offers the
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
    client: placement_client.PlacementClient,
    provider: _Provider,
    io_slots: Collection[slots.Slot],
) -> None:
    """Let a provider forget its card and place, and end its quarantine.

    The service takes the ids, and with them class and traits, of the card
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
    client: placement_client.PlacementClient,
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
