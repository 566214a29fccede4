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
import json
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import flavor_client
from nova_powervm.tool.inventory import flavor_offers
from nova_powervm.tool.rules import flavor_lint

#: Exit codes; 0 means that nothing was found.
WARNINGS = 1
ERRORS = 2
TROUBLE = 4


class Lint(base.Lister):
    """Find mistakes in flavors that request devices.

    The flavors are read from the compute API (all flavors by default), from
    --extra-spec, or from standard input, either as K=V lines or as the output
    of "openstack flavor show -f json".

    Resource classes and traits are compared with the inventory file and, with
    --cloud, with the whole cloud as Placement reports it.

    The command finds traits1: instead of trait1:, PRODUCT_ID instead of
    DEVICE_ID, a missing group_policy, resourcesN:X=2, a missing OWNER_NOVA,
    devices in the unnumbered group, classes and traits that no host offers,
    and groups that take Placement minutes to process.

    In all flavors, it finds misspellings of accel:device_profile and extra
    specs that the driver refuses, such as hw:cpu_policy=dedicated and
    quota:... These are errors if the flavor requests devices, and otherwise
    warnings, because the flavor may be meant for other hosts.

    The exit code is 0 if there are no findings, 1 for warnings, 2 for errors,
    and 4 if the flavors could not be read.
    """

    examples = """
    # Compare all flavors of the cloud with the data in Placement
    nova-powervm-inventory flavor lint --cloud

    # Check one flavor
    nova-powervm-inventory flavor lint gpu.one

    # Check extra specs before the flavor exists
    nova-powervm-inventory flavor lint --extra-spec resources1:CUSTOM_GPU=2

    # Check the output of another command
    openstack flavor show gpu.one -f json |
        nova-powervm-inventory flavor lint -
    """
    trouble = TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'names',
            metavar='NAME',
            nargs='*',
            help='names or IDs of flavors, or - for standard input (default: '
            'all flavors)',
        )
        parser.add_argument(
            '--extra-spec',
            action='append',
            metavar='K=V',
            help='check this extra spec instead of a flavor; can be repeated',
        )
        parser.add_argument(
            '--file',
            metavar='FILE',
            help='inventory file (default: [powervm]inventory_file)',
        )
        flavor_client.add_cloud_option(parser)
        flavor_offers.add_offer_options(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """List the findings."""
        policy = base.load_inventory(self.app, parsed_args.file)
        sources = self._read(parsed_args)
        known = flavor_offers.read_offers(
            self.app, parsed_args, policy, sources.values()
        )
        found = [
            (name, finding)
            for name, specs in sources.items()
            for finding in flavor_lint.lint_flavor(specs, known)
        ]
        if not found:
            self.note(f'No problems in {len(sources)} flavor(s).')
        severities = {finding.severity for _, finding in found}
        if flavor_lint.Severity.ERROR in severities:
            self.status = ERRORS
        elif severities:
            self.status = WARNINGS
        return ('Flavor', 'Severity', 'Extra spec', 'Problem', 'Hint'), [
            (name, str(f.severity), f.key, f.what, f.hint) for name, f in found
        ]

    def _read(
        self, parsed_args: argparse.Namespace
    ) -> Mapping[str, Mapping[str, str]]:
        if parsed_args.extra_spec:
            if parsed_args.names:
                raise exception.ConfigurationError(
                    reason='give either names of flavors or --extra-spec'
                )
            return {'': _pairs(parsed_args.extra_spec)}
        if parsed_args.names == ['-']:
            return {'-': _parse(base.read_stdin(self.app))}
        cloud = flavor_client.FlavorClient(parsed_args.os_cloud)
        return cloud.extra_specs(parsed_args.names)


def _parse(content: bytes | str) -> Mapping[str, str]:
    """Parse extra specs from K=V lines or the JSON of the openstack client."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError as error:
        raise exception.ConfigurationError(
            reason=f'standard input is not UTF-8: byte {error.start} is '
            f'0x{error.object[error.start]:02X}'
        ) from error
    if not text.lstrip().startswith('{'):
        return _pairs(line for line in text.splitlines() if line.strip())
    try:
        document = json.loads(text)
        specs = document.get('properties', document)
        return {str(k): str(v) for k, v in specs.items()}
    except (ValueError, AttributeError) as error:
        raise exception.ConfigurationError(
            reason='standard input is not a JSON object of extra specs: '
            f'{error}'
        ) from error


def _pairs(lines: Iterable[str]) -> Mapping[str, str]:
    pairs = {}
    for line in lines:
        key, equals, value = line.strip().partition('=')
        if not equals or not key:
            raise exception.ConfigurationError(
                reason=f"'{line.strip()}' does not have the form KEY=VALUE"
            )
        pairs[key] = value
    return pairs
