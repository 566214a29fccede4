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

"""Documents list all messages and reasons."""

import ast
import dataclasses
import inspect
import re
import unittest

from nova_powervm import exception
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.inventory_file import file_reader
from nova_powervm.ops import plan_log
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import diff
from nova_powervm.tool.rules import differences
from tests.unit.docs import pages

#: Functions that log lines of each level.
_ALERTS = {
    'ERROR': ('LOG.error', 'LOG.exception'),
    'WARNING': ('LOG.warning',),
}
_NEWS = ('LOG.info',)

#: Codes of the reasons why slots are not offered.
WITHHELD_CODES = frozenset(
    [
        'conflict',
        'denied',
        'duplicate',
        'empty',
        'owned',
        'sriov',
        'unassignable',
        'unmatched',
        slot_providers.CYBORG,
        slot_providers.HELD,
        plan.UNREPORTED,
    ]
)

_PLACE = re.compile(r'\{(\w+)(:\w+)?\}')
_SHOWN_PLACE = re.compile(r'<[\w ]+>')
_LOGGED_PLACE = re.compile(r'%(?:\(\w+\))?\d*\w')
#: How many words a page has to show of the beginning of a message.
_FEWEST_WORDS = 3


def messages():
    """Yield name and message of each error that has its own message."""
    found = {
        **dict(inspect.getmembers(exception, inspect.isclass)),
        **dict(inspect.getmembers(errors, inspect.isclass)),
    }
    for name, error in found.items():
        own = vars(error).get('message')
        if own and own != '{reason}':
            yield name, own


def first_sentence(message):
    """Return a message up to the end of its first sentence."""
    return re.split(r'(?<=\.) ', message, maxsplit=1)[0]


def is_shown(message, text):
    """Return whether a page shows how a message begins.

    :param message: With ``<>`` for each part that varies.
    :param text: The page, with a name in angle brackets for such a part.
    """
    # It may continue another message.
    whole = pages.words(message).removeprefix('<>').strip('. ')
    fewest = min(_FEWEST_WORDS, len(whole.split()))
    heads = re.findall('``(.+?)``', _SHOWN_PLACE.sub('<>', pages.words(text)))
    return not re.search('[a-z]', whole.replace('<>', '')) or any(
        len(head.split()) >= fewest
        and (whole.startswith(head) or head.startswith(whole))
        for head in (head.removeprefix('<>').strip() for head in heads)
    )


class ErrorMessageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.text = pages.words(
            pages.documents()['admin/troubleshooting'].replace('\n   ', '\n')
        )

    def test_page_explains_every_error(self):
        for name, message in messages():
            # The list of problems follows the message.
            head = first_sentence(message.removesuffix('\n{problems}'))
            with self.subTest(error=name):
                shown = is_shown(_PLACE.sub('<>', head), self.text)
                self.assertTrue(shown, message)


class WithheldReasonTest(unittest.TestCase):
    GPU = slots.Slot(1, vendor_id=0x10DE)
    ONE = policy.Paragraph('...', {'vendor_id': '10DE'})
    NONE = dataclasses.replace(ONE, allow=False)

    def test_page_explains_every_reason(self):
        text = pages.documents()['admin/devices']
        database = slots.Owner(slots.PartitionKind.CLIENT, name='...')
        vios = slots.Owner(slots.PartitionKind.VIOS, name='vios1')
        told = set()
        for changes, paragraphs in (
            ({'vendor_id': slots.EMPTY_ID}, ()),
            ({'sriov': True}, ()),
            ({'assignable': False}, ()),
            ({'owner': database}, ()),
            ({'owner': vios}, ()),
            ({}, ()),
            ({}, (self.ONE, self.ONE)),
            ({}, (self.ONE, self.NONE)),
        ):
            slot = dataclasses.replace(self.GPU, **changes)
            told |= self.reasons(slot, paragraphs=paragraphs)
        told |= self.reasons(self.GPU, self.GPU)
        owned = dataclasses.replace(self.GPU, owner=database)
        told |= self.reasons(owned, lpar_uuids=None)
        self.assertEqual(
            WITHHELD_CODES
            - {slot_providers.CYBORG, slot_providers.HELD, plan.UNREPORTED},
            {code for code, _ in told},
        )
        for _, words in told:
            shown = words.replace(str(self.ONE), '...').replace(
                'VIOS vios1', '...'
            )
            self.assertIn(f'``{shown}``', text)

    def reasons(self, *host_slots, paragraphs=(), lpar_uuids=()):
        """Return code and text of each reason."""
        allowed = policy.Policy(paragraphs, '...')
        return {
            (verdict.reason.code, verdict.reason.text)
            for verdict in matching.judge(allowed, host_slots, lpar_uuids)
        }


class DifferenceKindTest(unittest.TestCase):
    def test_help_and_page_explain_every_kind_of_difference(self):
        text = pages.documents()['admin/devices']
        for kind in differences.Kind:
            self.assertRegex(diff.Diff.__doc__, rf'\n +{kind} +\S')
            self.assertIn(f'``{kind}``', text)


class WatchingPageTest(unittest.TestCase):
    """The page on watching shows how lines of the log begin.

    They are all lines of level WARNING and ERROR, and those of level INFO
    that tell of the inventory file.
    """

    #: Lines that are put together elsewhere: those of a plan are below, the
    #: reasons are tested above, the promise is an error's words.
    ELSEWHERE = frozenset(['promise'])

    def setUp(self):
        super().setUp()
        self.text = pages.words(pages.documents()['admin/watching'])

    def test_page_shows_every_warning_and_error_line(self):
        found = 0
        package = pages.ROOT / 'nova_powervm'
        for path in sorted(package.rglob('*.py')):
            # The other commands are not run as services.
            inside = path.relative_to(package).parts
            if inside[0] != 'tool' or inside[1] == 'clean':
                for level, message in lines_of_the_log(path):
                    found += 1
                    with self.subTest(file=path.name):
                        head = _LOGGED_PLACE.sub('<>', first_sentence(message))
                        shown = is_shown(head, self.of_level(level))
                        self.assertTrue(shown, message)
        self.assertGreater(found, 40)

    def of_level(self, level):
        """Return the part of the page on a level, and on other services."""
        return ''.join(
            self.text.partition(title)[2].partition(' Lines of level ')[0]
            for title in (f' Lines of level {level} --', ' Other services --')
        )

    def test_page_shows_every_line_about_inventory_file(self):
        for module in (file_reader, plan_log):
            found = [
                call.args[0].value
                for call in calls(ast.parse(inspect.getsource(module)), _NEWS)
                if isinstance(call.args[0], ast.Constant)
            ]
            self.assertTrue(found, module)
            for message in found:
                first, _ = re.split(r'%\(?\w', message, maxsplit=1)
                with self.subTest(message=message):
                    self.assertIn(pages.words(first), self.text)

    def test_page_shows_every_line_about_plans(self):
        for action in plan.Action:
            for reserved, traits in (
                (1, {names.ONE_TIME_USE_TRAIT}),
                (1, ()),
                (0, ()),
            ):
                entry = plan.Entry(
                    action,
                    0x12345678,
                    '<name>',
                    None,
                    {'<class>': {'reserved': reserved}},
                    frozenset(traits),
                    '<reason>',
                    ('<instances>',),
                )
                line = plan_log.describe(entry).replace('12345678', '<index>')
                # The reason and the cure are not shown.
                first = re.split(
                    r'(?<=was allocated)\.|: <reason>$|\. It is offered', line
                )[0]
                self.assertIn(pages.words(first), self.text)


def calls(tree, functions):
    """Yield the calls of functions, given by their names, in a module."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in functions:
            yield call


def lines_of_the_log(path):
    """Yield level and message of each WARNING and ERROR in a module."""
    tree = ast.parse(path.read_text())
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
    }
    for level, functions in _ALERTS.items():
        for call in calls(tree, functions):
            message = call.args[0]
            if isinstance(message, ast.Subscript):
                texts = ast.literal_eval(constants[message.value.id])
                for text in texts.values():
                    yield level, text
                continue
            if isinstance(message, ast.Name):
                if message.id in WatchingPageTest.ELSEWHERE:
                    continue
                message = constants[message.id]
            yield level, ast.literal_eval(message)


class ArchitecturePageTest(unittest.TestCase):
    def test_names_in_answers_are_in_the_files_before_them(self):
        text = pages.words(pages.documents()['contributor/architecture'])
        answers = re.findall(r'``([\w/]+\.py)`` \(([^()]*)\)', text)
        self.assertGreater(len(answers), 20)
        for file, words in answers:
            code = (pages.ROOT / 'nova_powervm' / file).read_text()
            for name in re.findall(r'``(\w+)``', words):
                with self.subTest(file):
                    self.assertRegex(code, rf'\b{name}\b')
