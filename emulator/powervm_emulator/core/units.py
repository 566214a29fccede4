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

"""Sizes of storage: GB, of 2 to the 30 bytes, as the REST API writes them."""

import re

from powervm_emulator.core import content
from powervm_emulator.core import errors

_GB = 1 << 30
_NUMBER = re.compile(r'[0-9]{1,9}(\.[0-9]{1,12})?')


def gigabytes(value: float) -> str:
    """Return GB as the REST API writes them: ``1``, ``0.125``."""
    text = f'{value:.6f}'.rstrip('0').rstrip('.')
    return '0' if text == '-0' else text


def to_bytes(value: float) -> int:
    """Return GB in bytes."""
    return round(value * _GB)


def of_bytes(size: int) -> float:
    """Return bytes in GB."""
    return size / _GB


def read(element: content.Element, name: str) -> float:
    """Return the GB that a client has sent.

    :raises errors.Refused: it is no number above 0, or too small.
    """
    text = content.text(element, name)
    # Less than the last decimal that the API writes would be served as 0.
    if not _NUMBER.fullmatch(text) or gigabytes(float(text)) == '0':
        raise errors.Refused(f'{text!r} is not a size in GB for {name}.')
    return float(text)


def round_up(value: float, unit: float) -> float:
    """Return the least multiple of a unit that holds GB; unit 0 is none."""
    if not unit:
        return value
    return -(-to_bytes(value) // to_bytes(unit)) * unit
