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

"""Nova's records of instances, asked by LPAR."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects

from nova_powervm.instance import partition


class NovaRecords:
    """Finds out which LPARs belong to instances."""

    def instances_of(self, lpars: Iterable[str]) -> Mapping[str, str]:
        """Find the instances that LPARs belong to.

        An LPAR's uuid can come from two instance uuids, so Nova is asked
        about both. Deleted instances count, and so do those that live on
        another host by now: an LPAR that such an instance left behind is
        Nova's to clean up.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to instance uuid; foreign LPARs are left out.
        """
        return {lpar: found.uuid for lpar, found in _find(lpars, ())}

    def hosted(self, host: str) -> frozenset[str]:
        """Give the uuids of all instances of a host.

        :param host: As in ``instance.host``.
        """
        return frozenset(
            instance.uuid
            for instance in objects.InstanceList.get_by_host(
                nova_context.get_admin_context(), host, expected_attrs=[]
            )
        )

    def holdings(self, lpars: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Find the providers whose resources instances were allocated.

        While an instance moves, those of both hosts count.

        :param lpars: Upper-case PowerVM uuids.
        :returns: LPAR uuid to uuids of providers; foreign LPARs are left
            out. A deleted instance holds nothing, and neither does one
            without a host: Nova took its allocations away when its build
            failed, and left its resources as they were.
        """
        attributes = ('resources', 'migration_context')
        return {
            lpar: frozenset()
            if found.deleted or not found.host
            else _providers(found)
            for lpar, found in _find(lpars, attributes)
        }


def _find(
    lpars: Iterable[str], attributes: Iterable[str]
) -> Iterator[tuple[str, Any]]:
    """Read the instances of LPARs, deleted ones, too."""
    candidates = {
        candidate: lpar
        for lpar in lpars
        for candidate in partition.instance_uuids(lpar)
    }
    if not candidates:
        return
    instances = objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {'uuid': sorted(candidates)},
        expected_attrs=list(attributes),
    )
    for found in instances:
        yield candidates[found.uuid], found


def _providers(instance: Any) -> frozenset[str]:
    lists = [instance.resources]
    move = instance.migration_context
    if move:
        lists += [move.old_resources, move.new_resources]
    return frozenset(
        resource.provider_uuid
        for resources in lists
        for resource in resources or ()
    )
