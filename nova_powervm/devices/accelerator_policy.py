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


"""What Cyborg's file of slots allows, and where Nova's file contradicts it.

Cyborg's file has the form of Nova's inventory file and the same rules, with
one more: a device that is withheld after its first use needs Nova.
"""

import dataclasses
from collections.abc import Collection

from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots


@dataclasses.dataclass(frozen=True, slots=True)
class SharedSlot:
    """A slot that both files give away; each service then withholds it.

    :param slot: The slot.
    :param paragraph: The paragraph of Cyborg's file that identifies it.
    :param nova_paragraph: That of Nova's inventory file.
    """

    slot: slots.Slot
    paragraph: policies.Paragraph
    nova_paragraph: policies.Paragraph


def one_time_use_paragraphs(
    policy: policies.Policy,
) -> tuple[policies.Paragraph, ...]:
    """Return the paragraphs that Cyborg's file must not have.

    Cyborg offers a device again as soon as its server is deleted, so it cannot
    keep a one-time-use device out of reach.

    :param policy: The content of Cyborg's file.
    :returns: In the order of the file.
    """
    return tuple(p for p in policy.paragraphs if p.allow and p.one_time_use)


def find_shared_slots(
    policy: policies.Policy,
    nova_policy: policies.Policy,
    host_slots: Collection[slots.Slot],
) -> tuple[SharedSlot, ...]:
    """Find the slots that both files give away, whoever owns them.

    :param policy: The content of Cyborg's file.
    :param nova_policy: The content of Nova's inventory file.
    :param host_slots: All slots of the host.
    :returns: In the order of the host's slots.
    """
    ours = _given_away(policy, host_slots)
    novas = _given_away(nova_policy, host_slots)
    return tuple(
        SharedSlot(slot, ours[slot.drc_index], novas[slot.drc_index])
        for slot in host_slots
        if slot.drc_index in ours and slot.drc_index in novas
    )


def _given_away(
    policy: policies.Policy, host_slots: Collection[slots.Slot]
) -> dict[int, policies.Paragraph]:
    """Return the allowing paragraph of each slot that no other denies."""
    return {
        verdict.slot.drc_index: verdict.paragraphs[0]
        for verdict in matching.judge(policy, host_slots)
        if verdict.paragraphs and not verdict.denials
    }
