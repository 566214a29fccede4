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

#: PowerVM hands out processing units in hundredths.
UNITS_DIGITS = 2
DEFAULT_WEIGHT = 64
#: Idle processors of a stopped LPAR may be used by others.
DEFAULT_SHARING = 'sre idle proces'
DEFAULT_COMPATIBILITY = 'default'
#: The modes that pypowervm knows; it refuses further modes of a host.
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

# The words for settings whose names do not explain themselves.
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
    """The settings of an LPAR as a flavor gives them.

    :param memory_mb: Memory in MiB.
    :param vcpus: Virtual processors.
    :param units_per_vcpu: Processing units for each virtual processor
        (``[powervm]proc_units_factor``), unless an extra spec says otherwise.
    :param extra_specs: The flavor's extra specs.
    """

    memory_mb: int
    vcpus: int
    units_per_vcpu: float
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The settings in the document of an LPAR: all of it but the slots.

    :param memory_mb: Memory in MiB, a multiple of the region size.
    :param min_mem: The least memory in MiB that it can be reduced to.
    :param max_mem: The most memory in MiB that it can grow to.
    :param vcpus: Number of processors, virtual or dedicated.
    :param min_vcpu: The least number of processors.
    :param max_vcpu: The largest number of processors.
    :param dedicated_proc: Whether it has processors of its own. If so, the
        fields for shared processors are None; if not, the field for dedicated
        processors is.
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
        """The processors that it has, as processing units."""
        return self.proc_units or float(self.vcpus)

    @property
    def least_processors(self) -> float:
        """The processors that it needs to start, as processing units."""
        return self.min_proc_units or float(self.min_vcpu)

    def changes(self, wanted: 'Settings') -> frozenset[str]:
        """Return the names of the settings that differ from those wanted."""
        return frozenset(
            n for n in NAMES if getattr(self, n) != getattr(wanted, n)
        )

    def differences(
        self, wanted: 'Settings', names: Collection[str]
    ) -> list[str]:
        """Describe how some of these settings differ from those wanted.

        Settings for the other kind of processors are left out, and so are
        limits that follow a size.
        """
        pairs = (
            (name, getattr(self, name), getattr(wanted, name))
            for name in NAMES
            if name in names
            and not (self.follows_size(name) and wanted.follows_size(name))
        )
        return [
            f'{describe_name(name)} {have} instead of {want}'
            for name, have, want in pairs
            if have != want and None not in (have, want)
        ]

    def follows_size(self, name: str) -> bool:
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
    flavor: FlavorSettings,
    named: Named,
    present: Settings | None = None,
    others: Collection[Settings] = (),
) -> Settings:
    """Decide which settings an LPAR is to have.

    Memory and vCPUs are the flavor's. Another setting that the flavor does not
    name stays if somebody has set it on the host: that is if no flavor of the
    instance gives its value. Processing units stay while the number of
    processors does. All other settings have their defaults.

    :param flavor: The flavor.
    :param named: The values of the flavor's extra specs, by setting.
    :param present: The settings of the LPAR, if there is one.
    :param others: The settings that other flavors, which the instance may have
        had, would give a new LPAR.
    """
    new = _decide_new(flavor, named)
    if present is None:
        return new
    kept = {
        name: value
        for name, value in dataclasses.asdict(present).items()
        if value is not None
        and name not in (*named, 'memory_mb', 'vcpus')
        and all(value != getattr(each, name) for each in (new, *others))
    }
    if present.vcpus != flavor.vcpus:
        kept.pop('proc_units', None)
    return _keep(new, named, kept)


def _decide_new(flavor: FlavorSettings, named: Named) -> Settings:
    """Decide the settings of a new LPAR."""
    chosen = {
        **_DEFAULTS,
        'memory_mb': flavor.memory_mb,
        'vcpus': flavor.vcpus,
        'proc_units': _proc_units(flavor, named),
        **named,
    }
    _leave_out(chosen)
    for name, (_, default) in _LIMITS.items():
        if name not in named and not _is_left_out(name, chosen):
            chosen[name] = default(chosen)
    return Settings(**chosen)


def _keep(new: Settings, named: Named, kept: Named) -> Settings:
    """Keep the settings that somebody has set on the host.

    :param new: The settings of a new LPAR.
    :param named: The settings that the flavor names.
    :param kept: The settings that somebody has set.
    """
    chosen = {**dataclasses.asdict(new), **kept}
    if any(name in named for name in _OF_SHARED):
        # The flavor means processors of this kind.
        chosen['dedicated_proc'] = False
    for name, value in _DEFAULTS.items():
        if chosen[name] is None:
            chosen[name] = value
    _leave_out(chosen)
    for name, (size, _) in _LIMITS.items():
        if name not in named and not _is_left_out(name, chosen):
            bound = min if name.startswith('min_') else max
            chosen[name] = bound(chosen[name], chosen[size])
    return Settings(**chosen)


def _leave_out(chosen: dict[str, Any]) -> None:
    """Leave out the settings for the other kind of processors."""
    for name in NAMES:
        if _is_left_out(name, chosen):
            chosen[name] = None


def _is_left_out(name: str, chosen: Named) -> bool:
    if chosen['dedicated_proc']:
        return name in _OF_SHARED
    if name == 'shared_weight':
        return not chosen['uncapped']
    return name in _OF_DEDICATED


def _proc_units(flavor: FlavorSettings, named: Named) -> float:
    """Return the processing units, within the limits that are named."""
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
    'dedicated_proc': False,
    'uncapped': True,
    'shared_weight': DEFAULT_WEIGHT,
    'dedicated_sharing_mode': DEFAULT_SHARING,
}
# The size that each limit encloses, and its default, which may depend on the
# limits before it.
_LIMITS: Mapping[str, tuple[str, Callable[[Named], Any]]] = {
    'min_mem': ('memory_mb', lambda settings: settings['memory_mb']),
    'max_mem': ('memory_mb', lambda settings: settings['memory_mb']),
    'min_vcpu': ('vcpus', lambda settings: settings['vcpus']),
    'max_vcpu': ('vcpus', lambda settings: settings['vcpus']),
    'min_proc_units': ('proc_units', lambda s: _scaled(s, 'min_vcpu')),
    'max_proc_units': ('proc_units', lambda s: _scaled(s, 'max_vcpu')),
}
_OF_SHARED = (
    'proc_units',
    'min_proc_units',
    'max_proc_units',
    'uncapped',
    'shared_weight',
)
_OF_DEDICATED = ('dedicated_sharing_mode',)
