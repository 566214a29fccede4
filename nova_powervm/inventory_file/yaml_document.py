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

"""Reads YAML text into data, with the place of each key and value.

PyYAML composes the text. Anchors, aliases, merge keys and tags hide the
content of a file, and deep nesting and many values cost stack, memory and
time: all of them are refused before anything is expanded.
"""

import re
from typing import Any

import yaml

from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file.problems import Code

#: Keys and indexes that lead to a value; None for a key that is not text.
Path = tuple[str | int | None, ...]

#: The file needs three levels: paragraphs, their keys, identification keys.
#: The limit is far below the depth at which Python runs out of stack.
MAX_DEPTH = 10
#: Maximum number of keys, values, mappings and lists, for which PyYAML needs a
#: few seconds. The file of the largest host has a tenth of it.
MAX_NODES = 30_000

MERGE = 'tag:yaml.org,2002:merge'
#: Tag of a refused alias.
REFUSED = 'refused'
_TEXT = 'tag:yaml.org,2002:str'
_BOOLEAN = 'tag:yaml.org,2002:bool'
_NULL = 'tag:yaml.org,2002:null'
_TYPES = {
    'tag:yaml.org,2002:int': 'a number',
    'tag:yaml.org,2002:float': 'a number',
    'tag:yaml.org,2002:timestamp': 'a date',
    'tag:yaml.org,2002:value': 'a default value',
    _BOOLEAN: 'true or false',
    _NULL: 'no value',
    MERGE: 'a merge key',
}
#: The words of YAML 1.1 for booleans, without on and off.
BOOLEANS = {
    form: value
    for value, words in ((True, ('true', 'yes')), (False, ('false', 'no')))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
# Where a value within brackets ends.
_ENDS = re.compile(r'[\s,\[\]{}]')
# What PyYAML's words for a syntax error mean; the first that occurs.
_CAUSES = {
    r'\t': 'replace tabs by spaces; YAML does not accept tabs here',
    'cannot start': (
        'a value that begins with this character has to be quoted'
    ),
    'mapping values': (
        'a value with a colon and a space has to be quoted; otherwise check '
        'the indentation of this line and the one before'
    ),
    '': 'check the indentation, colons and quotes here and just before',
}


class Document:
    """A document: its data, and the nodes that they come from.

    :param root: The root node; None without one.
    :param last: Whether the last of doubled keys counts, or else the first.
    :ivar data: Mappings, lists, texts and booleans. A scalar that is none of
        these, or that can't be printed, remains a node.
    :ivar values: Path of a value to its node.
    :ivar keys: Path of a value to the node of its key.
    :ivar all_keys: All keys, each with the path of its mapping, its node, and
        the node of the same key earlier in the mapping.
    """

    def __init__(self, root: yaml.Node | None, *, last: bool = True) -> None:
        self._last = last
        self.values: dict[Path, yaml.Node] = {}
        self.keys: dict[Path, yaml.Node] = {}
        self.all_keys: list[tuple[Path, yaml.Node, yaml.Node | None]] = []
        self.data = self._convert(root, ()) if root else None

    def _convert(self, node: yaml.Node, path: Path) -> Any:
        """Convert a node to data, and remember its places."""
        self.values[path] = node
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self._convert(item, (*path, n)) for n, item in items]
        if isinstance(node, yaml.MappingNode):
            return self._convert_mapping(node, path)
        if node.tag == _BOOLEAN:
            return BOOLEANS.get(node.value, node)
        return node.value if is_text(node) else node

    def _convert_mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        earlier: dict[str | None, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = _read_key(key_node)
            first = earlier.get(key)
            self.all_keys.append((path, key_node, first))
            if key is None:
                # Only the keys in it are checked.
                self._convert(key_node, (*path, None))
                self._convert(value_node, (*path, None))
            elif self._last or first is None:
                earlier.setdefault(key, key_node)
                self.keys[*path, key] = key_node
                data[key] = self._convert(value_node, (*path, key))
        return data


def is_blank(node: yaml.Node) -> bool:
    """Return whether the value is missing in the text."""
    return node.tag == _NULL and not node.value


def is_text(node: yaml.Node) -> bool:
    """Return whether the node is text that can be printed."""
    return find_other_type(node) is None and node.value.isprintable()


def find_other_type(node: yaml.Node) -> str | None:
    """Find the type other than text that YAML 1.1 gives to a scalar.

    :returns: The type in words; None if it is text.
    """
    if node.tag == _TEXT:
        # PyYAML knows the longer words only.
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        is_word = plain and node.value in ('y', 'Y', 'n', 'N')
        return _TYPES[_BOOLEAN] if is_word else None
    kind = _TYPES.get(node.tag, node.tag)
    return 'a time' if kind == 'a number' and ':' in node.value else kind


def read_documents(
    text: str, findings: problems.Findings
) -> tuple[Document, ...]:
    """Read the single document of a text.

    :param text: The text.
    :param findings: Collects what is wrong with the YAML.
    :returns: The document; if keys are doubled, one document with the last of
        each and one with the first, so that both can be checked.
    :raises problems.StopReading: It can't be read to its end.
    """
    root = _compose(text, findings)
    document = Document(None if root is None or is_blank(root) else root)
    if any(first for _, _, first in document.all_keys):
        return document, Document(root, last=False)
    return (document,)


def _read_key(node: yaml.Node) -> str | None:
    """Return the text of a key; None if it has none."""
    if isinstance(node, yaml.ScalarNode) and node.tag not in (MERGE, REFUSED):
        return str(node.value)
    return None


def _compose(text: str, findings: problems.Findings) -> yaml.Node | None:
    """Compose the nodes; return None if the text has none."""
    try:
        composer = _Composer(text, findings)
    except yaml.reader.ReaderError as error:
        character = error.character
        code = ord(character) if isinstance(character, str) else character
        what = f'character U+{code:04X} is not allowed in YAML'
        hint = 'remove it; the file is plain UTF-8 text'
        mark = problems.find_mark(text[: error.position])
        findings.stop(mark, Code.BAD_CHARACTER, what, hint)
    try:
        return composer.compose_only_document()
    except yaml.MarkedYAMLError as error:
        composer.add_syntax_error(error)
        raise problems.StopReading from error
    except (ValueError, OverflowError):
        # PyYAML raises these for an escape beyond Unicode ("\UFFFFFFFF")
        # and for a %YAML directive with a very long number.
        what = 'this is not valid YAML: a number is out of range'
        hint = 'write the value without escapes or directives'
        findings.stop(composer.get_mark(), Code.BAD_YAML, what, hint)
    finally:
        composer.dispose()


class _Composer(yaml.SafeLoader):
    """Composes nodes, and reports features that the file must not use."""

    def __init__(self, text: str, findings: problems.Findings) -> None:
        super().__init__(text)
        self._text = text
        self._findings = findings
        self._depth = 0
        self._count = 0
        self._name: yaml.Node | None = None
        # PyYAML's stubs have no types for its methods.
        self._untyped: Any = self

    def compose_only_document(self) -> yaml.Node | None:
        """Compose the document; return None if there is none."""
        self._untyped.get_event()
        if self.check_event(yaml.StreamEndEvent):
            return None
        root: yaml.Node = self._untyped.compose_document()
        if not self.check_event(yaml.StreamEndEvent):
            self._add(
                self._untyped.peek_event().start_mark,
                Code.SECOND_DOCUMENT,
                'a second YAML document begins here, but only one is accepted',
                'put all paragraphs into one document: remove the line ---',
            )
        return root

    def add_syntax_error(self, error: yaml.MarkedYAMLError) -> None:
        """Report an error of PyYAML's as a problem, with a likely cure."""
        mark = error.problem_mark or self.get_mark()
        context = f' {error.context}' if error.context else ''
        reason = f'{context}: {error.problem}'
        what = f'this is not valid YAML:{reason}'.replace(':: ', ': ')
        causes = (hint for sign, hint in _CAUSES.items() if sign in reason)
        code, hint = Code.BAD_YAML, next(causes)
        if "'?'" in reason and 'a flow' in reason:
            before, after = self._text[: mark.index], self._text[mark.index :]
            word = _ENDS.split(before[-60:])[-1] + _ENDS.split(after[:60])[0]
            name = problems.to_printable(word)
            what = f'{name} has a ? without quotes in brackets'
            code, hint = Code.NEEDS_QUOTES, problems.hint_to_quote(word)
        self._add(mark, code, what, hint)

    def fetch_alias(self) -> None:
        """Scan an alias as text without quotes.

        A leading star is more often a wildcard. Scanned as text, its whole
        value can be reported, and reading continues.
        """
        self._untyped.fetch_plain()

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Compose the next node with its children."""
        if self._depth == 1:
            # The index of a value is its name; a name has none.
            self._name = index
        event = self._untyped.peek_event()
        self._check_size(event.start_mark)
        self._refuse_extras(event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and not node.style:
            self._refuse_alias(node)
        return node

    def _add(self, mark: yaml.Mark, *message: Any) -> None:
        """Add a problem, with the name of the paragraph at its place.

        At the left margin begins the next one, whose name is not known yet.
        """
        name = ''
        if isinstance(self._name, yaml.ScalarNode):
            start = self._name.start_mark
            if mark.line == start.line or mark.column > start.column:
                name = str(self._name.value)
        self._findings.add(mark, message, name)

    def _check_size(self, mark: yaml.Mark) -> None:
        self._count += 1
        if self._depth == MAX_DEPTH:
            what = f'values are nested more than {MAX_DEPTH} levels deep'
            hint = 'the file needs three: paragraph, section, value'
            self._add(mark, Code.TOO_DEEP, what, hint)
            raise problems.StopReading
        if self._count > MAX_NODES:
            what = f'the file has more than {MAX_NODES} keys and values'
            hint = 'use wildcards, or leave out the slots of other hosts'
            self._add(mark, Code.TOO_MANY_VALUES, what, hint)
            raise problems.StopReading

    def _refuse_extras(self, event: Any) -> None:
        mark = event.start_mark
        if event.anchor is not None:
            name = problems.to_printable(event.anchor)
            what = f'&{name} is an anchor of YAML, which is not accepted'
            hint = 'leave it out; a value that begins with & has to be quoted'
            self._add(mark, Code.ANCHOR, what, hint)
        if event.tag is not None:
            what = 'tags of YAML (!...) are not accepted'
            hint = (
                'leave the tag out; a value that begins with ! has to be '
                'quoted, and quotes make any value text'
            )
            self._add(mark, Code.TAG, what, hint)
        event.anchor = event.tag = None

    def _refuse_alias(self, node: yaml.ScalarNode) -> None:
        if node.value.startswith('*'):
            name = problems.to_printable(node.value)
            what = f'YAML reads {name} as an alias, which is not accepted'
            hint = (
                f'{problems.hint_to_quote(node.value)}, if the star is a '
                'wildcard; otherwise write out what it stands for'
            )
            self._add(node.start_mark, Code.ALIAS, what, hint)
            node.tag, node.value = REFUSED, ''
