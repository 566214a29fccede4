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

"""Reading the arguments of the control plane's verbs."""

from nova_powervm.emulator.core import errors
from nova_powervm.emulator.nouns.partition import model as partition_module


def check_choice(
    name: str, value: str | None, choices: tuple[str, ...]
) -> None:
    """Verify that an argument, unless None, is one of several values.

    :param name: the name of the argument.
    :raises errors.ControlError: it is another value.
    """
    if value is not None and value not in choices:
        known = ', '.join(repr(str(choice)) for choice in choices)
        raise errors.ControlError(f'{name} {value!r} is not one of {known}')


def parse_drc_index(text: str) -> int:
    """Return a DRC index given in hexadecimal as a number.

    :raises errors.ControlError: the text is not a hexadecimal number.
    """
    try:
        return int(text, 16)
    except (TypeError, ValueError) as error:
        raise errors.ControlError(
            f'{text!r} is not a DRC index in hexadecimal'
        ) from error


def format_drc_index(text: str) -> str:
    """Return a DRC index given in hexadecimal with eight digits.

    :raises errors.ControlError: the text is not a hexadecimal number.
    """
    return f'{parse_drc_index(text):08X}'


def is_named(partition: partition_module.Partition, name: str | int) -> bool:
    """Tell whether a partition has this UUID, name or id."""
    return str(name).upper() == partition.uuid.upper() or str(name) in (
        partition.name,
        str(partition.id),
    )
