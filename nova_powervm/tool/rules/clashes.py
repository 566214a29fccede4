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

"""Paragraphs that identify the same devices, whatever host they meet.

With a host, the devices are found slot by slot. Without one, paragraphs can
only be compared with each other: one that is at least as wide as another
identifies all of its devices.
"""

import itertools
from collections.abc import Iterator

from nova_powervm.devices import policy as policies


def find_clashes(
    policy: policies.Policy,
) -> Iterator[tuple[policies.Paragraph, policies.Paragraph, bool]]:
    """Find the paragraphs of a file that identify the same devices.

    A denial does not help: two allowing paragraphs for one device are an error
    in any case.

    :returns: The later paragraph, the earlier one, and whether the later
        identifies all devices of the earlier, or else the other way round.
    """
    allowing = [each for each in policy.paragraphs if each.allow]
    for earlier, later in itertools.combinations(allowing, 2):
        if _covers(earlier, later):
            yield later, earlier, False
        elif _covers(later, earlier):
            yield later, earlier, True


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
