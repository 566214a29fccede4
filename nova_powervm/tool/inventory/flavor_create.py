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

"""Command ``flavor create``."""

import argparse
import dataclasses
import shlex
from collections.abc import Mapping
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.lpar import extra_specs
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import setting_lint

_MOST = 64
_LIMITS = '# With unified limits, for quotas:'


class Create(base.Command):
    """Create the extra specs of a flavor for PowerVM.

    Each device becomes a numbered group with its resource class, the traits
    that identify it, and OWNER_NOVA, which excludes devices of Cyborg. The
    command reads the inventory file, but not the host.

    The traits are generated from the values in the file that have no
    wildcards. Locations (drc_index, drc_name) are left out, because a flavor
    applies to many hosts.

    Extra specs that begin with powervm: are checked and added. If they say how
    much of the host's processors a server takes, the command adds
    resources:VCPU, so that Placement counts that much, by
    [DEFAULT]cpu_allocation_ratio in nova.conf.

    A comment has the command that registers a limit of the resource class
    with Keystone, for clouds with unified limits.
    """

    examples = """
    # Print the command that sets the extra specs for one device
    nova-powervm-inventory flavor create gpu.one --paragraph gpus

    # Request two devices by PCI IDs; set the extra specs with $OS_CLOUD
    nova-powervm-inventory flavor create gpu.two --device 10DE:1DB6 \\
        --count 2 --apply

    # Request four processors that no other server uses
    nova-powervm-inventory flavor create db.large --vcpus 4 \\
        --extra-spec powervm:dedicated_proc=true

    # Request a GPU and an NVMe drive; print the extra specs, one per line
    nova-powervm-inventory flavor create --print \\
        --paragraph gpus --paragraph nvme
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='NAME', nargs='?')
        parser.add_argument(
            '--paragraph',
            action='append',
            default=[],
            metavar='NAME',
            help='request a device of this paragraph; can be repeated',
        )
        parser.add_argument(
            '--device',
            metavar='VENDOR:DEVICE',
            help='request a device with these PCI IDs, for example '
            '10DE:1DB6; add --paragraph if several paragraphs match it',
        )
        parser.add_argument(
            '--count',
            type=base.parse_positive,
            default=1,
            metavar='N',
            help='number of devices of each kind (default: 1)',
        )
        parser.add_argument(
            '--extra-spec',
            action='append',
            default=[],
            metavar='K=V',
            help='add this extra spec, whose key begins with powervm:; can be '
            'repeated',
        )
        parser.add_argument(
            '--vcpus',
            type=base.parse_positive,
            metavar='N',
            help='vCPUs of the flavor, from which resources:VCPU follows '
            '(default: with --apply, those of the flavor)',
        )
        base.add_file_option(parser, '--file')
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            '--print',
            action='store_true',
            help='print the extra specs instead of a command that sets them',
        )
        how.add_argument(
            '--apply',
            action='store_true',
            help='set the extra specs of the existing flavor NAME',
        )
        clouds.add_cloud_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print or set the extra specs."""
        _check(parsed_args)
        requests: list[flavors.DeviceRequest] = []
        if parsed_args.paragraph or parsed_args.device:
            policy = base.load_inventory(self.app, parsed_args.file)
            requests = _make_requests(policy, parsed_args)
        specs = flavors.make_extra_specs(requests * parsed_args.count)
        for finding in (
            flavor_lint.lint_flavor(specs, flavor_lint.offers_of_file(policy))
            if requests
            else ()
        ):
            self.app.warn(f'{finding.problem}; {finding.hint}')
        specs |= _own_extra_specs(parsed_args.extra_spec)
        cloud, existing = None, None
        if parsed_args.apply:
            cloud = clouds.NovaClient(parsed_args.os_cloud)
            (existing,) = cloud.flavors([parsed_args.name]).values()
        specs |= self._charge(specs, parsed_args.vcpus, existing)
        if cloud and existing:
            self._apply(cloud, parsed_args.name, existing, specs)
        elif parsed_args.print:
            for key, value in specs.items():
                print(f'{key}={value}', file=self.app.stdout)
        else:
            print(_command(parsed_args.name, specs), file=self.app.stdout)
            if requests:
                print(_LIMITS, file=self.app.stdout)
            for resource_class in sorted({r.resource_class for r in requests}):
                print(_limit(resource_class), file=self.app.stdout)
        return 0

    def _charge(
        self,
        specs: Mapping[str, str],
        vcpus: int | None,
        existing: flavors.Flavor | None,
    ) -> dict[str, str]:
        """Return the override of VCPU, if the extra specs imply one.

        :raises exception.ConfigurationError: An extra spec is refused.
        """
        flavor = existing or flavors.Flavor({})
        flavor = dataclasses.replace(
            flavor,
            extra_specs={**flavor.extra_specs, **specs},
            vcpus=vcpus or flavor.vcpus,
        )
        config = self.app.config
        known = config.settings.proc_units_factor, config.cpu_allocation_ratio
        for finding in setting_lint.lint_settings(flavor, *known):
            if finding.severity is flavor_lint.Severity.ERROR:
                raise exception.ConfigurationError(
                    reason=f'{finding.key}: {finding.problem}: {finding.hint}'
                )
        charge = setting_lint.find_charge(flavor, *known)
        return {} if charge is None else {setting_lint.CHARGE: str(charge)}

    def _apply(
        self,
        cloud: clouds.NovaClient,
        name: str,
        existing: flavors.Flavor,
        specs: Mapping[str, str],
    ) -> None:
        hindering = flavors.find_conflicting_keys(existing.extra_specs, specs)
        if hindering:
            unset = ' '.join(f'--property {shlex.quote(k)}' for k in hindering)
            raise exception.ConfigurationError(
                reason=f'flavor {name} already has groups, which would be '
                'requested in addition. Remove them first: '
                f'openstack flavor unset {shlex.quote(name)} {unset}'
            )
        cloud.set_extra_specs(name, specs)
        print(
            f'Set {len(specs)} extra specs of flavor {name}.',
            file=self.app.stdout,
        )


def _own_extra_specs(lines: Sequence[str]) -> dict[str, str]:
    """Parse extra specs of this driver.

    :raises exception.ConfigurationError: One is not of this driver.
    """
    pairs = flavors.parse_pairs(lines)
    for key in pairs:
        if not key.startswith(extra_specs.PREFIX):
            raise exception.ConfigurationError(
                reason=f"'{key}' does not begin with {extra_specs.PREFIX}: "
                'set it with "openstack flavor set --property"'
            )
    return pairs


def _check(parsed_args: argparse.Namespace) -> None:
    if not parsed_args.name and not parsed_args.print:
        raise exception.ConfigurationError(
            reason='name the flavor, or use --print'
        )
    if parsed_args.count > _MOST:
        raise exception.ConfigurationError(
            reason=f'--count: a flavor can request up to {_MOST} devices'
        )
    if not (
        parsed_args.paragraph or parsed_args.device or parsed_args.extra_spec
    ):
        raise exception.ConfigurationError(
            reason='say which devices with --paragraph or --device, or which '
            'extra specs with --extra-spec'
        )


def _make_requests(
    policy: policies.Policy, parsed_args: argparse.Namespace
) -> list[flavors.DeviceRequest]:
    if not parsed_args.paragraph:
        return [flavors.request_for_device(policy, parsed_args.device)]
    return [
        flavors.request_for_paragraph(policy, name, parsed_args.device)
        for name in parsed_args.paragraph
    ]


def _limit(resource_class: str) -> str:
    """Return the command that limits a class, as a comment of the shell.

    Whoever pipes the output to a shell only wants the flavor.
    """
    return (
        '# openstack registered limit create --service nova '
        '--region "$OS_REGION_NAME" --default-limit 0 '
        f'class:{resource_class}'
    )


def _command(name: str, specs: Mapping[str, str]) -> str:
    lines = [f'openstack flavor set {shlex.quote(name)}']
    lines += [f'    --property {k}={v}' for k, v in specs.items()]
    return ' \\\n'.join(lines)
