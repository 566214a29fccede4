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

"""Command ``handover``: steps that give a slot to Cyborg, or back to Nova.

None of them costs a device or a guest.
"""

import argparse
import dataclasses
import shlex
from collections.abc import Mapping

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import accelerators
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.tool import exit_codes
from nova_powervm.tool.inventory import base
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import placement_tree

_FILE = '/etc/cyborg/inventory.yaml'
NOVA, CYBORG = 'nova', 'cyborg'
DONE, TO_DO, BLOCKED = 'done', 'to do', 'blocked'
_SHOW = 'show --slot INDEX --long --cyborg'


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What a service has of the slot: its file, and its provider."""

    name: str
    path: str
    policy: policies.Policy
    problem: str = ''
    provider: placement_tree.Provider | None = None

    @property
    def service(self) -> str:
        """The service that reads the file and makes the provider."""
        return {NOVA: 'nova-compute', CYBORG: 'cyborg-agent'}[self.name]

    @property
    def is_offered(self) -> bool:
        """Whether a new server can get the device."""
        provider = self.provider
        return provider is not None and not (
            provider.reserved or names.WITHDRAWN_TRAIT in provider.traits
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Everything about one slot.

    :param giver: Who shall not have it any more; the taker shall.
    :param records: What Cyborg knows; None if it did not answer.
    :param offered: Flavors by name; None if Nova did not answer.
    :param silence: Why one of the two did not answer.
    :param tool: This program with its options, and those of its commands.
    :param wanted_class: Class for a device that nothing else gives one.
    """

    giver: Side
    taker: Side
    slot: slots.Slot
    io_slots: tuple[slots.Slot, ...]
    device_uuid: str = 'UUID'
    records: cyborg_slots.Records | None = None
    offered: Mapping[str, flavors.Flavor] | None = None
    silence: str = ''
    tool: tuple[str, str] = ('nova-powervm-inventory', '')
    openstack: str = 'openstack'
    wanted_class: str = ''

    def judge(self, side: Side) -> matching.Verdict:
        """Return what a file says about the slot."""
        verdicts = matching.judge(side.policy, self.io_slots)
        return next(v for v in verdicts if v.slot == self.slot)

    @property
    def resource_class(self) -> str:
        """The class that the device gets, or has; empty if it is unknown."""
        for side in (self.taker, self.giver):
            if side.provider and side.provider.inventory:
                return min(side.provider.inventory)
            if paragraphs := self.judge(side).paragraphs:
                return paragraphs[0].resource_class
        return self.wanted_class

    def own(self, words: str) -> str:
        """Return a command of this program, with INDEX replaced."""
        words = words.replace('INDEX', self.slot.drc_hex)
        return f'{self.tool[0]} {words}{self.tool[1]}'

    def device(self, verb: str) -> str:
        """Return the command that disables or enables the device."""
        return f'{self.openstack} accelerator device {verb} {self.device_uuid}'


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step: what is so once it is done, and what is to be done."""

    goal: str
    state: str = DONE
    why: str = ''
    commands: tuple[str, ...] = ()


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
    trouble = exit_codes.TROUBLE
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
            choices=(NOVA, CYBORG),
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
        steps = make_steps(facts)
        if any(step.state != DONE for step in steps):
            self.exit_code = exit_codes.UNFINISHED
            class_ = facts.resource_class or 'CLASS'
            self.note(f'Its class: --resource-class {class_}')
        return ('Step', 'State', 'Goal', 'Why', 'Commands'), [
            [
                self.cell(value, parsed_args)
                for value in (n, s.state, s.goal, s.why or None, s.commands)
            ]
            for n, s in enumerate(steps, start=1)
        ]

    def _read(self, parsed_args: argparse.Namespace) -> Facts:
        """Read everything; a service that is silent blocks its steps only."""
        reading = host_reader.read_host(self.app, parsed_args)
        slot = reading.find_slot(parsed_args.device)
        _, tree = placement_client.read_node(self.app, parsed_args)
        index = slot.drc_index
        access = parsed_args.os_cloud, self.app.config.conf
        records, offered, device, silence = None, None, None, ''
        try:
            records = clouds.CyborgClient(*access).read()
            device = records.device(tree.node, index)
            offered = clouds.NovaClient(*access).flavors([])
        except exception.PowerVMError as error:
            silence = str(error)
        path = parsed_args.file or self.app.config.inventory_file
        ours = {p.drc_index: p for p in tree.slot_providers}
        nova = _side(NOVA, path, ours.get(index))
        path = parsed_args.accelerators
        theirs = cyborg_slots.own_providers(tree)
        cyborg = _side(CYBORG, path, theirs.get(index))
        is_to_nova = parsed_args.to == NOVA
        return Facts(
            *((cyborg, nova) if is_to_nova else (nova, cyborg)),
            slot,
            reading.system.io_slots,
            device.uuid if device else 'UUID',
            records,
            offered,
            silence,
            tool=self._own_command(parsed_args.node),
            openstack=cyborg_slots.openstack_command(parsed_args.os_cloud),
            wanted_class=parsed_args.resource_class,
        )

    def _own_command(self, node: str | None) -> tuple[str, str]:
        """Return this program with its options, and the option for a node."""
        words = [self.app.NAME]
        for path in self.app.options.config_files or ():
            words += ['--config-file', path]
        for path in self.app.options.config_dirs or ():
            words += ['--config-dir', path]
        option = f' --node {shlex.quote(node)}' if node else ''
        return shlex.join(words), option


def _side(
    name: str, path: str, provider: placement_tree.Provider | None
) -> Side:
    policy, problem = policies.Policy(), ''
    try:
        policy = inventory_file.load(path)
    except exception.PolicyInvalid as error:
        problem = ' '.join(str(error).split())
    return Side(name, path, policy, problem, provider)


def make_steps(facts: Facts) -> tuple[Step, ...]:
    """Return the steps in their order; each waits for those before it."""
    steps: list[Step] = []
    first = 0
    for number, judge in enumerate(_JUDGES, start=1):
        step = judge(facts)
        if first and step.state != DONE:
            step = Step(step.goal, BLOCKED, f'after step {first}')
        elif step.state != DONE:
            first = number
        steps.append(step)
    return tuple(steps)


def _freed(facts: Facts) -> Step:
    """Say who has the device; never what to delete."""
    goal = 'No server or partition has the device, and none can get it'
    side, provider, slot = facts.giver, facts.giver.provider, facts.slot
    holders = sorted(provider.consumers) if provider else []
    if provider and side.name == CYBORG:
        if facts.records is None:
            return Step(goal, BLOCKED, f'first ask again: {facts.silence}')
        if side.is_offered:
            command = facts.device('disable')
            return Step(goal, TO_DO, 'first disable it', (command,))
        requests = facts.records.requests_of(provider.uuid)
        holders += [f'accelerator request {each.uuid}' for each in requests]
    taken = facts.taker.provider.consumers if facts.taker.provider else ()
    theirs = {partition.lpar_uuid(consumer) for consumer in taken}
    if slot.owner and slot.owner_lpar not in theirs:
        holders.append(str(slot.owner))
    if holders:
        why = (
            f'first free it: {" and ".join(holders)} has it. The command '
            'tells whether that is a server, a move or a leftover. Save the '
            'data of a server before it gives the device back'
        )
        return Step(goal, BLOCKED, why, (facts.own(_SHOW),))
    if provider and provider.one_time_use and provider.reserved:
        command = facts.own('release INDEX')
        why = 'first clean it: Cyborg gives it on after each use'
        return Step(goal, TO_DO, why, (command,))
    duplicated = slots.duplicated_indexes(facts.io_slots)
    reason = slots.reason_unavailable(slot, theirs, duplicated)
    return Step(goal, BLOCKED, str(reason)) if reason else Step(goal)


def _left_out(facts: Facts) -> Step:
    side, verdict = facts.giver, facts.judge(facts.giver)
    goal = f'{side.path} leaves the slot out'
    if side.problem:
        return Step(goal, BLOCKED, side.problem)
    # A running service refuses a file that has lost its last paragraph.
    lost_all = side.provider and not side.policy.paragraphs
    if (not verdict.paragraphs or verdict.denials) and not lost_all:
        return Step(goal)
    return _addition(facts, side, goal, 'not', 'allow: false')


def _identified(facts: Facts) -> Step:
    side, verdict = facts.taker, facts.judge(facts.taker)
    goal = f'{side.path} identifies the slot'
    if side.problem:
        return Step(goal, BLOCKED, side.problem)
    if verdict.denials:
        which = ' and '.join(map(str, verdict.denials))
        return Step(goal, TO_DO, f'remove or narrow {which}, which denies it')
    for paragraph in verdict.paragraphs:
        if side.name == CYBORG and paragraph.one_time_use:
            why = f'remove one_time_use from {paragraph}'
            return Step(goal, TO_DO, why)
        return Step(goal, why=f'{paragraph}: {paragraph.resource_class}')
    if not facts.resource_class:
        why = 'name the class of the device with --resource-class'
        return Step(goal, BLOCKED, why)
    setting = f'resource_class: {facts.resource_class}'
    return _addition(facts, side, goal, 'slot', setting)


def _addition(
    facts: Facts, side: Side, goal: str, prefix: str, setting: str
) -> Step:
    """Return the step that adds a paragraph for this slot of this host."""
    slot = facts.slot
    lines = ['', f'{prefix}-{slot.drc_hex}:', '  identification:']
    lines += [f'    drc_index: "{slot.drc_hex}"']
    # A file can be for many hosts, whose DRC indexes repeat.
    lines += [f'    drc_name: "{slot.drc_name}"'] if slot.drc_name else []
    text = ' '.join(map(shlex.quote, [*lines, f'  {setting}']))
    command = f"printf '%s\\n' {text} >> {shlex.quote(side.path)}"
    why = f'add a paragraph; {side.service} reads the file again'
    return Step(goal, TO_DO, why, (command,))


def _gone(facts: Facts) -> Step:
    service, provider = facts.giver.service, facts.giver.provider
    goal = f'The provider that {service} has made is gone'
    if provider is None:
        return Step(goal)
    withheld = names.WITHDRAWN_TRAIT in provider.traits
    if facts.giver.name == CYBORG and withheld and provider.reserved:
        why = 'enable it, withheld as it is: a disabled one is kept'
        return Step(goal, TO_DO, why, (facts.device('enable'),))
    return Step(goal, TO_DO, f'wait for {service}, up to five minutes')


def _offered(facts: Facts) -> Step:
    side, provider = facts.taker, facts.taker.provider
    goal = f'{side.service} offers the slot in Placement'
    if side.is_offered or (provider and provider.consumers):
        return Step(goal)
    if side.name == CYBORG and provider and provider.reserved:
        return Step(goal, TO_DO, 'enable it', (facts.device('enable'),))
    why = f'wait for {side.service}, up to five minutes; the command says why'
    return Step(goal, TO_DO, why, (facts.own(_SHOW),))


def _requested(facts: Facts) -> Step:
    goal = f'A flavor requests such a device from {facts.taker.name.title()}'
    if facts.offered is None or facts.records is None:
        return Step(goal, BLOCKED, f'first ask again: {facts.silence}')
    mark = f'trait:{names.CYBORG_TRAIT}'
    wanted = {f'resources:{facts.resource_class}': '1', mark: 'required'}
    profiles = [
        profile.name
        for profile in facts.records.profiles
        if any(wanted.items() <= group.items() for group in profile.groups)
    ]
    for name, flavor in facts.offered.items():
        groups = flavors.read_groups(flavor.extra_specs)
        fits = any(facts.resource_class in each.resources for each in groups)
        if facts.taker.name == CYBORG:
            fits = flavor.extra_specs.get(accelerators.PROFILE) in profiles
        if fits:
            return Step(goal, why=f'flavor {name}')
    commands = [f'{facts.tool[0]} flavor create NAME --paragraph ... --apply']
    if facts.taker.name == CYBORG:
        group = ','.join(f'{key}={value}' for key, value in wanted.items())
        profile = (*profiles, 'PROFILE')[0]
        commands = [
            f'{facts.openstack} accelerator device profile create {profile} '
            f'--group {group}',
            f'{facts.openstack} flavor set NAME --property '
            f'{accelerators.PROFILE}={profile}',
        ][bool(profiles) :]
    return Step(goal, TO_DO, 'choose the names', tuple(commands))


_JUDGES = (_freed, _left_out, _gone, _identified, _offered, _requested)
