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

"""The content of inventory.yaml, and the rules for its values.

:mod:`nova_powervm.inventory_file` has the keywords of the file; this module
decides which values are valid and which slots a paragraph identifies.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping

import os_resource_classes
import os_traits

from nova_powervm.devices import slots

#: Specification, "resource_class": the class of a paragraph without one.
DEFAULT_RESOURCE_CLASS = 'CUSTOM_IOSLOT'
#: Standard classes that describe a whole device.
DEVICE_CLASSES = ('PGPU', 'FPGA')
#: Every trait with this prefix is the driver's own.
GENERATED_PREFIX = 'CUSTOM_POWERVM_'
#: Traits that only the driver, Nova or Cyborg may set on a slot's provider.
RESERVED_TRAITS = {
    'COMPUTE_MANAGED_PCI_DEVICE': (
        "it makes Nova's PCI tracker delete the provider"
    ),
    'HW_PCI_ONE_TIME_USE': 'the driver sets it where it applies',
}

_CUSTOM_NAME = re.compile(r'CUSTOM_[A-Z0-9_]+')
_LONGEST_NAME = 255


@dataclasses.dataclass(frozen=True, slots=True)
class Property:
    """One key of an identification section.

    :param attribute: The attribute of :class:`~.slots.Slot` to compare.
    :param digits: Number of hex digits of the value; None for plain text.
    :param meaning: What the value is, in words.
    """

    attribute: str
    digits: int | None
    meaning: str

    def value_in(self, slot: slots.Slot) -> str | None:
        """Return the slot's value, in the form of the inventory file."""
        value = getattr(slot, self.attribute)
        if value is None:
            return None
        if self.digits is None:
            return str(value)
        return self._format(value)

    def slot_value(self, value: str) -> int | str | None:
        """Convert a value of the inventory file to a slot's attribute.

        :returns: None if no slot can have this value.
        """
        if self.digits is None:
            return value
        try:
            number = int(value, 16)
        except ValueError:
            return None
        return number if self._format(number) == value else None

    def _format(self, number: int) -> str:
        return f'{number:0{self.digits}X}'


#: Specification, "identification": the keys, in the order of its table.
PROPERTIES: Mapping[str, Property] = {
    'vendor_id': Property('vendor_id', 4, 'PCI vendor id'),
    'device_id': Property('device_id', 4, 'PCI device id'),
    'subsys_vendor_id': Property(
        'subsys_vendor_id', 4, 'PCI subsystem vendor id'
    ),
    'subsys_device_id': Property(
        'subsys_device_id', 4, 'PCI subsystem device id'
    ),
    'class': Property('pci_class', 4, 'PCI class'),
    'revision_id': Property('revision_id', 2, 'PCI revision id'),
    'drc_index': Property(
        'drc_index', 8, 'dynamic reconfiguration connector index'
    ),
    'drc_name': Property('drc_name', None, 'physical location code'),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of the inventory file.

    :param name: The paragraph's key, unique in the file.
    :param identification: Property key to value or pattern; hex digits
        upper case. All must match (AND).
    :param resource_class: Class of the inventory of each device.
    :param traits: Traits in addition to those that the driver generates.
    :param allow: False if it denies the devices that it identifies.
    :param one_time_use: Whether a device is withheld after its first use.
    :param line: Line of the file at which the paragraph starts, from 1.
    """

    name: str
    identification: Mapping[str, str]
    resource_class: str = DEFAULT_RESOURCE_CLASS
    traits: tuple[str, ...] = ()
    allow: bool = True
    one_time_use: bool = False
    line: int = 0

    def identifies(self, slot: slots.Slot) -> bool:
        """Return whether all keys match; an unreported property never matches.

        A paragraph without keys identifies nothing, rather than every slot.
        """
        return bool(self.identification) and all(
            value_matches(pattern, PROPERTIES[key].value_in(slot))
            for key, pattern in self.identification.items()
        )

    def __str__(self) -> str:
        return f"paragraph '{self.name}' (line {self.line})"


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What the operator allows to be passed through on this host.

    :param paragraphs: In the order of the file.
    :param source: Path of the file, for messages.
    """

    paragraphs: tuple[Paragraph, ...] = ()
    source: str = 'no inventory file'

    @property
    def resource_classes(self) -> frozenset[str]:
        """The resource classes of all paragraphs."""
        return frozenset(p.resource_class for p in self.paragraphs if p.allow)


def normal_value(key: str, value: str) -> str:
    """Return an identification value in the form that is compared."""
    return value.upper() if PROPERTIES[key].digits else value


def has_wildcard(value: str) -> bool:
    """Return whether an identification value has a wildcard."""
    return '*' in value or '?' in value


def value_matches(pattern: str, value: str | None) -> bool:
    """Compare an identification value with the value that the host reports.

    ``*`` stands for any characters, or none, and ``?`` for one character;
    nothing else is special. The whole value must match.

    :param pattern: The file's value or pattern, in its normal form.
    :param value: The slot's value in the same form; None if the host does not
        report it, which matches nothing.
    """
    if value is None:
        return False
    if has_wildcard(pattern):
        return _compile(pattern).fullmatch(value) is not None
    return pattern == value


@functools.lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    first, *others = (
        ''.join('.' if c == '?' else re.escape(c) for c in part)
        for part in re.split(r'\*+', pattern)
    )
    if not others:
        return re.compile(first, re.DOTALL)
    # Each part between two stars is matched at its first position only (an
    # atomic group): backtracking would make many stars very slow.
    middle = ''.join(f'(?>.*?{part})' for part in others[:-1])
    return re.compile(f'{first}{middle}.*{others[-1]}', re.DOTALL)


def problem_with_value(key: str, value: str) -> str | None:
    """Return what is wrong with an identification value, or None.

    :param key: One of :data:`PROPERTIES`.
    :param value: The value as text, possibly with wildcards.
    """
    digits = PROPERTIES[key].digits
    if digits is None:
        return _problem_with_text(key, value)
    if not re.fullmatch(r'[0-9A-Fa-f*?]+', value):
        return f"{key} '{value}' is not {digits} hexadecimal digits"
    fixed = len(value.replace('*', ''))
    if fixed == digits or (fixed < digits and '*' in value):
        return None
    if has_wildcard(value):
        return f"{key} '{value}' can never match {digits} hexadecimal digits"
    return f"{key} '{value}' is not {digits} hexadecimal digits"


def _problem_with_text(key: str, value: str) -> str | None:
    if not value.strip():
        return f'{key} is empty'
    # No value that the host reports could be equal.
    if value != value.strip() or not value.isprintable():
        return (
            f'{key} {value!r} has leading or trailing white space, or '
            'characters that are not printable'
        )
    return None


def problem_with_resource_class(name: str) -> str | None:
    """Return why a paragraph cannot have this resource class, or None."""
    if _is_custom(name) or name in DEVICE_CLASSES:
        return None
    accepted = 'use CUSTOM_ and capital letters, digits or _; PGPU; or FPGA'
    if name in os_resource_classes.STANDARDS:
        return (
            f'resource class {name} would let a slot satisfy requests for '
            f'{name}; {accepted}'
        )
    return f"'{name}' is not a resource class for a device: {accepted}"


def may_be_device(resource_class: str) -> bool:
    """Return whether a device can have this resource class."""
    return problem_with_resource_class(resource_class) is None


def problem_with_trait(name: str) -> str | None:
    """Return why the file cannot set this trait, or None."""
    if name.startswith(GENERATED_PREFIX):
        return (
            f'trait {name} belongs to the driver: it generates all traits '
            f'that begin with {GENERATED_PREFIX}'
        )
    if name.startswith('OWNER_'):
        return f'trait {name} belongs to the driver: it says who owns a device'
    if name in RESERVED_TRAITS:
        return f'trait {name} cannot be set here: {RESERVED_TRAITS[name]}'
    if name.startswith(('COMPUTE_', 'MISC_SHARES_')):
        return (
            f'trait {name} cannot be set here: it describes a compute node or '
            'a sharing provider, and would change what is scheduled to it'
        )
    if _is_custom(name) or name in _standard_traits():
        return None
    return (
        f"'{name}' is neither a standard trait of os-traits nor CUSTOM_ "
        'followed by capital letters, digits or _'
    )


def _is_custom(name: str) -> bool:
    return bool(_CUSTOM_NAME.fullmatch(name)) and len(name) <= _LONGEST_NAME


@functools.cache
def _standard_traits() -> frozenset[str]:
    return frozenset(os_traits.get_traits())
