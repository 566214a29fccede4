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

"""Command ``handover``."""

import argparse

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy as policies
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import cyborg_differences
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import handover as rules
from nova_powervm.tool.rules import placement_tree

_FILE = '/etc/cyborg/inventory.yaml'


class Handover(base.Lister):
    """Print the steps that hand a device over from Nova to Cyborg, or back.

    The command changes nothing. It prints which steps are done, and how to do
    the next one. A device that somebody has is never taken away: the first
    step says who has it. Run the command again after each step.

    The exit code is 0 if all steps are done, 1 if something is left to do, and
    4 if the host or Placement could not be read.
    """

    examples = """
    # Hand the device in slot C10 over to Cyborg, or back to Nova
    nova-powervm-inventory handover C10 --to cyborg
    nova-powervm-inventory handover 21010038 --to nova
    """
    trouble = 4
    as_record = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'device', metavar='DEVICE', help=host_reader.SLOT_HELP
        )
        parser.add_argument(
            '--to',
            required=True,
            choices=(rules.NOVA, rules.CYBORG),
            help='who gets the device',
        )
        base.add_file_option(parser, '--file')
        base.add_accelerators_option(parser, default=_FILE)
        parser.add_argument(
            '--resource-class',
            metavar='CLASS',
            default='',
            help='class, if neither a file nor a provider tells it',
        )
        clouds.add_cloud_option(parser)
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Listing:
        """List the steps."""
        facts = self._read(parsed_args)
        steps = rules.make_steps(facts)
        if any(step.state != rules.DONE for step in steps):
            self.status = 1
            class_ = facts.resource_class or 'CLASS'
            self.note(f'Its class: --resource-class {class_}')
        return ('Step', 'State', 'Goal', 'Why', 'Commands'), [
            [
                self.cell(value, parsed_args)
                for value in (n, s.state, s.goal, s.why or None, s.commands)
            ]
            for n, s in enumerate(steps, start=1)
        ]

    def _read(self, parsed_args: argparse.Namespace) -> rules.Facts:
        """Read everything; a service that is silent blocks its steps only."""
        reading = host_reader.read_host(self.app, parsed_args)
        slot = reading.find_slot(parsed_args.device)
        _, tree = placement_client.read_node(self.app, parsed_args)
        index = slot.drc_index
        access = parsed_args.os_cloud, self.app.config.conf
        records, flavors, device, silence = None, None, None, ''
        try:
            records = clouds.CyborgClient(*access).read()
            device = records.device(tree.node, index)
            flavors = clouds.NovaClient(*access).flavors([])
        except exception.PowerVMError as error:
            silence = str(error)
        path = parsed_args.file or self.app.config.inventory_file
        ours = {o.drc_index: o for o in tree.slot_providers}
        nova = _side(rules.NOVA, path, ours.get(index))
        path = parsed_args.accelerators
        theirs = cyborg_differences.own_providers(tree)
        cyborg = _side(rules.CYBORG, path, theirs.get(index))
        is_to_nova = parsed_args.to == rules.NOVA
        return rules.Facts(
            *((cyborg, nova) if is_to_nova else (nova, cyborg)),
            slot,
            reading.system.io_slots,
            device.uuid if device else 'UUID',
            records,
            flavors,
            silence,
            tool=self.app.own_command(parsed_args.node),
            openstack=cyborg_slots.openstack_command(parsed_args.os_cloud),
            wanted_class=parsed_args.resource_class,
        )


def _side(
    name: str, path: str, provider: placement_tree.PlacementProvider | None
) -> rules.Side:
    policy, problem = policies.Policy(), ''
    try:
        policy = inventory_file.load(path)
    except exception.PolicyInvalid as error:
        problem = ' '.join(str(error).split())
    return rules.Side(name, path, policy, problem, provider)
