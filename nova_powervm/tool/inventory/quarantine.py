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

"""Commands ``quarantine`` and ``restore``."""

import argparse
import textwrap
from collections.abc import Callable
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import release
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import quarantining
from nova_powervm.tool.rules import releasing

_Provider = placement_tree.PlacementProvider

_QUARANTINE = """\
Take devices out of use, for example because they fail.

The provider of each device in Placement gets the trait
CUSTOM_POWERVM_QUARANTINED and one for the reason; then the device is reserved.
It is not offered any more until "restore", even if the inventory file or the
slot changes or nova-compute restarts. A device in use stays with its server.

To quarantine a one-time-use device that was not used yet burns it: afterwards
it has to be released as after a use. The command asks before that.

Reasons:

"""

_RESTORE = """\
End the quarantine of devices.

nova-compute offers them again within minutes. A one-time-use device stays
burned: clean it, and then use "release".
"""


class _Command(base.Lister):
    """Changes the named devices one after the other."""

    trouble = release.TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options that both commands have."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'which',
            metavar='SLOT|PROVIDER',
            nargs='+',
            help='DRC index of a slot, or name or uuid of its provider',
        )
        placement_client.add_node_option(parser)
        return parser

    def _connect(
        self, parsed_args: argparse.Namespace
    ) -> tuple[placement_client.PlacementClient, list[_Provider]]:
        """Return a client, and the named devices.

        :raises errors.DeviceUnchanged: A name is unknown, or is that of a
            device of Cyborg's; nothing was changed.
        """
        client = placement_client.connect_placement(
            self.app.config.conf, self.app.terminal
        )
        tree = client.tree(parsed_args.node or self.app.config.nodename)
        found = {}
        for name in parsed_args.which:
            for below in tree.below:
                if name in (below.uuid, below.name):
                    quarantining.check_ours(below)
            provider = releasing.find_provider(
                name, tree, errors.DeviceUnchanged
            )
            found[provider.uuid] = provider
        return client, list(found.values())

    def _change_all(
        self,
        chosen: Sequence[_Provider],
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
                self.status = self.status or release.REFUSED
                outcome = 'unchanged'
            except exception.PowerVMError as error:
                self.complain(f'{provider}: {error}')
                self.status = release.TROUBLE
                outcome = 'unknown'
            rows.append(
                (
                    slots.format_drc_index(provider.drc_index or 0),
                    provider.name,
                    ' '.join(sorted(provider.consumers)),
                    outcome,
                )
            )
        return ('Slot', 'Provider', 'Allocated to', 'State'), rows


class Quarantine(_Command):
    """Take devices out of use, for example because they fail."""

    examples = """
    # Do not give a failing card to anybody else
    nova-powervm-inventory quarantine 21010020 --reason FAILED
    """

    def get_description(self) -> str:
        """Return the description, including the reasons."""
        return _QUARANTINE + '\n'.join(
            textwrap.indent(f'{code}: {meaning}', '  ')
            for code, meaning in names.QUARANTINE_REASONS.items()
        )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--reason',
            required=True,
            choices=sorted(names.QUARANTINE_REASONS),
            help='why',
        )
        parser.add_argument(
            '--yes',
            action='store_true',
            help='do not ask before unused one-time-use devices are burned',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Mark and reserve the devices."""
        client, chosen = self._connect(parsed_args)
        unused = [p for p in chosen if quarantining.costs_cleaning(p)]
        if unused and not parsed_args.yes and not self._agreed(unused):
            self.status = release.REFUSED
            return self._change_all((), lambda provider: None, '')
        return self._change_all(
            chosen,
            lambda provider: quarantine(client, provider, parsed_args.reason),
            'in quarantine',
        )

    def _agreed(self, unused: Sequence[_Provider]) -> bool:
        indexes = slots.format_drc_indexes(p.drc_index or 0 for p in unused)
        words = (
            f'the one-time-use devices {indexes} were not used yet, and have '
            'to be released after their quarantine as after a use'
        )
        if not self.app.stdin.isatty():
            self.complain(f'{words}. Nothing was changed: give --yes')
            return False
        self.app.stderr.write(f'{words[0].upper()}{words[1:]}. Go on? [y/N] ')
        self.app.stderr.flush()
        return self.app.stdin.readline().strip().lower() in ('y', 'yes')


class Restore(_Command):
    """End the quarantine of devices."""

    examples = """
    # Offer a card again that was repaired
    nova-powervm-inventory restore 21010020
    """

    def get_description(self) -> str:
        """Return the description."""
        return _RESTORE

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Replace the marks of the devices."""
        client, chosen = self._connect(parsed_args)
        return self._change_all(
            chosen, lambda provider: restore(client, provider), 'restored'
        )


def quarantine(
    client: placement_client.PlacementClient, provider: _Provider, code: str
) -> None:
    """Mark a device, and then reserve it.

    :raises errors.DeviceUnchanged: Others kept changing the provider. It may
        be marked without a reserve, which nova-compute adds.
    """
    _write(
        client,
        provider,
        lambda now: quarantining.marked(now, code),
        quarantining.reserving_records,
    )


def restore(
    client: placement_client.PlacementClient, provider: _Provider
) -> None:
    """Replace the marks of a device by that of the service.

    :raises errors.DeviceUnchanged: It is not in quarantine, or others kept
        changing the provider.
    """
    _write(client, provider, quarantining.restored, lambda now: ())


def _write(
    client: placement_client.PlacementClient,
    provider: _Provider,
    traits_of: Callable[[_Provider], frozenset[str]],
    records_of: Callable[[_Provider], Sequence[tuple[str, dict[str, object]]]],
) -> None:
    """Write traits, and then inventories, each on what was just read."""
    now: _Provider | None = provider
    wanted: frozenset[str] | None = None
    for _ in range(release.TRIES):
        if now is None:
            raise errors.DeviceUnchanged(
                which=provider, reason='its provider was deleted meanwhile'
            )
        if wanted is None or not wanted <= now.traits:
            wanted = traits_of(now)
            client.write_traits(now, wanted)
        else:
            waiting = records_of(now)
            if not waiting:
                return
            client.write_inventory(now, *waiting[0])
        # Read back what was written; others may have been faster.
        now = client.provider(provider.uuid)
        if now and wanted == now.traits and not records_of(now):
            return
    raise errors.DeviceUnchanged(
        which=provider,
        reason=f'others changed it {release.TRIES} times meanwhile; try again',
    )
