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

"""Inventory files and worlds that the user supplies."""

import dataclasses
import pathlib

from nova_powervm import exception
from nova_powervm import inventory_file
from powervm_emulator import worlds
from powervm_emulator.core import errors


class UserFileError(Exception):
    """A file of the user can't be used; the message names it."""


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A paragraph that offers devices."""

    name: str
    resource_class: str


def read_paragraphs(path: pathlib.Path) -> list[Paragraph]:
    """Return the paragraphs that offer devices.

    The file is checked as nova-compute and cyborg-agent check it.

    :raises UserFileError: the file can't be read, or has problems.
    """
    try:
        path.open('rb').close()
        policy = inventory_file.load(str(path.absolute()))
    except OSError as error:
        raise UserFileError(f'{path}: {error.strerror}') from error
    except exception.PowerVMError as error:
        raise UserFileError(str(error)) from error
    return [
        Paragraph(paragraph.name, paragraph.resource_class)
        for paragraph in policy.paragraphs
        if paragraph.allow
    ]


def check_world(path: pathlib.Path) -> None:
    """Verify that a file has the form of a world of the emulator.

    :raises UserFileError: the file can't be read, or is not a valid world.
    """
    try:
        worlds.load_file(str(path))
    except errors.WorldError as error:
        raise UserFileError(str(error)) from error
