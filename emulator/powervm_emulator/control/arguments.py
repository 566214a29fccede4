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

import jsonschema

from powervm_emulator import worlds
from powervm_emulator.core import errors
from powervm_emulator.core import resource
from powervm_emulator.core import san as san_module
from powervm_emulator.nouns.partition import model as partition_module


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


def slot(drc_index: str, card: resource.JSON) -> resource.JSON:
    """Return the description of a slot with a card.

    :raises errors.ControlError: a world could not have that slot.
    """
    for key in ('owner', 'drc_index'):
        if key in card:
            raise errors.ControlError(f'a card has no {key}')
    spec = {**card, 'drc_index': f'{parse_drc_index(drc_index):08X}'}
    worlds.check({'systems': [{'name': 'any', 'slots': [spec]}]})
    return spec


def san(arrays: list[resource.JSON]) -> san_module.San:
    """Return the storage area network that arrays make up.

    :raises errors.ControlError: the arrays are not as they should be.
    """
    validator = jsonschema.Draft202012Validator(san_module.SCHEMA)
    problems = [
        f'arrays{error.json_path[1:]}: {error.message}'
        for error in validator.iter_errors(arrays)
    ]
    problems = problems or list(san_module.problems(arrays))
    if problems:
        raise errors.ControlError('\n'.join(problems))
    return san_module.San(arrays)


def is_named(partition: partition_module.Partition, name: str | int) -> bool:
    """Return whether a partition has this UUID, name or id."""
    return str(name).upper() == partition.uuid.upper() or str(name) in (
        partition.name,
        str(partition.id),
    )
