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

"""Turns the text of an inventory file into a policy, or into its problems.

The schema says how the file is built, and :mod:`nova_powervm.devices.policy`
which values are valid. What no schema sees is checked here and by
:mod:`.yaml_document`, such as quotes and keys that occur twice.
"""

import contextlib
import importlib.resources
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml
from jsonschema import validators

from nova_powervm.devices import policy
from nova_powervm.inventory_file import messages
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_document
from nova_powervm.inventory_file.problems import Code
from nova_powervm.inventory_file.problems import Message
from nova_powervm.inventory_file.yaml_document import Path

#: Maximum size of the file in bytes.
MAX_BYTES = 1024 * 1024

_FILE = importlib.resources.files(__package__) / 'inventory.schema.json'
#: The schema of the file, which editors use, too.
SCHEMA: dict[str, Any] = json.loads(_FILE.read_text(encoding='utf-8'))


def parse(text: str | bytes, source: str) -> policy.Policy:
    """Parse the text of an inventory file.

    :param text: The text. Bytes are decoded as UTF-8, with or without a byte
        order mark. White space and comments alone are an empty policy.
    :param source: Path of the file, or a name such as ``<stdin>``, for
        messages and for the policy.
    :returns: The policy, with its paragraphs in the order of the text.
    :raises nova_powervm.exception.PolicyInvalid: The text has problems. The
        error's field ``problems`` is a tuple of :class:`~.problems.Problem`;
        its message has one line for each.
    """
    findings = problems.Findings()
    documents: tuple[yaml_document.Document, ...] = ()
    with contextlib.suppress(problems.StopReading):
        readable = _decode(text, findings)
        documents = yaml_document.read_documents(readable, findings)
        for document in documents:
            _Check(document, findings).check()
    findings.raise_any(source)
    return policy.Policy(tuple(_build(documents[0])), source)


def _decode(text: str | bytes, findings: problems.Findings) -> str:
    content = (
        text.encode(errors='surrogatepass') if isinstance(text, str) else text
    )
    if len(content) > MAX_BYTES:
        what = f'the file is larger than {MAX_BYTES} bytes'
        hint = 'check that [powervm]inventory_file names the right file'
        findings.stop(None, Code.TOO_LARGE, what, hint)
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        what = f'byte 0x{content[error.start]:02X} is not UTF-8'
        hint = 'save the file with the encoding UTF-8'
        mark = problems.find_mark(content[: error.start].decode())
        findings.stop(mark, Code.NOT_UTF8, what, hint)


def _build(document: yaml_document.Document) -> Iterator[policy.Paragraph]:
    for name, section in (document.data or {}).items():
        keys: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in section.items()
        }
        keys['identification'] = {
            key: policy.normal_value(key, value)
            for key, value in section['identification'].items()
        }
        line = document.keys[name,].start_mark.line + 1
        yield policy.Paragraph(name, line=line, **keys)


# Two keywords of the schema have functions of their own, which get the
# validator, the keyword's value, the instance and the schema.


def _find_text(_: Any, words: Any, instance: Any, *_schema: Any) -> Any:
    """Refuse text where the schema lists the words of booleans.

    An editor that reads YAML 1.2 takes yes and no for text. Here, only a word
    in quotes is text.
    """
    if not isinstance(instance, bool) or instance not in words:
        yield jsonschema.ValidationError('not a boolean')


def _find_doubled_items(
    _: Any, _wanted: Any, items: Any, *_schema: Any
) -> Any:
    """Find each trait that occurs earlier in a list, with its own path."""
    earlier = set()
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, str) and _is_trait(item):
            if item in earlier:
                yield jsonschema.ValidationError(
                    '', path=[index], instance=item
                )
            earlier.add(item)


_FORMATS = jsonschema.FormatChecker(formats=())


@_FORMATS.checks('powervm-trait')
def _is_trait(value: object) -> bool:
    return not isinstance(value, str) or not policy.problem_with_trait(value)


_Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {'enum': _find_text, 'uniqueItems': _find_doubled_items},
)
_VALIDATOR = _Validator(SCHEMA, format_checker=_FORMATS)


class _Check:
    """Checks a document."""

    def __init__(
        self, document: yaml_document.Document, findings: problems.Findings
    ) -> None:
        self._document = document
        self._findings = findings

    def check(self) -> None:
        """Check the keys, and the data with the schema."""
        for path, node, first in self._document.all_keys:
            self._check_key(path, node, first)
        for error in _VALIDATOR.iter_errors(self._document.data):
            if error.validator == 'additionalProperties':
                self._add_unknown_keys(error, tuple(error.path))
            else:
                self._add_misfit(error, tuple(error.path))

    def _check_key(
        self, path: Path, node: yaml.Node, first: yaml.Node | None
    ) -> None:
        subject, accepted = _describe_keys(path)
        if node.tag == yaml_document.MERGE:
            what = '<< is a merge key of YAML, which is not accepted'
            self._add(path, node, (Code.MERGE_KEY, what, 'write the keys out'))
        elif node.value != '' and not yaml_document.is_text(node):
            # An empty one has its own message, and so has a refused alias.
            misfit = messages.Misfit(subject, node, None, 'string', accepted)
            self._add(path, node, messages.describe('type', misfit))
        if first:
            name = problems.to_printable(str(node.value))
            line = first.start_mark.line + 1
            what = f"{subject} '{name}' appears twice, first in line {line}"
            hint = 'give each its own name, or remove one of them'
            self._add(path, node, (Code.DOUBLED_KEY, what, hint))

    def _add_unknown_keys(self, error: Any, path: Path) -> None:
        properties, accepted = (
            error.schema['properties'],
            _accepted(error.schema),
        )
        for key in error.instance:
            if key not in properties:
                message = messages.describe_unknown_key(
                    key, properties, accepted
                )
                self._add(path, self._document.keys[*path, key], message)

    def _add_misfit(self, error: Any, path: Path) -> None:
        value, keyword = error.instance, error.validator
        node, subject = self._document.values[path], _name_value(path)
        if 'propertyNames' in error.schema_path:
            node, subject = self._document.keys[value,], 'paragraph name'
        if node.tag == yaml_document.REFUSED and keyword != 'not':
            return
        rule = error.validator_value, _accepted(error.schema)
        misfit = messages.Misfit(subject, node, value, *rule)
        if len(path) == 1 or keyword == 'not':
            node = self._document.keys[path]
        self._add(path, node, messages.describe(keyword, misfit))

    def _add(self, path: Path, node: yaml.Node, message: Message) -> None:
        name = path[0] if path and isinstance(path[0], str) else ''
        self._findings.add(node.start_mark, message, name)


def _accepted(schema: dict[str, Any]) -> str:
    """Return what a part of the schema accepts, in words."""
    return str(schema['errorMessage'])


def _name_value(path: Path) -> str:
    if len(path) < 2:
        return 'the paragraph' if path else 'the file'
    return 'trait' if path[1] == 'traits' and path[2:] else str(path[-1])


def _describe_keys(path: Path) -> tuple[str, str]:
    """Name a key of the mapping at a path, and say which ones it takes."""
    paragraph = SCHEMA['additionalProperties']
    match path:
        case ():
            return 'paragraph name', _accepted(SCHEMA['propertyNames'])
        case (_,):
            return 'key', _accepted(paragraph)
        case (_, 'identification' as key):
            return f'{key} key', _accepted(paragraph['properties'][key])
    return 'key', 'keys are text'
