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

"""Clauses and rows of the matrix have tests, and tests name what exists."""

import ast
import pathlib
import re
import sys
import unittest

from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import proofs_text

#: Letter of a specification in the numbers of its clauses, and how many.
SPECIFICATIONS = {'D': 98, 'C': 61, 'V': 32, 'O': 44, 'N': 27}
_TESTS_FILE = re.compile(r'``(tests/[\w/.]+)``')
_TEST = re.compile(r'``tests\.[\w.]+|\b(?:test|story)_\w+``|\w+Test``')


class ProofsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = pages.documents()['contributor/spec-coverage']
        cls.clauses = list(proofs_text.clauses(text))
        cls.rows = proofs_text.rows()
        cls.proofs = proofs_text.proofs()

    def test_clauses_are_numbered_consecutively(self):
        numbers = [
            f'{letter}{number}'
            for letter, count in SPECIFICATIONS.items()
            for number in range(1, count + 1)
        ]
        self.assertEqual(numbers, [clause.number for clause in self.clauses])

    def test_clauses_have_tests_or_say_why_not(self):
        wrong = [
            clause
            for clause in self.clauses
            if clause.needs_test and clause.number not in self.proofs
        ]
        self.assertEqual([], wrong)

    def test_supported_rows_have_tests_and_missing_rows_do_not(self):
        supported = {
            key
            for key, row in self.rows.items()
            if row['driver.powervm'] in ('complete', 'partial')
        }
        self.assertEqual(supported, self.rows.keys() & self.proofs.keys())

    def test_tests_prove_what_exists(self):
        numbers = {clause.number for clause in self.clauses}
        self.assertLessEqual({*self.proofs}, numbers | {*self.rows})

    def test_differences_belong_to_clauses(self):
        numbers = re.findall(
            r'^\.\. _difference-(\d+):\n\n\1\. ',
            pages.documents()['admin/differences'],
            re.MULTILINE,
        )
        named = {n for clause in self.clauses for n in clause.differences}
        self.assertEqual({*numbers}, named)

    def test_proofs_are_tests_and_stories_of_modules_with_tests(self):
        for test in {test for tests in self.proofs.values() for test in tests}:
            self.assertRegex(
                test, r'^tests(\.\w+)+\.test_\w+\.\w+(\.(test|story)_\w+)?$'
            )


class PagesTest(unittest.TestCase):
    def test_pages_for_operators_name_no_tests(self):
        for name, text in pages.documents().items():
            if not name.startswith('contributor/'):
                with self.subTest(name):
                    self.assertEqual([], _TEST.findall(text))

    def test_files_of_tests_named_by_pages_exist(self):
        for name, text in pages.documents().items():
            for file in _TESTS_FILE.findall(text):
                with self.subTest(name, file=file):
                    self.assertTrue((pages.ROOT / file).exists())


class DiscoveryTest(unittest.TestCase):
    def test_classes_with_stories_tell_them(self):
        silent = []
        for path in (pages.ROOT / 'tests/functional').glob('*.py'):
            tree = ast.parse(path.read_text())
            classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
            telling = {
                name
                for each in classes
                if '.tell_stories(' in ast.unparse(each)
                for name in (each.name, *map(ast.unparse, each.bases))
            }
            silent += [
                f'{path.name}: {each.name}'
                for each in classes
                if 'def story_' in ast.unparse(each)
                and each.name not in telling
            ]
        self.assertEqual([], silent)

    def test_runners_find_every_folder_of_tests(self):
        # They pass over a folder without this file in silence.
        folders = {
            path.parent for path in (pages.ROOT / 'tests').rglob('test_*.py')
        }
        self.assertIn(pathlib.Path(__file__).parent, folders)
        self.assertEqual(
            [], [f for f in folders if not (f / '__init__.py').exists()]
        )
