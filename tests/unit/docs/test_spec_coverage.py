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

"""What the specifications' table names exists, and its tests run."""

import ast
import dataclasses
import functools
import re
import unittest

from tests.unit.docs import pages

PAGE = 'contributor/spec-coverage'

_ROW = re.compile(
    r'^   \* - (?P<number>\S+)\n'
    r'     - (?P<clause>.*(?:\n       .*)*)\n'
    r'     - (?P<held>.*(?:\n       .*)*)$',
    re.MULTILINE,
)
#: A row of three cells, of which each may have several lines.
_CELLS = re.compile(
    r'^   \* - (?P<number>.*(?:\n       .*)*)\n'
    r'     - (?P<clause>.*(?:\n       .*)*)\n'
    r'     - (?P<held>.*(?:\n       .*)*)$',
    re.MULTILINE,
)
_TEST = re.compile(r'``(tests\.[\w.]+)``')
#: A story, after the test that tells it.
_STORY = re.compile(r'``(tests\.[\w.]+)\.\w+`` \(``(story_\w+)``\)')
#: What ddt appends to the name of a test for each of its inputs.
_INPUT = r'_\d+(?:_\w+)?'
_DOCUMENT = re.compile(r'``doc: ([\w/-]+)``')
_DIFFERENCE = re.compile(r':ref:`difference (\d+) <difference-(\d+)>`')
_IN_WORDS = re.compile(
    r'\bdone by \S+'
    r'|\bopen: later\b'
    r'|\bnot in scope: \S+'
)
#: Letter of a specification in the numbers of its rows, and the number of
#: rows that it has at least.
SPECIFICATIONS = {'D': 98, 'C': 61, 'V': 32, 'O': 44, 'N': 27}


@dataclasses.dataclass(frozen=True)
class Row:
    """A clause of a specification."""

    number: str
    clause: str
    held: str

    @property
    def tests(self):
        return _TEST.findall(self.held)

    @property
    def stories(self):
        return [
            f'{class_}.{story}' for class_, story in _STORY.findall(self.held)
        ]

    @property
    def documents(self):
        return _DOCUMENT.findall(self.held)

    @property
    def has_status(self):
        return bool(
            self.tests
            or self.documents
            or _DIFFERENCE.search(self.held)
            or _IN_WORDS.search(self.held)
        )


def rows(text):
    """Return the rows of the tables, without their heads."""
    return [
        Row(match['number'], *map(pages.words, match.group('clause', 'held')))
        for match in _ROW.finditer(text)
        if match['number'] != 'No.'
    ]


def exists(test):
    """Return whether a test, a story, a class or a module of tests exists.

    The sources are parsed, not imported.
    """
    module = module_of(test)
    if module is None:
        return False
    path = pages.ROOT.joinpath(*module.split('.')).with_suffix('.py')
    names = test.split('.')[len(module.split('.')) :]
    return _holds(ast.parse(path.read_text()), names)


def module_of(test):
    """Return the module in the name of a test, or None."""
    parts = test.split('.')
    for end in range(len(parts), 0, -1):
        if pages.ROOT.joinpath(*parts[:end]).with_suffix('.py').is_file():
            return '.'.join(parts[:end])
    return None


def runs(test):
    """Return whether the loader finds a test, or tests, of this name.

    The name is that of a module, a class or a test. The name of a test that
    runs once for each of its inputs is that without the input.
    """
    module = module_of(test)
    wanted = re.compile(rf'{re.escape(test)}(?:\.[\w.]+|{_INPUT})?')
    return module is not None and any(map(wanted.fullmatch, _ids(module)))


@functools.cache
def _ids(module):
    """Return the ids of the tests of a module, as its loader finds them."""
    suites = [unittest.defaultTestLoader.loadTestsFromName(module)]
    ids = []
    for suite in suites:
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                suites.append(test)
            else:
                ids.append(test.id())
    return ids


def _holds(node, names):
    if not names:
        return True
    first, *rest = names
    return any(
        _holds(child, rest)
        for child in node.body
        if isinstance(child, ast.ClassDef | ast.FunctionDef)
        and child.name == first
    )


class SpecCoverageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = pages.documents()[PAGE]
        cls.rows = rows(cls.text)

    def test_parser_reads_every_row(self):
        entries = re.findall(r'^   \* - (\S+)$', self.text, re.MULTILINE)
        self.assertEqual(
            [entry for entry in entries if entry != 'No.'],
            [row.number for row in self.rows],
        )

    def test_rows_are_numbered_consecutively(self):
        counts = dict.fromkeys(SPECIFICATIONS, 0)
        for row in self.rows:
            letter = row.number[0]
            counts[letter] += 1
            self.assertEqual(f'{letter}{counts[letter]}', row.number)
        for letter, least in SPECIFICATIONS.items():
            self.assertGreaterEqual(counts[letter], least, letter)

    def test_rows_all_have_status(self):
        self.assertEqual([], [row for row in self.rows if not row.has_status])

    def test_tests_named_by_rows_run(self):
        missing = [
            (row.number, test)
            for row in self.rows
            for test in row.tests
            if not runs(test)
        ]
        self.assertEqual([], missing)

    def test_stories_named_by_rows_exist(self):
        stories = [
            (row.number, story) for row in self.rows for story in row.stories
        ]
        self.assertTrue(stories)
        self.assertEqual([], [pair for pair in stories if not exists(pair[1])])

    def test_documents_named_by_rows_exist(self):
        known = pages.documents()
        missing = [
            (row.number, document)
            for row in self.rows
            for document in row.documents
            if document not in known
        ]
        self.assertEqual([], missing)

    def test_differences_named_by_rows_exist(self):
        numbers = re.findall(
            r'^\.\. _difference-(\d+):\n\n(\d+)\. ',
            pages.documents()['admin/differences'],
            re.MULTILINE,
        )
        known = [str(number) for number in range(1, len(numbers) + 1)]
        self.assertEqual([(n, n) for n in known], numbers)
        named = {
            pair for row in self.rows for pair in _DIFFERENCE.findall(row.held)
        }
        # Each difference belongs to a clause.
        self.assertEqual({(n, n) for n in known}, named)

    def test_literals_of_rows_are_understood(self):
        # A misspelt test, story or document must not be skipped.
        for row in self.rows:
            understood = [
                *row.tests,
                *(story.rpartition('.')[2] for story in row.stories),
                *(f'doc: {document}' for document in row.documents),
            ]
            literals = re.findall(r'``(.*?)``', row.held)
            for literal in literals:
                if literal.startswith(('tests', 'story', 'doc')):
                    self.assertIn(literal, understood, row.number)


class PageReferencesTest(unittest.TestCase):
    def test_tests_named_by_pages_run(self):
        named = [
            (name, test)
            for name, text in pages.documents().items()
            for test in _TEST.findall(text)
        ]
        self.assertGreater(len({name for name, _ in named}), 1)
        self.assertEqual([], [pair for pair in named if not runs(pair[1])])

    def test_promises_of_one_time_use_page_have_tests(self):
        found = [
            Row(*match.group('number', 'clause', 'held'))
            for match in _CELLS.finditer(
                pages.documents()['admin/one-time-use']
            )
        ]
        heads = [row for row in found if row.held in ('Test', 'Tests')]
        self.assertEqual(2, len(heads))
        self.assertGreater(len(found), 20)
        self.assertEqual(heads, [row for row in found if not row.tests])


class SpecCoverageCheckTest(unittest.TestCase):
    """The checks above find errors."""

    def test_known_names_are_told_from_unknown_ones(self):
        module, name, method = self.id().rsplit('.', 2)
        for known in (module, f'{module}.{name}', f'{module}.{name}.{method}'):
            self.assertTrue(exists(known) and runs(known), known)
        for unknown in (
            f'{module}.Nobody',
            f'{module}.{name}.test_nothing',
            f'{self.id()}.more',
            'tests.unit.docs.test_nothing',
            'tests.nowhere.at.all',
        ):
            self.assertFalse(exists(unknown) or runs(unknown), unknown)

    def test_stories_and_classes_without_tests_do_not_run(self):
        for name in (
            'tests.functional.test_devices.DevicesTest.'
            'story_server_keeps_its_slot_until_it_is_deleted',
            'tests.functional.base.PowerVMTestCase',
        ):
            self.assertTrue(exists(name), name)
            self.assertFalse(runs(name), name)

    def test_name_stands_for_all_inputs_of_test(self):
        name = 'tests.unit.tool.rules.test_setting_lint.SettingLintTest.test_'
        self.assertTrue(runs(f'{name}good_flavor_has_no_finding'))
        self.assertFalse(runs(f'{name}good_flavor'))

    def test_stories_are_found_after_their_tests(self):
        held = 'x ``tests.a.B.test_c`` (``story_d``), ``story_e``'
        self.assertEqual(['tests.a.B.story_d'], Row('D1', '', held).stories)

    def test_has_status_requires_known_words(self):
        for held, expected in (
            ('``tests.unit``', True),
            ('``doc: index``', True),
            ('done by nova', True),
            (':ref:`difference 3 <difference-3>`', True),
            ('open: later', True),
            ('not in scope: the reason', True),
            ('', False),
            ('open', False),
            ('open: part 4', False),
            ('not in scope', False),
            ('fine', False),
        ):
            self.assertEqual(
                expected, Row('D1', 'A clause.', held).has_status, held
            )
