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

"""What the steps of a hand-over depend on."""

import dataclasses
import enum
import re
from collections.abc import Mapping

import os_traits

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.tool.rules import cyborg_differences
from nova_powervm.tool.rules import cyborg_records
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import file_edits
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import placement_tree
from nova_powervm.tool.rules import profile_lint

#: Why a step that needs the class has to wait.
CLASS_UNKNOWN = (
    'neither a file nor a provider tells the resource class of the device: '
    'name it with --resource-class'
)

_MODEL = ('vendor_id', 'device_id')


class Manager(enum.StrEnum):
    """Who manages a slot."""

    NOVA = 'nova'
    CYBORG = 'cyborg'


@dataclasses.dataclass(frozen=True, slots=True)
class Cloud:
    """What the APIs for users tell.

    :param cyborg: The records of Cyborg, and which servers do not exist; None
        if Cyborg did not answer.
    :param cyborg_problem: Why it did not.
    :param flavors: Name to extra specs of all flavors; None if Nova's API did
        not answer.
    :param flavors_problem: Why it did not.
    :param gone: Uuids of consumers that are no servers.
    :param image: Name of an image for a new server; empty without one.
    :param network: Name of a network for it; empty without one.
    """

    cyborg: cyborg_slots.CyborgFacts | None = None
    cyborg_problem: str = ''
    flavors: Mapping[str, Mapping[str, str]] | None = None
    flavors_problem: str = ''
    gone: frozenset[str] = frozenset()
    image: str = ''
    network: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Everything about one slot.

    :param to: Who gets the slot.
    :param slot: The slot.
    :param io_slots: All slots of the host.
    :param tree: The providers of the compute node.
    :param nova: Nova's inventory file.
    :param cyborg: Cyborg's file.
    :param cloud: What the APIs for users tell.
    :param tool: This program with its options, for commands.
    :param node_option: Option that names the compute node, after a space;
        empty without one.
    :param openstack: The command ``openstack`` with its options.
    :param wanted_class: Class for a device that neither a file nor a provider
        gives one; empty if the user names none.
    :param begin: The command that judged the steps, without a class; empty
        for one without more options.
    """

    to: Manager
    slot: slots.Slot
    io_slots: tuple[slots.Slot, ...]
    tree: placement_tree.Tree
    nova: file_edits.SlotFile
    cyborg: file_edits.SlotFile
    cloud: Cloud = dataclasses.field(default_factory=Cloud)
    tool: str = 'nova-powervm-inventory'
    node_option: str = ''
    openstack: str = 'openstack'
    wanted_class: str = ''
    begin: str = ''

    def own_command(self, words: str) -> str:
        """Return a command of this program.

        :param words: The command's name and its arguments.
        """
        return f'{self.tool} {words}{self.node_option}'

    @property
    def class_option(self) -> str:
        """The option that keeps the class when nothing else tells it."""
        return f'--resource-class {self.resource_class or "CLASS"}'

    @property
    def again(self) -> str:
        """The command that judges the steps again."""
        begin = self.begin or self.own_command(
            f'handover {self.index} --to {self.to}'
        )
        return f'{begin} {self.class_option}'

    @property
    def index(self) -> str:
        """DRC index of the slot."""
        return self.slot.drc_hex

    @property
    def nova_provider(self) -> placement_tree.PlacementProvider | None:
        """Nova's provider of the slot."""
        for provider in self.tree.slot_providers:
            if provider.drc_index == self.slot.drc_index:
                return provider
        return None

    @property
    def cyborg_provider(self) -> placement_tree.PlacementProvider | None:
        """Cyborg's provider of the slot."""
        own = cyborg_differences.own_providers(self.tree)
        return own.get(self.slot.drc_index)

    @property
    def nova_paragraph(self) -> policies.Paragraph | None:
        """The paragraph of Nova's file that gives the slot to Nova."""
        return self.nova.giving(self.slot, self.io_slots)

    @property
    def cyborg_paragraph(self) -> policies.Paragraph | None:
        """The paragraph of Cyborg's file that gives the slot to Cyborg."""
        return self.cyborg.giving(self.slot, self.io_slots)

    @property
    def device(self) -> cyborg_records.Device | None:
        """The device in Cyborg."""
        if self.cloud.cyborg is None:
            return None
        return self.cloud.cyborg.records.device(
            self.tree.node, self.slot.drc_index
        )

    @property
    def requests(self) -> tuple[cyborg_records.Request, ...]:
        """The accelerator requests that are bound to the slot."""
        provider = self.cyborg_provider
        if self.cloud.cyborg is None or provider is None:
            return ()
        return self.cloud.cyborg.records.requests_of(provider.uuid)

    @property
    def owner_consumer(self) -> str | None:
        """The instance whose LPAR owns the slot, as far as Placement knows."""
        return self.tree.instance_lpars.get(self.slot.owner_lpar)

    @property
    def model_traits(self) -> tuple[str, ...]:
        """The traits of the device's type, for profiles and flavors."""
        values = (
            (key, policies.PROPERTIES[key].value_in(self.slot))
            for key in _MODEL
        )
        return tuple(names.property_trait(k, v) for k, v in values if v)

    @property
    def resource_class(self) -> str:
        """The class that the device gets, or else the one that it has.

        Empty if it is unknown.
        """
        sides = [
            (self.cyborg_provider, self.cyborg),
            (self.nova_provider, self.nova),
        ]
        if self.to is Manager.NOVA:
            sides.reverse()
        for provider, file in sides:
            if provider and provider.inventory:
                return min(provider.inventory)
            verdict = file.judge(self.slot, self.io_slots)
            if verdict and verdict.paragraphs:
                return verdict.paragraphs[0].resource_class
        return self.wanted_class

    @property
    def noun(self) -> str:
        """A word for the device, for names of profiles and flavors."""
        word = self.resource_class.removeprefix('CUSTOM_').lower() or 'device'
        return re.sub('[^a-z0-9]+', '-', word).strip('-')

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the device profiles that can get the device."""
        if self.cloud.cyborg is None:
            return ()
        slot = cyborg_records.Deployable(
            '', '', self.resource_class, self._traits(Manager.CYBORG)
        )
        return tuple(
            profile.name
            for profile in self.cloud.cyborg.records.profiles
            if _requests(profile, slot)
        )

    @property
    def profile_flavors(self) -> tuple[str, ...]:
        """Names of the flavors that name such a profile."""
        return tuple(
            name
            for name, specs in (self.cloud.flavors or {}).items()
            if specs.get(accelerators.PROFILE) in self.profiles
        )

    @property
    def slot_flavors(self) -> tuple[str, ...]:
        """Names of the flavors that can get the device from Nova."""
        traits = self._traits(Manager.NOVA) | {os_traits.OWNER_NOVA}
        return tuple(
            name
            for name, specs in (self.cloud.flavors or {}).items()
            for group in flavors.read_groups(specs)
            if dict(group.resources) == {self.resource_class: '1'}
            and os_traits.OWNER_NOVA in group.required
            and group.required <= traits
        )

    def _traits(self, manager: Manager) -> frozenset[str]:
        """Return the traits that a provider has, or would have."""
        provider, paragraph = (
            (self.cyborg_provider, self.cyborg_paragraph)
            if manager is Manager.CYBORG
            else (self.nova_provider, self.nova_paragraph)
        )
        if provider:
            return provider.traits
        return names.generated_traits(self.slot) | frozenset(
            paragraph.traits if paragraph else ()
        )


def _requests(
    profile: cyborg_records.Profile, slot: cyborg_records.Deployable
) -> bool:
    return any(
        names.CYBORG_TRAIT in group.required
        and set(group.resources.values()) == {'1'}
        and group.is_met_by(slot)
        for group in profile_lint.read_groups(profile)
    )
