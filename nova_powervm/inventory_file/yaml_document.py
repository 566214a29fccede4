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

"""YAML text to a graph of nodes, or what is wrong with it as YAML.

Nodes, not values: only a node knows its line and how it was written.
"""

import dataclasses

import yaml

from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_loader


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    line: int
    column: int


def compose_document(
    text: str, findings: problems.Findings
) -> yaml.Node | None:
    """Read the one document of a YAML text.

    :param text: The text.
    :param findings: Gets what is wrong with the text as YAML.
    :returns: The root node; None if the text holds nothing or is no YAML.
    """
    try:
        reader = yaml_loader.InventoryLoader(text, findings)
    except yaml.reader.ReaderError as error:
        findings.add(
            _place(text, error.position),
            f'character {_code(error.character)} is not allowed in YAML',
            'remove it; the file is plain UTF-8 text',
        )
        return None
    try:
        return _single_document(reader, findings)
    except yaml_loader.StopReading as stop:
        reader.findings_at(stop.mark).add(stop.mark, stop.what, stop.hint)
    except yaml.MarkedYAMLError as error:
        _add_syntax_error(reader, error)
    except (ValueError, OverflowError):
        # PyYAML lets these out for an escape beyond Unicode ("\UFFFFFFFF")
        # and for a %YAML directive with an absurdly long number.
        findings.add(
            reader.get_mark(),
            'this is not valid YAML: a number is out of range',
            'write the value without escapes or directives',
        )
    finally:
        reader.dispose()
    return None


def _single_document(
    reader: yaml_loader.InventoryLoader, findings: problems.Findings
) -> yaml.Node | None:
    reader.next_event()
    if reader.check_event(yaml.StreamEndEvent):
        return None
    root = reader.compose_document()
    if not reader.check_event(yaml.StreamEndEvent):
        second = reader.first_event()
        findings.add(
            second.start_mark,
            'a second YAML document begins here, but only one is accepted',
            'put all paragraphs into one document: remove the line ---',
        )
    return root


def _add_syntax_error(
    reader: yaml_loader.InventoryLoader, error: yaml.MarkedYAMLError
) -> None:
    mark = error.problem_mark or reader.get_mark()
    context = f' {error.context}' if error.context else ''
    what = f'this is not valid YAML:{context}: {error.problem}'
    reader.findings_at(mark).add(
        mark, what.replace(':: ', ': '), _hint_for_syntax(error)
    )


def _hint_for_syntax(error: yaml.MarkedYAMLError) -> str:
    text = f'{error.context} {error.problem}'
    if '\\t' in text:
        return 'replace tabs by spaces; YAML takes no tabs here'
    if 'cannot start' in text:
        return 'a value that begins with this character has to be quoted'
    if 'mapping values' in text:
        return (
            'a value with a colon and a space has to be quoted; otherwise '
            'look at the indentation of this line and the one before'
        )
    return 'look at the indentation, colons and quotes here and just before'


def _place(text: str, position: int) -> _Place:
    before = text[:position]
    return _Place(before.count('\n'), len(before) - (before.rfind('\n') + 1))


def _code(character: str | int) -> str:
    code = ord(character) if isinstance(character, str) else character
    return f'U+{code:04X}'
