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

"""Command ``flavor lint``."""

import argparse
import dataclasses
import itertools
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import profile_lint
from nova_powervm.tool.rules import setting_lint

#: Name of a flavor, name of a device profile, and a finding.
_Row = tuple[str, str, flavor_lint.Finding]
_Sources = Mapping[str, flavors.Flavor]


class Lint(base.Lister):
    """Find mistakes in flavors that request devices.

    The flavors are read from the compute API (all flavors by default), or are
    what --extra-spec says.

    Resource classes and traits are compared with the inventory file and, with
    --cloud, with the whole cloud as Placement reports it.

    The command finds traits1: instead of trait1:, PRODUCT_ID instead of
    DEVICE_ID, a missing group_policy, resourcesN:X=2, a missing OWNER_NOVA,
    devices in the unnumbered group, classes and traits that no host offers,
    locations that are not published, and groups that take Placement minutes to
    process.

    In all flavors, it finds misspellings of accel:device_profile, wrong keys
    and values that begin with powervm:, and extra specs that the driver
    refuses, such as hw:cpu_policy=dedicated and quota:... The last ones are
    errors if the flavor requests devices, and otherwise warnings, because the
    flavor may be meant for other hosts. It finds flavors whose processors
    Placement does not count as many as they are: see resources:VCPU.

    With --cyborg, the command also reads the device profiles and the devices
    of Cyborg. It finds profiles without the trait CUSTOM_POWERVM_CYBORG, which
    only slots that Cyborg offers have, profiles that request several units in
    one group, flavors that name a profile that does not exist, a missing
    group_policy for the groups of flavor and profile together, and a missing
    OWNER_NOVA for a class that Cyborg has, too (an error then). All profiles
    are checked, or those that the named flavors have.

    The exit code is 0 if there are no findings, 1 for warnings, 2 for errors,
    and 4 if the flavors could not be read.
    """

    examples = """
    # Compare all flavors of the cloud with the data in Placement
    nova-powervm-inventory flavor lint --cloud

    # Check all flavors together with the device profiles of Cyborg
    nova-powervm-inventory flavor lint --cloud --cyborg

    # Check one flavor
    nova-powervm-inventory flavor lint gpu.one

    # Check extra specs before the flavor exists
    nova-powervm-inventory flavor lint --extra-spec resources1:CUSTOM_GPU=2
    """
    trouble = exit_codes.TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'names',
            metavar='NAME',
            nargs='*',
            help='names or IDs of flavors (default: all flavors)',
        )
        parser.add_argument(
            '--extra-spec',
            action='append',
            metavar='K=V',
            help='check this extra spec instead of a flavor; can be repeated',
        )
        base.add_file_option(parser, '--file')
        parser.add_argument(
            '--cyborg',
            action='store_true',
            help='also check the device profiles of Cyborg, and what flavors '
            'have to do with them',
        )
        clouds.add_cloud_option(parser)
        parser.add_argument(
            '--cloud',
            action='store_true',
            help='also ask Placement, with the credentials in nova.conf, for '
            'the devices of this node and the classes and traits of the cloud',
        )
        placement_client.add_node_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the findings."""
        policy = base.load_inventory(self.app, parsed_args.file)
        sources = self._read(parsed_args)
        cyborg = self._read_cyborg(parsed_args)
        profiles = _choose_profiles(cyborg, sources, parsed_args)
        wanted = [*map(profile_lint.as_extra_specs, profiles)]
        specs = [flavor.extra_specs for flavor in sources.values()]
        known = dataclasses.replace(
            self._read_offers(parsed_args, policy, [*specs, *wanted]),
            cyborgs=cyborg.classes,
            publishes_locations=(
                self.app.config.settings.publish_location_traits
            ),
        )
        findings = [
            *_lint_flavors(
                sources, known, cyborg if parsed_args.cyborg else None
            ),
            *self._lint_settings(sources),
            *(
                ('', profile.name, finding)
                for profile in profiles
                for finding in profile_lint.lint_profile(
                    profile, known, cyborg
                )
            ),
        ]
        if not findings:
            also = (
                f' and {len(profiles)} device profile(s)'
                if parsed_args.cyborg
                else ''
            )
            self.note(f'No problems in {len(sources)} flavor(s){also}.')
        self._grade(finding for _, _, finding in findings)
        return _list(findings, with_profiles=parsed_args.cyborg)

    def _grade(self, findings: Iterable[flavor_lint.Finding]) -> None:
        severities = {finding.severity for finding in findings}
        if flavor_lint.Severity.ERROR in severities:
            self.exit_code = exit_codes.ERRORS
        elif flavor_lint.Severity.WARNING in severities:
            self.exit_code = exit_codes.WARNINGS

    def _read_cyborg(
        self, parsed_args: argparse.Namespace
    ) -> profile_lint.CyborgOffers:
        """Read what Cyborg offers; nothing if it shall not be asked."""
        if not parsed_args.cyborg:
            return profile_lint.CyborgOffers({})
        client = clouds.CyborgClient(
            parsed_args.os_cloud, self.app.config.conf
        )
        return profile_lint.make_offers(
            client.profiles(), client.deployables()
        )

    def _lint_settings(self, sources: _Sources) -> Iterator[_Row]:
        config = self.app.config
        for name, flavor in sources.items():
            for finding in setting_lint.lint_settings(
                flavor,
                config.settings.proc_units_factor,
                config.cpu_allocation_ratio,
            ):
                yield name, '', finding

    def _read(self, parsed_args: argparse.Namespace) -> _Sources:
        if parsed_args.extra_spec:
            if parsed_args.names:
                raise exception.ConfigurationError(
                    reason='give either names of flavors or --extra-spec'
                )
            return {
                '': flavors.Flavor(flavors.parse_pairs(parsed_args.extra_spec))
            }
        cloud = clouds.NovaClient(parsed_args.os_cloud)
        return cloud.flavors(parsed_args.names)

    def _read_offers(
        self,
        parsed_args: argparse.Namespace,
        policy: policies.Policy,
        sources: Iterable[Mapping[str, str]],
    ) -> flavor_lint.DeviceOffers:
        """Read which devices flavors can request.

        :param sources: The extra specs of the flavors; Placement is asked only
            about the classes in them.
        """
        if not parsed_args.cloud:
            return flavor_lint.offers_of_file(policy)
        placement, tree = placement_client.read_node(self.app, parsed_args)
        devices = tuple(
            flavors.DeviceRequest(name, provider.traits)
            for provider in tree.slot_providers
            for name in provider.inventory
        )
        ours = policy.resource_classes | {d.resource_class for d in devices}
        groups = [flavors.read_groups(specs) for specs in sources]
        asked = {
            name
            for group in itertools.chain(*groups)
            for name in group.resources
            if policies.may_be_device(name)
        }
        offering = {name: placement.offering(name) for name in asked - ours}
        slots = {n for n, offers in offering.items() if _has_slot(offers)}
        repeated = {
            kind
            for flavor in groups
            for kind in flavor_lint.find_repeated(flavor)
            if kind.resource_class in ours | slots
        }
        return flavor_lint.DeviceOffers(
            classes=ours | slots,
            traits=placement.associated_traits(),
            devices=devices,
            foreign=frozenset(n for n, offers in offering.items() if offers)
            - slots,
            used_up=frozenset(
                n for n, offers in offering.items() if offers == ()
            ),
            whole=True,
            source='the cloud',
            burning=frozenset(
                device.resource_class
                for device in devices
                if names.ONE_TIME_USE_TRAIT in device.traits
            ),
            free={
                kind: placement.count_free(kind.resource_class, kind.traits)
                for kind in repeated
            },
        )


def _has_slot(providers: Iterable[str] | None) -> bool:
    return any(
        names.slot_of_provider(name) is not None for name in providers or ()
    )


def _choose_profiles(
    cyborg: profile_lint.CyborgOffers,
    sources: _Sources,
    parsed_args: argparse.Namespace,
) -> list[cyborg_slots.Profile]:
    """Return all profiles, or those of the flavors that were named."""
    if not parsed_args.names and not parsed_args.extra_spec:
        return list(cyborg.profiles.values())
    named = {
        flavor.extra_specs.get(accelerators.PROFILE)
        for flavor in sources.values()
    }
    return [p for name, p in cyborg.profiles.items() if name in named]


def _lint_flavors(
    sources: _Sources,
    known: flavor_lint.DeviceOffers,
    cyborg: profile_lint.CyborgOffers | None,
) -> Iterator[_Row]:
    for name, flavor in sources.items():
        specs = flavor.extra_specs
        profile = specs.get(accelerators.PROFILE, '')
        for finding in flavor_lint.lint_flavor(specs, known):
            yield name, profile, finding
        for finding in (
            profile_lint.lint_flavor(specs, known, cyborg) if cyborg else ()
        ):
            yield name, profile, finding


def _list(findings: Iterable[_Row], *, with_profiles: bool) -> base.Listing:
    columns = ['Flavor', 'Severity', 'Extra spec', 'Problem', 'Hint']
    if with_profiles:
        columns.insert(1, 'Device Profile')
    return columns, [
        (
            name,
            *([profile] if with_profiles else []),
            str(finding.severity),
            finding.key,
            finding.problem,
            finding.hint,
        )
        for name, profile, finding in findings
    ]
