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

"""Parts of the JSON schema of worlds."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

Schema: TypeAlias = dict[str, Any]


def record(
    properties: Mapping[str, Schema],
    words: str = '',
    required: Sequence[str] = (),
) -> Schema:
    """Return the schema of a map with no other keys.

    :param words: what it is, as in all of these functions.
    """
    made = value('object', words, additionalProperties=False)
    if required:
        made['required'] = list(required)
    return made | {'properties': dict(properties)}


def array(items: Schema, words: str = '', **limits: Any) -> Schema:
    """Return the schema of a list."""
    return value('array', words, items=items, **limits)


def text(words: str = '', **limits: Any) -> Schema:
    """Return the schema of a text that is not empty."""
    return value('string', words, **({'minLength': 1} | limits))


def value(
    type_: str | Sequence[str], words: str = '', **limits: Any
) -> Schema:
    """Return the schema of a value of a type, or of one of several."""
    return _described(words, type=type_, **limits)


def boolean(words: str = '') -> Schema:
    """Return the schema of a truth value."""
    return value('boolean', words)


def choice(values: Sequence[str], words: str = '') -> Schema:
    """Return the schema of one of some values."""
    return _described(words, enum=list(values))


def ref(name: str, words: str = '') -> Schema:
    """Return the schema of what the definitions have under a name."""
    return _described(words, **{'$ref': f'#/$defs/{name}'})


def _described(words: str, **schema: Any) -> Schema:
    return {'description': words} | schema if words else schema
