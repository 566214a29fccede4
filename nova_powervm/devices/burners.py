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
"""Who burned a device, as far as the records of instances tell.

A device has one holder at a time, so whoever had it last has burned it.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterable

#: In place of a project.
UNKNOWN = 'unknown'
#: Seconds that the clocks of Nova and of Placement may be apart.
_SKEW = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """An instance, live or deleted, with the devices that it had last.

    Times are in seconds since 1970.

    :param instance_uuid: Its uuid.
    :param project: The id of its project.
    :param providers: The uuids of the providers of its devices.
    :param since: When it began to run with them; if it never ran, when it was
        created.
    :param until: When it was deleted; None if it was not.
    :param has_run: Whether it ever ran.
    """

    instance_uuid: str
    project: str
    providers: frozenset[str]
    since: float
    until: float | None = None
    has_run: bool = True


def find_last(
    holders: Iterable[Holder], providers: Collection[str]
) -> dict[str, Holder]:
    """Find the last holder of each provider.

    :param providers: The uuids of the providers.
    :returns: Provider uuid to holder, without those that no record names.
    """
    found: dict[str, Holder] = {}
    for holder in holders:
        for uuid in holder.providers.intersection(providers):
            if uuid not in found or found[uuid].since < holder.since:
                found[uuid] = holder
    return found


def name_project(
    holder: Holder | None, reserved_at: float | None = None
) -> str:
    """Return the project that has burned a device, or :data:`UNKNOWN`.

    A device that was reserved after its last holder had been deleted was not
    burned by that one: an operator has reserved it, or put it in quarantine.

    :param holder: The last holder; None if none is known.
    :param reserved_at: When its inventory was written, in seconds since 1970;
        None if unknown.
    """
    if holder is None:
        return UNKNOWN
    if holder.until and reserved_at and reserved_at > holder.until + _SKEW:
        return UNKNOWN
    return holder.project
