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

"""World documents, which describe the emulated host at its start."""

import copy
import functools
import importlib.resources
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

import jsonschema
import yaml

from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.worlds import builder
from powervm_emulator.worlds import checks
from powervm_emulator.worlds import world_schema

World: TypeAlias = dict[str, Any]
schema = world_schema.schema
# Of whole numbers and fractions, in whatever unit.
_LARGEST = 10**12
_PACKAGE = 'powervm_emulator'


if TYPE_CHECKING or not yaml.__with_libyaml__:
    _SafeLoader = yaml.SafeLoader
else:

    class _SafeLoader(yaml.composer.Composer, yaml.CSafeLoader):
        """Reads in C, which is many times as fast, and not everywhere.

        What C composes can be nested too deeply for its stack.
        """

        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            yaml.composer.Composer.__init__(self)


class _Loader(_SafeLoader):
    """A safe loader that rejects duplicate keys."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        """Return the values of a mapping.

        :raises yaml.YAMLError: the mapping has a duplicate key.
        """
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'duplicate key {key.value!r}', key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def default() -> World:
    """Return the world that the emulator starts with."""
    file = importlib.resources.files(_PACKAGE) / 'worlds' / 'default.yaml'
    return copy.deepcopy(_default(file.read_text(encoding='utf-8')))


def load_file(path: str) -> World:
    """Read and validate the world in a YAML file.

    Relative paths of captures start at the folder of the file.

    :raises errors.WorldError: the file can't be read, or is not a valid
        world. Each problem begins with the path of the file.
    """
    try:
        text = pathlib.Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise errors.WorldError(f'{path}: {reason}') from error
    world = parse(text, path)
    _complete_paths(world, pathlib.Path(path).parent)
    return world


def parse(text: str, name: str) -> World:
    """Parse and validate a world in YAML.

    :param text: the YAML.
    :param name: the name of the text, with which each problem begins.
    :raises errors.WorldError: the text is not a valid world.
    """
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: an impossible date. RecursionError: nested too deeply.
        raise errors.WorldError(f'{name} is not YAML: {error}') from error
    try:
        return check(document)
    except errors.WorldError as error:
        problems = [f'{name}: {problem}' for problem in error.problems]
        raise errors.WorldError(*problems) from error


def check(document: object) -> World:
    """Validate a document and return it as a world.

    :raises errors.WorldError: the document is not a valid world. The error
        lists every problem with the path to the value.
    """
    problems = [
        f'{_path(error.absolute_path)}: {error.message}'
        for error in _validator().iter_errors(document)
    ]
    problems += _absurd_numbers(document, '')
    if not problems and isinstance(document, dict):
        problems = list(checks.problems(document))
    if problems or not isinstance(document, dict):
        raise errors.WorldError(*sorted(problems))
    return document


def _absurd_numbers(value: object, path: str) -> Iterator[str]:
    """Yield the numbers that YAML can write and no host can have."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _absurd_numbers(item, f'{path}.{key}'.lstrip('.'))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _absurd_numbers(item, f'{path}[{number}]')
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST:
        yield f'{path}: {value} is no size that a host can have'


def build(host: host_module.Host, world: World) -> None:
    """Fill an empty host with the resources of a world.

    :param world: a validated world document.
    :raises errors.WorldError: a named capture does not exist, or a rule of
        the host forbids something in the world.
    """
    try:
        builder.build(host, world)
    except errors.RestError as error:
        raise errors.WorldError(error.message) from error


def _complete_paths(node: object, folder: pathlib.Path) -> None:
    """Complete the paths of captures in a valid document."""
    if isinstance(node, list):
        for value in node:
            _complete_paths(value, folder)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == 'capture' and '/' in value.get('file', ''):
                value['file'] = str((folder / value['file']).absolute())
            _complete_paths(value, folder)


@functools.cache
def _default(text: str) -> World:
    return parse(text, 'the default world')


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(world_schema.schema())


def _path(parts: Any) -> str:
    """Return the path to a value in dotted form, such as ``a.b[0]``."""
    text = ''
    for part in parts:
        text += f'[{part}]' if isinstance(part, int) else f'.{part}'
    return text.lstrip('.') or 'the document'
