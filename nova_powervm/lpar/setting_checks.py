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

"""Checks the settings of an LPAR against its flavor and the host."""

import dataclasses
from collections.abc import Collection

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec

#: The image property ``os_distro`` of AIX.
AIX = 'aix'


def choose_settings(
    wanted: spec.Wanted,
    host: host_values.ManagedSystem,
    present: settings.Settings | None = None,
) -> settings.Settings | None:
    """Decide the settings of an LPAR, and check the settings that change.

    :param wanted: What Nova says about the LPAR.
    :param host: A reading of the host, possibly not the last.
    :param present: The LPAR's present settings, which are not checked again:
        the host's rules may have changed since.
    :returns: The settings; None if nothing is known about them.
    :raises exception.PowerVMError: The flavor contradicts itself, or the host
        does not support what it says.
    """
    flavor = wanted.settings
    if flavor is None:
        return None
    if present is None:
        check_guest(wanted, host)
    named = _parse(flavor)
    chosen = settings.decide_settings(
        flavor, named, present, [*map(_of_new_lpar, wanted.other_settings)]
    )
    changed = present.changes(chosen) if present else {*settings.NAMES}
    rows = [row for row in extra_specs.TABLE if row.name in changed & {*named}]
    for row in rows:
        case = extra_specs.Case(named[row.name], chosen, bool(wanted.slots))
        _refuse(flavor, row, row.in_flavor(case), exception.ExtraSpecRefused)
    for row in rows:
        case = extra_specs.Case(named[row.name], chosen)
        reason = row.on_host(case, host)
        _refuse(flavor, row, reason, exception.ExtraSpecUnsupported)
    _check_sizes(flavor, chosen, host, changed)
    return chosen


def check_guest(wanted: spec.Wanted, host: host_values.ManagedSystem) -> None:
    """Check that the host can run the operating system of an image.

    :raises exception.AixUnsupported: It cannot.
    """
    if wanted.os_distro == AIX and not host.has_aix:
        raise exception.AixUnsupported()


def _parse(flavor: settings.FlavorSettings) -> settings.Named:
    named, wrong = extra_specs.parse(flavor.extra_specs)
    for objection in wrong:
        raise exception.ExtraSpecRefused(**dataclasses.asdict(objection))
    return named


def _of_new_lpar(flavor: settings.FlavorSettings) -> settings.Settings:
    """Return a new LPAR's settings, without extra specs that are invalid."""
    named, _ = extra_specs.parse(flavor.extra_specs)
    return settings.decide_settings(flavor, named)


def _refuse(
    flavor: settings.FlavorSettings,
    row: extra_specs.ExtraSpec,
    reason: str | None,
    error: type[exception.ExtraSpecRefused],
) -> None:
    if reason:
        value = flavor.extra_specs[row.key]
        raise error(key=row.key, value=value, reason=reason)


def _check_sizes(
    flavor: settings.FlavorSettings,
    chosen: settings.Settings,
    host: host_values.ManagedSystem,
    changed: Collection[str],
) -> None:
    """Check the memory and the processors, as far as they change.

    :raises exception.MemorySizeRefused: The memory is not a multiple of the
        host's region size.
    :raises exception.ProcessorsRefused: There are too few processing units.
    :raises exception.TooManyProcessors: The host has no such large LPARs.
    """
    region = host.memory_region_mb
    if 'memory_mb' in changed and region > 0 and chosen.memory_mb % region:
        below = chosen.memory_mb - chosen.memory_mb % region
        choices = [size for size in (below, below + region) if size > 0]
        raise exception.MemorySizeRefused(
            memory_mb=chosen.memory_mb,
            region_mb=region,
            choices=' or '.join(map(str, choices)),
        )
    per_vcpu = host.min_units_per_vcpu
    least = round(chosen.vcpus * per_vcpu, settings.UNITS_DIGITS)
    if {'vcpus', 'proc_units'} & {*changed} and chosen.processors < least:
        raise exception.ProcessorsRefused(
            vcpus=chosen.vcpus,
            factor=flavor.units_per_vcpu,
            units=chosen.proc_units,
            minimum=per_vcpu,
        )
    kind = 'dedicated' if chosen.dedicated_proc else 'virtual'
    most = host.dedicated if chosen.dedicated_proc else host.virtual
    limits = {'vcpus': most.desired, 'max_vcpu': most.maximum}
    for name, limit in limits.items():
        number = getattr(chosen, name)
        if name in changed and 0 < limit < number:
            raise exception.TooManyProcessors(
                number=number, kind=kind, limit=limit
            )


def check_room(
    wanted: settings.Settings,
    held: settings.Settings | None,
    actual: spec.Actual,
) -> None:
    """Check that the host has the processors and memory to start an LPAR.

    The hypervisor uses memory of its own for each LPAR, which grows with the
    largest memory that the LPAR may get. The host is asked for it only if the
    last reading leaves any doubt.

    :param wanted: The settings that the LPAR is to have.
    :param held: The settings for which it has processors and memory already;
        None if it has none.
    :param actual: What the host says.
    :raises exception.InsufficientCapacity: The host has not enough.
    """
    units = wanted.least_processors - (held.least_processors if held else 0)
    if units > actual.rules.proc_units_free:
        _refuse_lack('processing units', units, actual.slots.proc_units_free)
    memory_mb = wanted.min_mem - (held.min_mem if held else 0)
    if memory_mb <= 0 or (
        memory_mb + wanted.max_mem <= actual.rules.memory_free_mb
    ):
        return
    memory = actual.hypervisor_memory(wanted.memory_mb, wanted.max_mem)
    if memory.free_mb is None:
        # Such a host refuses the start itself.
        return
    memory_mb += memory.overhead_mb
    if held is not None:
        before = actual.hypervisor_memory(held.memory_mb, held.max_mem)
        memory_mb -= before.overhead_mb
    _refuse_lack('MiB of memory', memory_mb, memory.free_mb)


def _refuse_lack(resource: str, needed: float, free: float) -> None:
    needed, free = (round(n, settings.UNITS_DIGITS) for n in (needed, free))
    if needed > free:
        raise exception.InsufficientCapacity(
            what=resource, needed=f'{needed:g}', free=f'{free:g}'
        )
