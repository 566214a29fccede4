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

"""Command ``trait purge``."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.devices import names
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import profile_lint


class Purge(base.Lister):
    """Remove the traits of slots that no provider has any more.

    The driver generates traits that begin with CUSTOM_POWERVM_IOSLOT, and
    Placement keeps each of them, also when no provider has it any more. In a
    large cloud they make Placement slow. The command removes such traits from
    Placement, and no others: not those of the inventory file, not
    CUSTOM_POWERVM_WITHDRAWN and its like. A trait that any provider has, of
    this host or another, is never removed; Placement refuses that, too.

    A trait that a flavor requires or forbids is kept: without it, Placement
    would refuse the request of each server of the flavor. So the command reads
    all flavors from the compute API, which needs the role admin, and removes
    nothing if that fails. With --cyborg, it also reads the device profiles of
    Cyborg, and keeps the traits that they name.

    nova-compute and cyborg-agent create a trait again when a provider needs
    it. So the command can run at any time, on any host, once for the cloud.

    Without --yes, the command asks for confirmation. If standard input is not
    a terminal, it changes nothing and exits with code 2.
    """

    examples = """
    # Show what would be removed, and what flavors keep
    nova-powervm-inventory trait purge --dry-run

    # Remove the traits in a script
    nova-powervm-inventory trait purge --yes
    """
    trouble = exit_codes.TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='show what would be removed, without changing anything',
        )
        parser.add_argument(
            '--yes', action='store_true', help='do not ask for confirmation'
        )
        parser.add_argument(
            '--cyborg',
            action='store_true',
            help='keep the traits that device profiles of Cyborg name, too',
        )
        clouds.add_cloud_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """Remove the unused traits, or list them."""
        placement = placement_client.connect_placement(
            self.app.config.conf, self.app.terminal
        )
        unused = sorted(
            filter(
                names.is_generated_trait,
                placement.unused_traits(names.SLOT_TRAIT_PREFIX),
            )
        )
        if not unused:
            self.note('Placement has no unused traits of slots.')
            return _list([], {}, '')
        named = self._read_named(parsed_args)
        chosen = [trait for trait in unused if trait not in named]
        if parsed_args.dry_run:
            return _list(unused, named, 'would be removed')
        question = f'Remove {len(chosen)} traits that no provider has?'
        if chosen and not parsed_args.yes and not self.is_agreed(question):
            return _list(unused, named, 'unchanged')
        gone = placement.remove_traits(chosen)
        self.note(f'{len(gone)} traits removed.')
        used = dict.fromkeys(set(chosen) - gone, 'a provider, meanwhile')
        return _list(unused, {**named, **used}, 'removed')

    def _read_named(self, parsed_args: argparse.Namespace) -> dict[str, str]:
        """Return traits with what names them, a flavor or a profile.

        :raises exception.PowerVMError: An API can't be reached.
        """
        access = parsed_args.os_cloud, self.app.config.conf
        named: dict[str, str] = {}
        if parsed_args.cyborg:
            for profile in clouds.CyborgClient(*access).profiles():
                for trait in _traits(profile_lint.as_extra_specs(profile)):
                    named[trait] = f'device profile {profile.name}'
        all_flavors = clouds.NovaClient(*access).all_flavors()
        for name, flavor in sorted(all_flavors.items()):
            for trait in _traits(flavor.extra_specs):
                named[trait] = f'flavor {name}'
        return named


def _traits(extra_specs: Mapping[str, str]) -> Iterator[str]:
    for group in flavors.read_groups(extra_specs):
        yield from group.traits


def _list(
    unused: list[str], named: Mapping[str, str], state: str
) -> base.Listing:
    return ('Trait', 'State', 'Named by'), [
        (trait, 'kept' if trait in named else state, named.get(trait, ''))
        for trait in unused
    ]
