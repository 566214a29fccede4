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

import io
import json
import pathlib
import tempfile
import unittest

from demo import report

GOOD = report.Step('Good', {'a': 1}, {'a': 1}, ['to', '', 'see'])
BAD = report.Step('Bad', {'a': 1, 'b': [2]}, {'b': [3], 'c': 4})


class DifferencesTest(unittest.TestCase):
    def test_differences_have_one_line_each_with_their_path(self):
        for expected, observed, lines in (
            ({'a': [1]}, {'a': [1]}, []),
            (
                BAD.expected,
                BAD.observed,
                [
                    'a: missing, expected 1',
                    'b: expected [2], is [3]',
                    'c: unexpected, is 4',
                ],
            ),
            (
                {'slot': {'traits': ['A']}},
                {'slot': {'traits': []}},
                ["slot.traits: expected ['A'], is []"],
            ),
            (
                'no error',
                report.reason(TimeoutError('late')),
                ["result: expected 'no error', is 'TimeoutError: late'"],
            ),
        ):
            self.assertEqual(lines, report.differences(expected, observed))


class ShowReportTest(unittest.TestCase):
    def _shown(self, step):
        out = io.StringIO()
        report.show(step, 3, out)
        return out.getvalue()

    def test_show_good_step_ends_with_ok(self):
        self.assertEqual(
            '\n3. Good\n-------\n  to\n\n  see\n  ok\n', self._shown(GOOD)
        )

    def test_show_wrong_step_lists_differences(self):
        self.assertEqual(
            '\n3. Bad\n------\n  WRONG\n'
            '    a: missing, expected 1\n'
            '    b: expected [2], is [3]\n'
            '    c: unexpected, is 4\n',
            self._shown(BAD),
        )


class WriteReportTest(unittest.TestCase):
    def test_write_creates_list_of_documents(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'steps.json'

            report.write(path, [GOOD, BAD])

            documents = json.loads(path.read_text())
        self.assertEqual([True, False], [item['ok'] for item in documents])
        self.assertEqual(
            {'step', 'expected', 'observed', 'ok'}, set(documents[0])
        )
