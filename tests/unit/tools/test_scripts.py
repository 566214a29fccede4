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

"""What scripts of tools and tests take for granted."""

import datetime
import importlib.util
import io
import pathlib
import re
import unittest

import subunit

from tests.tempest import results

_ROOT = pathlib.Path(__file__).parents[3]

#: Folders whose modules no test run imports.
_NOT_RUN = ('benchmark', 'cloud', 'fuzz', 'soak', 'tempest')
_NOW = datetime.datetime.now(datetime.UTC)
PASSED = results.Result(results.PASSED)
FAILED = results.Result(results.FAILED, 'line 2')


class SoakTest(unittest.TestCase):
    def test_modules_of_script_exist(self):
        text = (_ROOT / 'tools' / 'soak.sh').read_text()
        names = set(re.findall(r'\btests(?:\.\w+)+\b', text))
        self.assertTrue(names)
        for name in names:
            with self.subTest(name):
                module = re.sub(r'\.[A-Z]\w*$', '', name)
                self.assertIsNotNone(importlib.util.find_spec(module))

    def test_tests_of_run_do_not_choose_at_random(self):
        tests = _ROOT / 'tests'
        paths = [*(_ROOT / 'emulator' / 'tests').rglob('*.py')]
        paths += tests.rglob('*.py')
        for path in paths:
            if path.parent.name not in _NOT_RUN:
                with self.subTest(path=path):
                    self.assertNotRegex(
                        path.read_text(), r'(?m)^ *(import|from) random\b'
                    )


class TempestResultsTest(unittest.TestCase):
    """The results of Tempest, from streams like those that it writes."""

    def read(self, *statuses, names):
        """Read a stream of tests with status, and perhaps an attachment."""
        stream = io.BytesIO()
        written = subunit.StreamResultToBytes(stream)
        for test, status, *attachments in statuses:
            for name, text in attachments:
                written.status(
                    test_id=test,
                    file_name=name,
                    file_bytes=text.encode(),
                    mime_type='text/plain;charset=utf8',
                    eof=True,
                )
            written.status(test_id=test, test_status=status, timestamp=_NOW)
        stream.seek(0)
        return results.read(stream, names)

    def test_each_test_has_its_result(self):
        found = self.read(
            ('t.a.B.one[id-1,smoke]', 'success'),
            ('t.a.B.two', 'fail', ('traceback', 'line 1\nline 2')),
            ('t.a.B.four', 'inprogress'),
            ('setUpClass (t.a.C)', 'skip', ('reason', 'no Cinder')),
            names=[
                *('t.a.B.one[id-1,smoke]', 't.a.B.two', 't.a.B.three'),
                *('t.a.B.four', 't.a.C.one[id-2]'),
            ],
        )
        self.assertEqual(
            {
                't.a.B.one': results.PASSED,
                't.a.B.two': results.FAILED,
                't.a.B.three': results.ABSENT,
                't.a.B.four': results.FAILED,
                't.a.C.one': results.SKIPPED,
            },
            {name: result.status for name, result in found.items()},
        )
        self.assertEqual('line 2', found['t.a.B.two'].reason.split('\n')[-1])
        self.assertEqual('no Cinder', found['t.a.C.one'].reason)

    def test_difference_has_the_first_cause_that_fits(self):
        causes = [(re.compile('^b'), 'of b'), (re.compile('^a'), 'of a')]
        ours = {'a': FAILED, 'c': PASSED, 'd': FAILED}
        theirs = {'a': PASSED, 'd': results.Result(results.FAILED, 'other')}
        self.assertEqual(
            [
                results.Difference('a', FAILED, PASSED, 'of a'),
                results.Difference(
                    'c', PASSED, results.Result(results.ABSENT), ''
                ),
            ],
            results.compare(ours, theirs, causes),
        )
        for pattern, cause in results.read_causes():
            self.assertTrue(cause, pattern)
