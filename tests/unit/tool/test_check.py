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

"""The rules of nova-powervm-check; tests.ops.test_check has a host."""

import re
import unittest
import unittest.mock

import jsonschema

from nova_powervm import exception
from nova_powervm.powervm.check import migration_trial
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import app
from nova_powervm.tool.check import host
from nova_powervm.tool.check import partition_checks
from nova_powervm.tool.check import report
from nova_powervm.tool.check import target_checks
from tests.unit.docs import pages

Meaning = answers.Meaning
Outcome = answers.Outcome
#: The checks of both modes.
ALL = (*host.CHECKS, *partition_checks.CHECKS)


def check(meaning=Meaning.OFF, judge=None, value=answers.COUNT):
    """Make a check."""
    return answers.Check(
        'slots', 'Slots', 'It has.', 'by looking', meaning, 'No.', value, judge
    )


def result(meaning, outcome=Outcome.DIFFERS, **values):
    """Make the result of a check with a meaning."""
    answer = answers.Answer(outcome, **values)
    return answers.Result(1, check(meaning), answer, 0.1)


class RulesTest(unittest.TestCase):
    def test_worst_meaning_decides_the_exit_code(self):
        for code, *meanings in (
            (exit_codes.SUCCESS,),
            (exit_codes.SUCCESS, Meaning.COPES),
            (exit_codes.WARNINGS, Meaning.OFF, Meaning.COPES),
            (exit_codes.UNFIT, Meaning.OFF, Meaning.UNFIT, Meaning.COPES),
        ):
            with self.subTest(meanings):
                results = [*map(result, meanings)]
                self.assertEqual(code, app.exit_code(results))

    def test_missing_answer_does_not_make_a_host_unfit(self):
        for code, meaning in (
            (exit_codes.SUCCESS, Meaning.COPES),
            (exit_codes.WARNINGS, Meaning.OFF),
            (exit_codes.TROUBLE, Meaning.UNFIT),
        ):
            found = result(meaning, Outcome.ERROR)
            self.assertEqual(code, app.exit_code([found]))

    def test_only_differences_and_errors_mean_something(self):
        for outcome, meaning in {
            Outcome.AGREES: None,
            Outcome.UNKNOWN: None,
            Outcome.DIFFERS: Meaning.UNFIT,
            Outcome.ERROR: Meaning.UNFIT,
        }.items():
            found = result(Meaning.UNFIT, outcome)
            self.assertEqual(meaning, found.meaning)

    def test_error_of_host_is_an_answer_with_its_status(self):
        def judge(_):
            cause = OSError()
            cause.response = unittest.mock.Mock(status=503)
            raise exception.RestError(action='it', reason='why') from cause

        answer = check(judge=judge).ask(None)
        self.assertEqual((Outcome.ERROR, 503), (answer.outcome, answer.status))
        self.assertIn('why', answer.detail)

    def test_bug_in_a_check_is_an_answer_too(self):
        answer = check(judge=lambda found: found.slots).ask(None)
        self.assertEqual(Outcome.ERROR, answer.outcome)
        self.assertIn('AttributeError', answer.detail)

    def test_report_takes_no_text_of_a_host(self):
        schema = report.schema('host', [check()])
        good = report.document(
            'host', [result(Meaning.OFF, value=3)], {'A': 0.1}
        )
        jsonschema.validate(good, schema)
        for wrong in ('vios1', -1, {'name': 3}):
            found = report.document(
                'host', [result(Meaning.OFF, value=wrong)], {}
            )
            self.assertIsNone(found['checks']['slots']['value'])
            jsonschema.validate(found, schema)
            found['checks']['slots']['value'] = wrong
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(found, schema)
        self.assertNotIn('detail', str(good))

    def test_codes_of_messages_are_no_names(self):
        words = (
            '[PVME01050010-0056] VIOS1001 and REST2024 of HSCDB01: HSCLA246, '
            'REST0126; VIOSE01042034 says VIOSFACE'
        )
        codes = migration_trial.codes_in(words)
        self.assertEqual(
            ['HSCLA246', 'PVME01050010', 'REST0126', 'VIOSE01042034'], codes
        )
        (checked,) = [
            each
            for each in target_checks.CHECKS
            if each.name == 'target-validation'
        ]
        jsonschema.validate(codes, checked.value)


class TableTest(unittest.TestCase):
    def test_checks_have_unique_names_and_titles(self):
        for words in (
            [each.name for each in ALL],
            [each.title for each in ALL],
        ):
            self.assertEqual(len(words), len({*words}))

    def test_checks_are_described_in_sentences(self):
        for each in ALL:
            with self.subTest(each.name):
                self.assertRegex(each.name, '^[a-z-]+$')
                self.assertRegex(each.assumes, r'^[A-Z`].*\.$')
                self.assertRegex(each.otherwise, r'^[A-Za-z`].*\.$')
                self.assertNotRegex(each.seen, r'\.$')

    def test_titles_on_the_page_are_those_of_checks(self):
        page = pages.documents()['contributor/novalink-checklist']
        self.assertIn('\n.. check-tables::\n', page)
        titles = {each.title for each in host.CHECKS}
        for title in (
            'Virtual I/O Servers that are off',
            'Storage of Virtual I/O Servers',
        ):
            self.assertIn(f'*{title}*', re.sub(r'\s+', ' ', page))
            self.assertIn(title, titles)
