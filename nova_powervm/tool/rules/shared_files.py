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

"""Devices that two paragraphs identify, without a host.

The paragraphs are in one file, or in Nova's and Cyborg's. With a host, the
devices are found slot by slot. Without one, paragraphs can only be compared
with each other: one that is at least as wide as another identifies all of its
devices.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from nova_powervm.devices import policy as policies


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """Two paragraphs, one of which identifies all devices of the other.

    :param paragraph: The paragraph of Cyborg's file, or the later one of a
        single file.
    :param other: That of Nova's inventory file, or the earlier one.
    :param is_wider: Whether ``paragraph`` identifies all devices of ``other``,
        and perhaps more. Otherwise it is the other way round.
    :param is_in_doubt: Whether a paragraph of either file may deny the
        devices.
    """

    paragraph: policies.Paragraph
    other: policies.Paragraph
    is_wider: bool
    is_in_doubt: bool = False


def find_overlaps(
    policy: policies.Policy, nova_policy: policies.Policy
) -> Iterator[Overlap]:
    """Find the paragraphs that cannot both give their devices away.

    :returns: In the order of Cyborg's file.
    """
    is_in_doubt = any(
        not paragraph.allow
        for paragraph in (*policy.paragraphs, *nova_policy.paragraphs)
    )
    for paragraph in filter(_allows, policy.paragraphs):
        for novas in filter(_allows, nova_policy.paragraphs):
            if _covers(novas, paragraph):
                yield Overlap(paragraph, novas, False, is_in_doubt)
            elif _covers(paragraph, novas):
                yield Overlap(paragraph, novas, True, is_in_doubt)


def find_clashes(policy: policies.Policy) -> Iterator[Overlap]:
    """Find the paragraphs of one file that identify the same devices.

    A denial does not help: two allowing paragraphs for one device are an error
    in any case.
    """
    allowing = filter(_allows, policy.paragraphs)
    for earlier, paragraph in itertools.combinations(allowing, 2):
        if _covers(earlier, paragraph):
            yield Overlap(paragraph, earlier, False)
        elif _covers(paragraph, earlier):
            yield Overlap(paragraph, earlier, True)


def _allows(paragraph: policies.Paragraph) -> bool:
    return paragraph.allow


def _covers(wide: policies.Paragraph, narrow: policies.Paragraph) -> bool:
    """Return whether a paragraph identifies all devices of another."""
    return bool(wide.identification) and all(
        _takes_all(key, wanted, narrow.identification.get(key))
        for key, wanted in wide.identification.items()
    )


def _takes_all(key: str, wanted: str, other: str | None) -> bool:
    """Return whether a value or pattern takes all that another one takes.

    :param other: None if the other paragraph does not have the key.
    """
    if wanted == other:
        return True
    if not policies.has_wildcard(wanted):
        return False
    if other is None or policies.has_wildcard(other):
        # Each value that a host can report.
        digits = policies.PROPERTIES[key].digits
        return set(wanted) <= set('*?' if digits else '*')
    return policies.value_matches(wanted, other)
