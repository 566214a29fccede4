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

"""The names of tests follow the rule of HACKING.rst."""

import ast
import re
import unittest

from tests.unit.docs import pages

#: Words that tell nothing of what is tested, at the beginning of a name.
VAGUE = frozenset(
    re.findall(
        r'\w+',
        """
        a all an another any anybody anyone anything both each either every
        everybody everyone everything few he it many neither no nobody none
        nothing of one other others several she some somebody someone
        something that the their there these they this those three two what
        whatever which who whoever whose
        """,
    )
)

#: The subject, although it begins with a word of that list.
_ONE_TIME_USE = 'one_time_use_'

_TEST = re.compile(r'(?:test|story)_(?P<rest>\w+)')


def breaks_rule(name):
    """Whether the name of a test or story does not say what is expected."""
    rest = _TEST.fullmatch(name)['rest']
    first, _, more = rest.partition('_')
    if rest.startswith(_ONE_TIME_USE):
        return False
    return not more or first in VAGUE


def classes():
    """Yield path and node of each class below tests that holds tests."""
    for path in sorted((pages.ROOT / 'tests').rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and list(names_in(node)):
                yield path.relative_to(pages.ROOT), node


def names_in(node):
    """Yield the names of the tests and stories of a class."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and _TEST.fullmatch(
            method.name
        ):
            yield method.name


class RuleTest(unittest.TestCase):
    def test_rule_rejects_single_word_and_vague_first_word(self):
        for name in ('test_boot', 'test_what_is_not_is', 'story_a_port_goes'):
            with self.subTest(name):
                self.assertTrue(breaks_rule(name))

    def test_rule_accepts_subject_and_verb(self):
        for name in (
            'test_confirm_skips_reusable_device',
            'story_one_time_use_device_stays_burned',
        ):
            with self.subTest(name):
                self.assertFalse(breaks_rule(name))


class NamesTest(unittest.TestCase):
    def test_names_of_tests_follow_rule(self):
        wrong = [
            f'{path}:{node.name}.{name}'
            for path, node in classes()
            for name in names_in(node)
            if breaks_rule(name)
        ]
        self.assertEqual([], wrong, 'See "Tests" in HACKING.rst.')

    def test_names_of_test_classes_end_in_test_or_mixin(self):
        found = list(classes())
        self.assertGreater(len(found), 300)
        wrong = [
            f'{path}:{node.name}'
            for path, node in found
            if not node.name.endswith(('Test', 'TestCase', 'Mixin'))
        ]
        self.assertEqual([], wrong, 'See "Tests" in HACKING.rst.')


class DiscoveryTest(unittest.TestCase):
    def test_runners_find_every_folder_of_tests(self):
        # They pass over a folder without this file in silence.
        folders = {path.parent for path, _ in classes()}
        self.assertEqual(
            [],
            [
                str(folder)
                for folder in sorted(folders)
                if not (pages.ROOT / folder / '__init__.py').exists()
            ],
        )
