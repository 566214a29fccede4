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

"""The extra specs of flavors that begin with ``powervm:``.

:data:`TABLE` has a row for each. Nova's API, the plan of an LPAR, the commands
and the documentation read it. The page "Add an extra spec" says how to add a
row.
"""

import dataclasses
import difflib
import operator
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from nova_powervm.devices import host_values
from nova_powervm.lpar import settings

PREFIX = 'powervm:'


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within limits."""

    low: int
    high: int

    @property
    def form(self) -> str:
        """The form of a value."""
        return f'a whole number from {self.low} to {self.high}'

    def parse(self, text: str) -> int:
        """Return the number."""
        number = int(text)
        if not self.low <= number <= self.high:
            raise ValueError(text)
        return number


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """Processing units.

    :param pattern: A regular expression that matches a whole value.
    """

    form: str = (
        'a number from 0.05 to 999.99 with at most two digits after the point'
    )
    pattern: str = r'0?\.(0[5-9]|[1-9][0-9]?)|[1-9][0-9]{0,2}(\.[0-9]{1,2})?'

    def parse(self, text: str) -> float:
        """Return the number."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        return float(text)


@dataclasses.dataclass(frozen=True, slots=True)
class Truth:
    """True or false, in the words that Nova's API accepts."""

    FALSE: ClassVar = ('0', 'f', 'false', 'off', 'n', 'no')

    form: str = 'true or false'

    def parse(self, text: str) -> bool:
        """Return the truth value."""
        word = text.strip().lower()
        if word in ('1', 't', 'true', 'on', 'y', 'yes'):
            return True
        if word in self.FALSE:
            return False
        raise ValueError(text)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One of some words.

    :param values: Each word, and how the REST API writes it.
    """

    values: Mapping[str, str]

    @property
    def form(self) -> str:
        """The form of a value."""
        return 'one of ' + ', '.join(self.values)

    def parse(self, text: str) -> str:
        """Return the word of the REST API."""
        if text not in self.values:
            raise ValueError(text)
        return self.values[text]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """The value of an extra spec, and what it is checked against.

    :param value: The value, as parsed.
    :param wanted: The settings that an LPAR is to have.
    :param has_slots: Whether it is to have physical slots.
    """

    value: Any
    wanted: settings.Settings
    has_slots: bool = False


#: Returns why a value is refused; None if it is accepted.
FlavorCheck = Callable[[Case], str | None]
HostCheck = Callable[[Case, host_values.ManagedSystem], str | None]


def _accept(*_: Any) -> str | None:
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class ExtraSpec:
    """A row of the table.

    :param name: The key without its prefix, and the name of the field of
        :class:`.settings.Settings` if it is a setting of the LPAR.
    :param value: The values that it may have.
    :param element: The REST element in the document of an LPAR; for a number
        of processors, the element for shared processors. Empty for what is no
        setting of the LPAR.
    :param text: Its meaning, for the documentation and Nova's API.
    :param default: The value of a new LPAR without it, for the documentation.
    :param in_flavor: Checks a value against the rest of the flavor.
    :param on_host: Checks a value against a host.
    """

    name: str
    value: Whole | Units | Truth | Choice
    element: str
    text: str
    default: str
    in_flavor: FlavorCheck = _accept
    on_host: HostCheck = _accept

    @property
    def key(self) -> str:
        """The whole key."""
        return PREFIX + self.name


def _compared(
    other: str, holds: Callable[[Any, Any], bool], word: str
) -> FlavorCheck:
    """Return a check that a value compares with another setting.

    :param word: Where the value is if the comparison does not hold.
    """

    def check(case: Case) -> str | None:
        limit = getattr(case.wanted, other)
        if limit is None or holds(case.value, limit):
            return None
        words = settings.describe_name(other)
        return f'it must not be {word} the {words}, {limit:g}'

    return check


def _at_most(other: str) -> FlavorCheck:
    return _compared(other, operator.le, 'above')


def _at_least(other: str) -> FlavorCheck:
    return _compared(other, operator.ge, 'below')


def _shared_only(case: Case) -> str | None:
    if case.wanted.dedicated_proc:
        return 'it is for shared processors, and the flavor has dedicated ones'
    return None


def _for_shared(*checks: FlavorCheck) -> FlavorCheck:
    """Return a check that a value is for shared processors, and of more.

    The first objection counts.
    """

    def check(case: Case) -> str | None:
        objections = (each(case) for each in (_shared_only, *checks))
        return next(filter(None, objections), None)

    return check


def _dedicated_only(case: Case) -> str | None:
    if case.wanted.dedicated_proc:
        return None
    return f'it is for dedicated processors: add {PREFIX}dedicated_proc=true'


def _uncapped_only(case: Case) -> str | None:
    if case.wanted.uncapped is False:
        return 'only uncapped processors have a weight'
    return None


def _without_slots(case: Case) -> str | None:
    if case.value and case.has_slots:
        return (
            'another system could not restart the server with its devices, '
            'which the flavor or a device profile asks for'
        )
    return None


def _in_regions(case: Case, host: host_values.ManagedSystem) -> str | None:
    region = host.memory_region_mb
    if not region or case.value % region == 0:
        return None
    return f"it is not a multiple of the host's memory region size, {region}"


def _enough_units(limit: str) -> HostCheck:
    """Return a check of processing units for a number of processors."""

    def check(case: Case, host: host_values.ManagedSystem) -> str | None:
        number = getattr(case.wanted, limit)
        least = host.min_units_per_vcpu
        if case.value >= round(number * least, settings.UNITS_DIGITS):
            return None
        return (
            f'the host requires {least:g} processing units for each of '
            f'{number} virtual processors'
        )

    return check


def _needs(capability: str, words: str) -> HostCheck:
    """Return a check that a host has what a value other than false or 0 needs.

    :param capability: The name of a field of the host.
    :param words: What the host lacks.
    """

    def check(case: Case, host: host_values.ManagedSystem) -> str | None:
        if not case.value or getattr(host, capability):
            return None
        return f'the host is not capable of {words}'

    return check


def _has_mode(case: Case, host: host_values.ManagedSystem) -> str | None:
    modes = host.compatibility_modes
    if case.value in modes or not modes:
        return None
    return f'the host has only {", ".join(modes)}'


_MEMORY = Whole(128, 2**25)
_PROCESSORS = Whole(1, 10**4)
_UNITS = 'PartitionProcessorConfiguration/SharedProcessorConfiguration/'

TABLE: tuple[ExtraSpec, ...] = (
    ExtraSpec(
        'min_mem',
        _MEMORY,
        'PartitionMemoryConfiguration/MinimumMemory',
        'The least memory in MiB: the LPAR starts with less than its memory, '
        'but not with less than this.',
        "the flavor's memory",
        in_flavor=_at_most('memory_mb'),
        on_host=_in_regions,
    ),
    ExtraSpec(
        'max_mem',
        _MEMORY,
        'PartitionMemoryConfiguration/MaximumMemory',
        'The memory in MiB that an administrator can let the running LPAR '
        'grow to. The hypervisor itself uses more memory for it.',
        "the flavor's memory",
        in_flavor=_at_least('memory_mb'),
        on_host=_in_regions,
    ),
    ExtraSpec(
        'min_vcpu',
        _PROCESSORS,
        f'{_UNITS}MinimumVirtualProcessors',
        'The least number of processors, virtual or dedicated.',
        "the flavor's vCPUs",
        in_flavor=_at_most('vcpus'),
    ),
    ExtraSpec(
        'max_vcpu',
        _PROCESSORS,
        f'{_UNITS}MaximumVirtualProcessors',
        'The number of processors, virtual or dedicated, that an '
        'administrator can let the running LPAR grow to.',
        "the flavor's vCPUs",
        in_flavor=_at_least('vcpus'),
    ),
    ExtraSpec(
        'proc_units',
        Units(),
        f'{_UNITS}DesiredProcessingUnits',
        'The processing units that all virtual processors together are '
        'guaranteed: 1 is one processor.',
        '``[powervm]proc_units_factor`` for each vCPU, within the limits '
        'that the flavor names',
        in_flavor=_for_shared(_at_most('vcpus')),
        on_host=_enough_units('vcpus'),
    ),
    ExtraSpec(
        'min_proc_units',
        Units(),
        f'{_UNITS}MinimumProcessingUnits',
        'The least processing units.',
        'in proportion to the least number of processors',
        in_flavor=_for_shared(_at_most('proc_units'), _at_most('min_vcpu')),
        on_host=_enough_units('min_vcpu'),
    ),
    ExtraSpec(
        'max_proc_units',
        Units(),
        f'{_UNITS}MaximumProcessingUnits',
        'The processing units that an administrator can let the running '
        'LPAR grow to.',
        'in proportion to the largest number of processors',
        in_flavor=_for_shared(_at_least('proc_units'), _at_most('max_vcpu')),
        on_host=_enough_units('max_vcpu'),
    ),
    ExtraSpec(
        'dedicated_proc',
        Truth(),
        'PartitionProcessorConfiguration/HasDedicatedProcessors',
        'Whether each vCPU is a whole processor that no other LPAR uses while '
        'this one runs.',
        'false',
        on_host=_needs('has_dedicated_processors', 'dedicated processors'),
    ),
    ExtraSpec(
        'dedicated_sharing_mode',
        Choice(
            {
                'share_idle_procs': settings.DEFAULT_SHARING,
                'keep_idle_procs': 'keep idle procs',
                'share_idle_procs_active': 'sre idle procs active',
                'share_idle_procs_always': 'sre idle procs always',
            }
        ),
        'PartitionProcessorConfiguration/SharingMode',
        'When others may use dedicated processors: while the LPAR is off, '
        'never, while it runs and leaves them idle, or in both cases.',
        'share_idle_procs',
        in_flavor=_dedicated_only,
    ),
    ExtraSpec(
        'uncapped',
        Truth(),
        'PartitionProcessorConfiguration/SharingMode',
        'Whether the LPAR can use more than its processing units while '
        'others leave theirs idle.',
        'true',
        in_flavor=_shared_only,
    ),
    ExtraSpec(
        'shared_weight',
        Whole(0, 255),
        f'{_UNITS}UncappedWeight',
        "The weight of the LPAR's share of idle processing units, compared "
        'with that of other uncapped LPARs.',
        str(settings.DEFAULT_WEIGHT),
        in_flavor=_for_shared(_uncapped_only),
    ),
    ExtraSpec(
        'processor_compatibility',
        Choice(
            {
                name.replace('_Plus', '+'): name
                for name in settings.COMPATIBILITY_MODES
            }
        ),
        'PendingProcessorCompatibilityMode',
        'The POWER generation that the guest sees from its next start.',
        settings.DEFAULT_COMPATIBILITY,
        on_host=_has_mode,
    ),
    ExtraSpec(
        'srr_capability',
        Truth(),
        'SimplifiedRemoteRestartCapable',
        'Whether PowerVM keeps what another system needs to restart the LPAR '
        'after this one has failed. Nova evacuates servers without it.',
        'false',
        in_flavor=_without_slots,
        on_host=_needs('has_remote_restart', 'simplified remote restart'),
    ),
    ExtraSpec(
        'secure_boot',
        Whole(0, 9),
        'PendingSecureBoot',
        'How the firmware verifies the guest at its next start: 0 not at '
        'all, 1 with a message, 2 and above strictly.',
        '0',
        on_host=_needs('has_secure_boot', 'secure boot'),
    ),
    ExtraSpec(
        'rmc_adapter',
        Truth(),
        '',
        'Whether ``[powervm]rmc_adapter`` holds for the server. With false, '
        'it gets no adapter on the management switch.',
        'true',
    ),
)
#: The rows for settings of LPARs.
SETTINGS = tuple(row for row in TABLE if row.element)
_ROWS = {row.key: row for row in TABLE}


@dataclasses.dataclass(frozen=True, slots=True)
class Objection:
    """Why an extra spec is refused.

    :param key: Its key.
    :param value: Its value.
    :param reason: The reason, with the cure.
    """

    key: str
    value: str
    reason: str


def parse(
    extra_specs: Mapping[str, str],
) -> tuple[settings.Named, tuple[Objection, ...]]:
    """Read the extra specs that this module knows.

    :param extra_specs: The extra specs of a flavor.
    :returns: The values by setting; and the objections to extra specs that are
        unknown or have no valid value.
    """
    named: dict[str, Any] = {}
    objections = []
    for key, text in extra_specs.items():
        if not key.startswith(PREFIX):
            continue
        row = _ROWS.get(key)
        if row is None:
            objections.append(Objection(key, text, _unknown(key)))
            continue
        try:
            value = row.value.parse(text)
        except ValueError:
            reason = f'it must be {row.value.form}'
            objections.append(Objection(key, text, reason))
            continue
        if row.element:
            named[row.name] = value
    return named, tuple(objections)


def forbids_management_adapter(extra_specs: Mapping[str, str]) -> bool:
    """Return whether a flavor wants no management adapter."""
    text = extra_specs.get(f'{PREFIX}rmc_adapter', '')
    return text.strip().lower() in Truth.FALSE


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key, _ROWS, n=1)
    return 'there is no such extra spec' + (
        f'; did you mean {near[0]}?' if near else ''
    )


def objections_in_flavor(
    flavor: settings.FlavorSettings, *, has_slots: bool
) -> Iterator[Objection]:
    """Yield the objections to a flavor that hold on every host.

    :param flavor: The flavor.
    :param has_slots: Whether its servers have physical slots.
    """
    named, wrong = parse(flavor.extra_specs)
    yield from wrong
    if wrong:
        return
    wanted = settings.decide_settings(flavor, named)
    for row in TABLE:
        if row.name in named:
            reason = row.in_flavor(Case(named[row.name], wanted, has_slots))
            if reason:
                yield Objection(row.key, flavor.extra_specs[row.key], reason)
