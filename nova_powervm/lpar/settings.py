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


"""The memory, processors and further settings of an LPAR.

A setting has the name of its extra spec, without the prefix ``powervm:``: see
:mod:`.extra_specs`.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

Named = Mapping[str, Any]

UNITS_DIGITS = 2
DEFAULT_WEIGHT = 64
#: Idle processors of a stopped LPAR may be used by others.
DEFAULT_SHARING = 'sre idle proces'
DEFAULT_COMPATIBILITY = 'default'
#: Those that pypowervm knows; it refuses others, which a host may have.
COMPATIBILITY_MODES = (
    DEFAULT_COMPATIBILITY,
    'POWER6',
    'POWER6_Plus',
    'POWER6_Plus_Enhanced',
    'POWER7',
    'POWER8',
    'POWER8_Enhanced',
    'POWER9_Base',
    'POWER9',
    'POWER9_Enhanced',
    'POWER10',
)

# Those whose names do not say what they are.
_WORDS = {
    'memory_mb': 'memory',
    'min_mem': 'minimum memory',
    'max_mem': 'maximum memory',
    'vcpus': 'virtual processors',
    'min_vcpu': 'minimum virtual processors',
    'max_vcpu': 'maximum virtual processors',
    'proc_units': 'processing units',
    'min_proc_units': 'minimum processing units',
    'max_proc_units': 'maximum processing units',
    'dedicated_proc': 'dedicated processors',
}


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorSettings:
    """What a flavor says about an LPAR.

    :param memory_mb: Memory in MiB.
    :param vcpus: Virtual processors.
    :param units_per_vcpu: Processing units for each of them
        (``[powervm]proc_units_factor``), unless an extra spec says otherwise.
    :param extra_specs: The flavor's extra specs.
    :param former: The keys of the extra specs of the flavor that a move
        replaces by this one.
    """

    memory_mb: int
    vcpus: int
    units_per_vcpu: float
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    former: Collection[str] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What the document of an LPAR says, beside its slots.

    :param memory_mb: Memory in MiB, a multiple of the region size.
    :param min_mem: The least memory in MiB that it can be reduced to.
    :param max_mem: The most memory in MiB that it can grow to.
    :param vcpus: Virtual processors, or dedicated ones.
    :param min_vcpu: The least number of them.
    :param max_vcpu: The largest number of them.
    :param dedicated_proc: Whether it has processors of its own. If so, the
        fields for shared ones are None, otherwise that for dedicated ones.
    :param proc_units: Processing units for all its virtual processors.
    :param min_proc_units: The least processing units.
    :param max_proc_units: The most processing units.
    :param uncapped: Whether it can use more than its processing units while
        others leave them idle.
    :param shared_weight: Its share of idle processors, 0 to 255; None if it is
        capped.
    :param dedicated_sharing_mode: When others may use its processors
        (``SharingMode``).
    :param processor_compatibility: The POWER generation that its guest sees
        from its next start (``PendingProcessorCompatibilityMode``).
    :param srr_capability: Whether another system can restart it after this one
        fails (``SimplifiedRemoteRestartCapable``).
    :param secure_boot: 0 if its guest is not verified, else how strictly
        (``PendingSecureBoot``).
    """

    memory_mb: int
    min_mem: int
    max_mem: int
    vcpus: int
    min_vcpu: int
    max_vcpu: int
    dedicated_proc: bool = False
    proc_units: float | None = None
    min_proc_units: float | None = None
    max_proc_units: float | None = None
    uncapped: bool | None = None
    shared_weight: int | None = None
    dedicated_sharing_mode: str | None = None
    processor_compatibility: str = DEFAULT_COMPATIBILITY
    srr_capability: bool = False
    secure_boot: int = 0

    def __str__(self) -> str:
        processors = (
            f'{self.vcpus} dedicated processors'
            if self.dedicated_proc
            else f'{self.vcpus} virtual processors, '
            f'{self.proc_units:g} processing units'
        )
        return f'{self.memory_mb} MiB, {processors}'

    @property
    def processors(self) -> float:
        """The processing units that it takes from the host while it runs."""
        return self.proc_units or float(self.vcpus)

    def changes(self, wanted: 'Settings') -> frozenset[str]:
        """Return the names of the settings that differ from those wanted."""
        return frozenset(
            name
            for name in NAMES
            if getattr(self, name) != getattr(wanted, name)
        )

    def differences(
        self, wanted: 'Settings', names: Collection[str]
    ) -> list[str]:
        """Describe how some of these settings differ from those wanted.

        What applies only to the other kind of processors is left out, and so
        are limits that follow a size.
        """
        pairs = (
            (name, getattr(self, name), getattr(wanted, name))
            for name in NAMES
            if name in names
            and not (self.has_default(name) and wanted.has_default(name))
        )
        return [
            f'{describe_name(name)} {have} instead of {want}'
            for name, have, want in pairs
            if have != want and None not in (have, want)
        ]

    def has_default(self, name: str) -> bool:
        """Return whether a setting is a limit that follows a size."""
        value = getattr(self, name)
        if name not in _LIMITS or value is None:
            return False
        return bool(value == _LIMITS[name][1](dataclasses.asdict(self)))


NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def describe_name(name: str) -> str:
    """Return the words for a setting."""
    return _WORDS.get(name, name.replace('_', ' '))


def decide_settings(
    flavor: FlavorSettings, named: Named, present: Settings | None = None
) -> Settings:
    """Decide which settings an LPAR is to have.

    A setting that the flavor does not name stays as it is: somebody may have
    changed it on the host. If there is no LPAR, or the flavor before a move
    named it, it gets its default.

    :param flavor: The flavor.
    :param named: The values of the flavor's extra specs, by setting.
    :param present: The settings of the LPAR, if there is one.
    """
    former = {key.partition(':')[2] for key in flavor.former}
    found = {} if present is None else dataclasses.asdict(present)
    kept = {
        name: value
        for name, value in found.items()
        if value is not None and name not in named and name not in former
    }
    chosen = {**_DEFAULTS, **kept, **named}
    chosen['memory_mb'], chosen['vcpus'] = flavor.memory_mb, flavor.vcpus
    chosen['dedicated_proc'] = _has_dedicated(named, kept)
    for name in _SHARED if chosen['dedicated_proc'] else _DEDICATED:
        chosen[name] = None
    if not chosen['dedicated_proc']:
        chosen['uncapped'] = _is_uncapped(named, kept)
        if not chosen['uncapped']:
            chosen['shared_weight'] = None
        chosen['proc_units'] = _proc_units(flavor, named)
    for name, (size, default) in _LIMITS.items():
        if name in named or (chosen['dedicated_proc'] and name in _SHARED):
            continue
        chosen[name] = default(chosen)
        # One that is not the default was set on the host.
        if name in kept and kept[name] != default(found):
            bound = min if name.startswith('min_') else max
            chosen[name] = bound(kept[name], chosen[size])
    return Settings(**chosen)


def _has_dedicated(named: Named, kept: Named) -> bool:
    """Return whether an LPAR has dedicated processors.

    A flavor that names a setting of one kind of processors means that kind.
    """
    if 'dedicated_proc' in named:
        return bool(named['dedicated_proc'])
    if any(name in named for name in _SHARED):
        return False
    return bool(kept.get('dedicated_proc'))


def _is_uncapped(named: Named, kept: Named) -> bool:
    if 'uncapped' in named:
        return bool(named['uncapped'])
    return 'shared_weight' in named or bool(kept.get('uncapped', True))


def _proc_units(flavor: FlavorSettings, named: Named) -> float:
    """Return the processing units, within the limits that a flavor names."""
    if 'proc_units' in named:
        return float(named['proc_units'])
    units = round(flavor.vcpus * flavor.units_per_vcpu, UNITS_DIGITS)
    units = max(units, named.get('min_proc_units', units))
    return float(min(units, named.get('max_proc_units', units)))


def _scaled(settings: Named, limit: str) -> float:
    """Return the processing units for another number of processors."""
    units = settings['proc_units'] * settings[limit] / settings['vcpus']
    return float(round(units, UNITS_DIGITS))


_DEFAULTS: Named = {
    'shared_weight': DEFAULT_WEIGHT,
    'dedicated_sharing_mode': DEFAULT_SHARING,
}
# What each limit encloses, and its default, which needs only earlier ones.
_LIMITS: Mapping[str, tuple[str, Callable[[Named], Any]]] = {
    'min_mem': ('memory_mb', lambda settings: settings['memory_mb']),
    'max_mem': ('memory_mb', lambda settings: settings['memory_mb']),
    'min_vcpu': ('vcpus', lambda settings: settings['vcpus']),
    'max_vcpu': ('vcpus', lambda settings: settings['vcpus']),
    'min_proc_units': ('proc_units', lambda s: _scaled(s, 'min_vcpu')),
    'max_proc_units': ('proc_units', lambda s: _scaled(s, 'max_vcpu')),
}
_SHARED = (
    'proc_units',
    'min_proc_units',
    'max_proc_units',
    'uncapped',
    'shared_weight',
)
_DEDICATED = ('dedicated_sharing_mode',)
