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

"""Which processors a partition can have."""

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.nouns.managed_system import model as managed_system
from powervm_emulator.nouns.partition import model as partition_module

System = managed_system.System
Element = content.Element
Partition = partition_module.Partition

# Processor units are hundredths; comparing them needs no more than this.
_EPSILON = 0.001
_CONFIGURATIONS = (partition_module.SHARED, partition_module.DEDICATED)
_ENVIRONMENTS = dict(
    zip(
        (
            partition_module.AIX_LINUX,
            partition_module.IBM_I,
            partition_module.VIOS_TYPE,
        ),
        managed_system.ENVIRONMENTS,
        strict=True,
    )
)
# What is counted in each, with its name in words.
_WORDS = {
    'Processors': 'dedicated processors',
    'VirtualProcessors': 'virtual processors',
    'ProcessingUnits': 'processor units',
}

# What new partitions must say, as hosts call it.
_OF_SHARED = {
    f'{partition_module.SHARED}/{bound}{name}': f'{bound_}_{name_}'
    for bound, bound_ in (
        ('Minimum', 'min'),
        ('Desired', 'desired'),
        ('Maximum', 'max'),
    )
    for name, name_ in (
        ('VirtualProcessors', 'procs'),
        ('ProcessingUnits', 'proc_units'),
    )
}


def complete(element: Element) -> None:
    """Give a new partition the processors that its document leaves to us.

    :param element: its content.
    :raises errors.Refused: it says something of processors, but too little.
    """
    section = content.section(element, partition_module.PROCESSORS)
    if all(content.local_name(child) == 'Metadata' for child in section):
        _set_one_dedicated(element)
        return
    wanted = {
        f'{partition_module.PROCESSORS}/HasDedicatedProcessors': 'proc_mode'
    }
    if partition_module.is_dedicated(element):
        wanted[partition_module.SHARING_MODE] = 'sharing_mode'
    else:
        wanted |= _OF_SHARED
    missing = [
        name
        for path, name in wanted.items()
        if content.find(element, path) is None
    ]
    if missing:
        raise errors.Refused(
            f'The new partition lacks the attributes {", ".join(missing)}.'
        )


def _set_one_dedicated(element: Element) -> None:
    content.put(
        element, f'{partition_module.PROCESSORS}/HasDedicatedProcessors', True
    )
    for bound in ('Desired', 'Maximum', 'Minimum'):
        content.put(
            element, f'{partition_module.DEDICATED}/{bound}Processors', 1
        )
    content.put(
        element,
        partition_module.SHARING_MODE,
        partition_module.DEDICATED_MODES[0],
    )


def check(
    system: System, element: Element, present: Partition | None = None
) -> None:
    """Check that a partition can have the processors that it asks for.

    :param element: the content that is asked for.
    :param present: the partition, if it exists.
    :raises errors.RestError: it cannot.
    """
    dedicated = partition_module.is_dedicated(element)
    if present is not None:
        _check_kind_stays(present, dedicated)
    _check_configurations(element, dedicated, present)
    _check_mode(element, dedicated)
    if dedicated:
        _check_amounts(system, element, 'Processors')
        return
    _check_amounts(system, element, 'VirtualProcessors')
    _check_order(element, partition_module.SHARED, 'ProcessingUnits')
    _check_units(system, element)


def _check_kind_stays(present: Partition, dedicated: bool) -> None:
    """Only a partition that is not active changes the kind."""
    had = partition_module.is_dedicated(present.element)
    if present.is_active and dedicated != had:
        raise errors.Refused(
            f'The partition {present.name!r} is active: it cannot change '
            'between shared and dedicated processors.'
        )


def _check_configurations(
    element: Element, dedicated: bool, present: Partition | None
) -> None:
    """There is the configuration of one kind, and no other one."""
    # There is a captured partition with both.
    had_both = present is not None and _has_both(present.element)
    if _has_both(element) and not had_both:
        raise errors.Refused(
            'A partition has a SharedProcessorConfiguration or a '
            'DedicatedProcessorConfiguration, not both.'
        )
    wanted = _CONFIGURATIONS[dedicated]
    if content.find(element, wanted) is None:
        raise errors.Refused(
            f'HasDedicatedProcessors is {content.as_text(dedicated)} and '
            f'there is no {wanted.rpartition("/")[2]}.'
        )


def _has_both(element: Element) -> bool:
    return all(
        content.find(element, path) is not None for path in _CONFIGURATIONS
    )


def _check_mode(element: Element, dedicated: bool) -> None:
    """The sharing mode is one of these processors, if there is one."""
    mode = content.text(element, partition_module.SHARING_MODE)
    modes = (
        partition_module.DEDICATED_MODES
        if dedicated
        else partition_module.SHARED_MODES
    )
    if mode and mode not in modes:
        kind = 'dedicated' if dedicated else 'shared'
        raise errors.Refused(
            f'{mode!r} is not a sharing mode of {kind} processors: these are '
            f'{", ".join(modes)}.'
        )


def _check_amounts(system: System, element: Element, name: str) -> None:
    """Amounts are in order, and no more than the system allows."""
    section = (
        partition_module.DEDICATED
        if name == 'Processors'
        else partition_module.SHARED
    )
    desired, maximum = _check_order(element, section, name)
    type_ = content.text(element, 'PartitionType', partition_module.AIX_LINUX)
    limits = system.processor_limits(_ENVIRONMENTS[type_], name)
    for bound, amount, limit in zip(
        ('desired', 'maximum'), (desired, maximum), limits, strict=True
    ):
        if amount > limit > 0:
            raise errors.Refused(
                f'{amount:g} {bound} {_WORDS[name]} are more than the '
                f'{limit} that a partition of the type {type_} can have on '
                'this system.'
            )


def _check_order(
    element: Element, section: str, name: str
) -> tuple[float, float]:
    """Minimum, desired and maximum are in order.

    :returns: the last two.
    """
    desired = content.number(element, f'{section}/Desired{name}')
    minimum = content.number(element, f'{section}/Minimum{name}', desired)
    maximum = content.number(element, f'{section}/Maximum{name}', desired)
    if not 0 < minimum <= desired <= maximum:
        raise errors.Refused(
            f'{minimum:g} minimum, {desired:g} desired and {maximum:g} '
            f'maximum {_WORDS[name]} are not in order.',
            'REST0264',
        )
    return desired, maximum


def _check_units(system: System, element: Element) -> None:
    """Each virtual processor has its least part, and no more than one."""
    section = partition_module.SHARED
    units = content.number(element, f'{section}/DesiredProcessingUnits')
    count = content.integer(element, f'{section}/DesiredVirtualProcessors')
    least = system.units_per_processor * count
    if not least - _EPSILON <= units <= count + _EPSILON:
        raise errors.Refused(
            f'{units:g} processor units are not between {least:g} and '
            f'{count}, as {count} virtual processors need.'
        )
