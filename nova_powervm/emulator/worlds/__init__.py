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

"""World documents: what the emulated host is when it starts."""

import copy
import functools
import importlib.resources
import json
import pathlib
from typing import Any
from typing import TypeAlias

import jsonschema
import yaml

from nova_powervm.emulator import errors
from nova_powervm.emulator.state import host as host_module
from nova_powervm.emulator.worlds import builder
from nova_powervm.emulator.worlds import checks

World: TypeAlias = dict[str, Any]

_PACKAGE = 'nova_powervm.emulator'


def schema() -> dict[str, Any]:
    """Return the JSON schema of world documents."""
    file = importlib.resources.files(_PACKAGE) / 'world.schema.json'
    loaded: dict[str, Any] = json.loads(file.read_text(encoding='utf-8'))
    return loaded


def default() -> World:
    """Return the world that the emulator starts with."""
    file = importlib.resources.files(_PACKAGE) / 'worlds' / 'default.yaml'
    return copy.deepcopy(_default(file.read_text(encoding='utf-8')))


def load_file(path: str) -> World:
    """Return the world in a YAML file, checked.

    :raises errors.WorldError: it is not a world.
    """
    try:
        text = pathlib.Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeError) as error:
        raise errors.WorldError([f'{path}: {error}']) from error
    return parse(text, path)


def parse(text: str, name: str) -> World:
    """Return the world in a YAML text, checked.

    :param name: of the text, for messages.
    :raises errors.WorldError: it is not a world.
    """
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The last two: a date that is none, lists that are too deep.
        raise errors.WorldError([f'{name} is not YAML: {error}']) from error
    return check(document)


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        """Return a mapping's values.

        :raises yaml.YAMLError: a key stands there twice.
        """
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'{key.value!r} is there twice', key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def check(document: object) -> World:
    """Return a document if it is a world.

    :raises errors.WorldError: with every problem and the path to its value.
    """
    problems = [
        f'{_path(error.absolute_path)}: {error.message}'
        for error in _validator().iter_errors(document)
    ]
    if not problems and isinstance(document, dict):
        problems = list(checks.problems(document))
    if problems or not isinstance(document, dict):
        raise errors.WorldError(sorted(problems))
    return document


def build(host: host_module.Host, world: World) -> None:
    """Fill an empty host with a world's resources.

    :param world: checked.
    :raises errors.WorldError: a capture that it names is not there.
    """
    builder.build(host, world)


@functools.cache
def _default(text: str) -> World:
    return parse(text, 'the default world')


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def _path(parts: Any) -> str:
    """Return the path to a value as people write it."""
    text = ''
    for part in parts:
        text += f'[{part}]' if isinstance(part, int) else f'.{part}'
    return text.lstrip('.') or 'the document'
