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

"""Values of an element as attributes of the class that wraps it."""

from collections.abc import Callable
from typing import Generic
from typing import Protocol
from typing import TypeVar

from powervm_emulator.core import content

T = TypeVar('T')


class _Holder(Protocol):
    @property
    def element(self) -> content.Element:
        """What the values are read from, each time anew."""


class _Field(Generic[T]):
    """An attribute that is the value at a path of ``element``."""

    def __init__(
        self,
        read: Callable[[content.Element, str, T], T],
        path: str,
        default: T,
    ) -> None:
        self._read = read
        self._path = path
        self._default = default

    def __get__(self, holder: _Holder, _type: type) -> T:
        return self._read(holder.element, self._path, self._default)


def text(path: str, default: str = '') -> _Field[str]:
    """Return an attribute that is a text."""
    return _Field(content.text, path, default)


def integer(path: str, default: int = 0) -> _Field[int]:
    """Return an attribute that is a whole number."""
    return _Field(content.integer, path, default)


def number(path: str, default: float = 0.0) -> _Field[float]:
    """Return an attribute that is a number."""
    return _Field(content.number, path, default)


def boolean(path: str, default: bool = False) -> _Field[bool]:
    """Return an attribute that is a truth value."""
    return _Field(content.boolean, path, default)
