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
import textwrap
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import flavor_client
from nova_powervm.tool.inventory import handover_reader
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import handover as rules
from nova_powervm.tool.rules import handover_facts
from nova_powervm.tool.rules import handover_step

LEFT = 1
TROUBLE = 4

_ACCELERATORS = '/etc/cyborg/inventory.yaml'
_WIDTH = 76
_MARGIN = ' ' * 13


class Handover(base.Lister):
    """Print the steps that hand a device over from Nova to Cyborg, or back.

    Nova's API refuses a resize from a flavor with slots to a flavor with a
    device profile, and the other way round. A device therefore has to be free
    before its manager can change.

    The command changes nothing. It looks at the host, both files, Placement,
    Nova and Cyborg, and prints for each step whether it is done, can be done
    now, or is blocked, and why. The commands under a step that can be done are
    complete. After each step, run the command that is printed at the end: its
    option --resource-class keeps the class of the device, which nothing else
    tells once the paragraph and the provider are gone.

    The exit code is 0 if all steps are done, 1 if something is left to do, and
    4 if the host or Placement could not be read.
    """

    examples = """
    # Hand the device in slot C10 over to Cyborg
    nova-powervm-inventory handover C10 --to cyborg

    # Hand it back to Nova
    nova-powervm-inventory handover 21010038 --to nova

    # In a script: wait for what services do by themselves
    nova-powervm-inventory handover C10 --to cyborg -f json
    """
    trouble = TROUBLE

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of this command."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'device',
            metavar='DEVICE',
            help='DRC index of the slot, its location code, or the end of the '
            'location code (C3, P1-C3)',
        )
        parser.add_argument(
            '--to',
            required=True,
            choices=[str(manager) for manager in handover_facts.Manager],
            help='who gets the device',
        )
        parser.add_argument(
            '--file',
            metavar='FILE',
            help="Nova's inventory file (default: [powervm]inventory_file)",
        )
        parser.add_argument(
            '--accelerators',
            metavar='FILE',
            default=_ACCELERATORS,
            help='file of the slots that Cyborg manages (default: '
            f'{_ACCELERATORS})',
        )
        parser.add_argument(
            '--resource-class',
            metavar='CLASS',
            default='',
            help='class for a device that neither a file nor a provider gives '
            'one; needed once Placement has no provider of it any more',
        )
        parser.set_defaults(formatter=None)
        for action in parser._actions:  # noqa: SLF001 - no other way
            if action.dest == 'formatter':
                action.help = 'output format (default: a list of steps)'
        flavor_client.add_cloud_option(parser)
        host_reader.add_host_options(parser)
        placement_client.add_node_option(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the steps as text, or the list in the selected format."""
        if parsed_args.formatter:
            return super().run(parsed_args)
        return self.guarded(self._report, parsed_args)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """List the steps."""
        _, steps = self._judge(parsed_args)
        return ('Step', 'State', 'Goal', 'Why', 'Commands'), [
            [
                self.cell(value, parsed_args)
                for value in (
                    number,
                    str(step.state),
                    step.goal,
                    step.why or None,
                    list(step.commands),
                )
            ]
            for number, step in enumerate(steps, start=1)
        ]

    def _report(self, parsed_args: argparse.Namespace) -> int:
        facts, steps = self._judge(parsed_args)
        print(
            f'Hand-over of {facts.slot} of {facts.tree.node} to '
            f'{parsed_args.to.capitalize()}:',
            file=self.app.stdout,
        )
        for number, step in enumerate(steps, start=1):
            for line in format_step(number, step):
                print(line, file=self.app.stdout)
        if self.status == LEFT:
            print(f'\nRun again: {facts.again}', file=self.app.stdout)
        return self.status

    def _judge(
        self, parsed_args: argparse.Namespace
    ) -> tuple[handover_facts.Facts, tuple[handover_step.Step, ...]]:
        facts = handover_reader.read_facts(self.app, parsed_args)
        steps = rules.make_steps(facts)
        if any(step.state is not handover_step.State.DONE for step in steps):
            self.status = LEFT
        return facts, steps


def format_step(number: int, step: handover_step.Step) -> Iterator[str]:
    """Format one step; its commands are not wrapped.

    :param number: Its number, from 1.
    :param step: The step.
    """
    yield ''
    yield f'{f"[{step.state}]":9} {number}. {step.goal}'
    yield from textwrap.wrap(
        step.why,
        _WIDTH,
        initial_indent=_MARGIN,
        subsequent_indent=_MARGIN,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for command in step.commands:
        yield f'{_MARGIN}$ {command}'
