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


"""Checks what a flavor says about an LPAR against the flavor and the host."""

import dataclasses

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec


def settle(
    wanted: spec.Wanted,
    host: host_values.ManagedSystem,
    present: settings.Settings | None = None,
) -> settings.Settings | None:
    """Decide the settings of an LPAR, and check those that change.

    :param wanted: What Nova says about the LPAR.
    :param host: A reading of the host, possibly not the last.
    :param present: The settings that it has: a host whose rules have changed
        may keep them.
    :returns: The settings; None if nothing is known about them.
    :raises exception.PowerVMError: The flavor contradicts itself, or the host
        does not support what it says.
    """
    flavor = wanted.settings
    if flavor is None:
        return None
    named, wrong = extra_specs.parse(flavor.extra_specs)
    for objection in wrong:
        raise exception.ExtraSpecRefused(**dataclasses.asdict(objection))
    found = settings.decide_settings(flavor, named, present)
    if found == present:
        return found
    for objection in extra_specs.objections_in_flavor(
        flavor.extra_specs, named, found, has_slots=bool(wanted.slots)
    ):
        raise exception.ExtraSpecRefused(**dataclasses.asdict(objection))
    _check_sizes(flavor, named, found, host)
    for objection in extra_specs.objections_of_host(
        flavor.extra_specs, named, found, host
    ):
        raise exception.ExtraSpecUnsupported(**dataclasses.asdict(objection))
    return found


def _check_sizes(
    flavor: settings.FlavorSettings,
    named: settings.Named,
    found: settings.Settings,
    host: host_values.ManagedSystem,
) -> None:
    """Check the flavor's memory and vCPUs.

    :raises exception.MemorySizeRefused: The memory is not a multiple of the
        host's region size.
    :raises exception.ProcessorsRefused: There are too few processing units.
    :raises exception.TooManyProcessors: The host has no such large LPARs.
    """
    region = host.memory_region_mb
    if region > 0 and found.memory_mb % region:
        below = found.memory_mb - found.memory_mb % region
        choices = [size for size in (below, below + region) if size > 0]
        raise exception.MemorySizeRefused(
            memory_mb=found.memory_mb,
            region_mb=region,
            choices=' or '.join(map(str, choices)),
        )
    least = round(found.vcpus * host.min_units_per_vcpu, settings.UNITS_DIGITS)
    if found.processors < least and 'proc_units' not in named:
        raise exception.ProcessorsRefused(
            vcpus=found.vcpus,
            factor=flavor.units_per_vcpu,
            units=found.proc_units,
            minimum=host.min_units_per_vcpu,
        )
    limit = host.max_dedicated if found.dedicated_proc else host.max_virtual
    if limit and found.max_vcpu > limit:
        raise exception.TooManyProcessors(
            number=found.max_vcpu,
            kind='dedicated' if found.dedicated_proc else 'virtual',
            limit=limit,
        )


def check_room(
    wanted: settings.Settings,
    lpar: partition.Partition | None,
    actual: spec.Actual,
) -> None:
    """Check that the host has what an LPAR takes when it starts.

    The hypervisor uses memory of its own for each LPAR, which grows with the
    largest memory that it may get. The host is asked for it only if the last
    reading leaves any doubt.

    :param wanted: The settings that the LPAR is to have.
    :param lpar: The LPAR, which may run; None if there is none.
    :param actual: What the host says.
    :raises exception.InsufficientCapacity: There is not enough.
    """
    held = lpar.settings if lpar is not None and lpar.is_active else None
    units = wanted.processors - (held.processors if held else 0)
    if units > actual.rules.proc_units_free:
        _refuse_lack('processing units', units, actual.slots.proc_units_free)
    memory_mb = wanted.memory_mb - (held.memory_mb if held else 0)
    if memory_mb + wanted.max_mem <= actual.rules.memory_free_mb:
        return
    found = actual.hypervisor_memory(wanted.memory_mb, wanted.max_mem)
    memory_mb += found.overhead_mb
    if held is not None:
        memory_mb -= actual.hypervisor_memory(
            held.memory_mb, held.max_mem
        ).overhead_mb
    _refuse_lack('MiB of memory', memory_mb, found.free_mb)


def _refuse_lack(what: str, needed: float, free: float) -> None:
    if needed > free:
        raise exception.InsufficientCapacity(
            what=what, needed=f'{needed:g}', free=f'{free:g}'
        )
