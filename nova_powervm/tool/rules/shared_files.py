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

"""Devices that Nova's and Cyborg's files both identify, without a host.

With a host, :mod:`nova_powervm.devices.accelerator_policy` finds them slot by
slot. Without one, paragraphs can only be compared with each other: one that is
at least as wide as another identifies all of its devices.
"""

import dataclasses
from collections.abc import Iterator

from nova_powervm.devices import policy as policies


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """Two paragraphs, one of which identifies all devices of the other.

    :param paragraph: The paragraph of Cyborg's file.
    :param nova_paragraph: That of Nova's inventory file.
    :param is_wider: Whether Cyborg's identifies all devices of Nova's, and
        perhaps more. Otherwise it is the other way round.
    :param is_in_doubt: Whether a paragraph of either file may deny the
        devices.
    """

    paragraph: policies.Paragraph
    nova_paragraph: policies.Paragraph
    is_wider: bool
    is_in_doubt: bool


def find_overlaps(
    policy: policies.Policy, nova_policy: policies.Policy
) -> Iterator[Overlap]:
    """Find the paragraphs that cannot both give their devices away.

    :param policy: The content of Cyborg's file.
    :param nova_policy: That of Nova's inventory file.
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


def _allows(paragraph: policies.Paragraph) -> bool:
    return paragraph.allow


def _covers(wide: policies.Paragraph, narrow: policies.Paragraph) -> bool:
    """Return whether a paragraph identifies all devices of another."""
    return bool(wide.identification) and all(
        _takes_all(wanted, narrow.identification.get(key))
        for key, wanted in wide.identification.items()
    )


def _takes_all(wanted: str, other: str | None) -> bool:
    """Return whether a value or pattern takes all that another one takes."""
    if other is None:
        return False
    if wanted == other:
        return True
    return not policies.has_wildcard(other) and policies.value_matches(
        wanted, other
    )
