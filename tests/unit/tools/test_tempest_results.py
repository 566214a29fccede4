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

"""The results of Tempest, from streams like those that it writes."""

import datetime
import io
import pathlib
import re
import tempfile
import unittest

import subunit

from tests.tempest import results

PASSED = results.Result(results.PASSED)
FAILED = results.Result(results.FAILED, 'MismatchError: 1 != 2')
_NOW = datetime.datetime.now(datetime.UTC)


def make_stream(*tests):
    """Return the stream of a run: tests with status and attachment.

    An attachment is a pair of its name and its text, or None.
    """
    written = io.BytesIO()
    stream = subunit.StreamResultToBytes(written)
    for test, status, attachment in tests:
        stream.status(test_id=test, test_status='inprogress', timestamp=_NOW)
        if attachment:
            name, text = attachment
            stream.status(
                test_id=test,
                file_name=name,
                file_bytes=text.encode(),
                mime_type='text/plain;charset=utf8',
                eof=True,
            )
        stream.status(test_id=test, test_status=status, timestamp=_NOW)
    written.seek(0)
    return written


class ReadTest(unittest.TestCase):
    def test_passed_test_loses_its_attributes(self):
        name = 'tempest.a.B.test_c[id-1234,smoke]'
        stream = make_stream((name, 'success', None))
        self.assertEqual(
            {'tempest.a.B.test_c': PASSED}, results.read(stream, [name])
        )

    def test_failed_test_has_end_of_traceback(self):
        text = '\n'.join(f'line {number}' for number in range(30))
        stream = make_stream(('tempest.a.B.c', 'fail', ('traceback', text)))
        found = results.read(stream, ['tempest.a.B.c'])['tempest.a.B.c']
        self.assertEqual(results.FAILED, found.status)
        self.assertNotIn('line 0\n', found.reason)
        self.assertEqual('line 29', found.reason.splitlines()[-1])

    def test_tests_of_skipped_class_are_skipped_for_its_reason(self):
        stream = make_stream(
            ('setUpClass (tempest.a.B)', 'skip', ('reason', 'no Cinder'))
        )
        names = ['tempest.a.B.one[id-1]', 'tempest.a.B.two[id-2]']
        skipped = results.Result(results.SKIPPED, 'no Cinder')
        self.assertEqual(
            {'tempest.a.B.one': skipped, 'tempest.a.B.two': skipped},
            results.read(stream, names),
        )

    def test_test_without_result_is_not_run(self):
        found = results.read(make_stream(), ['tempest.a.B.c'])
        self.assertEqual(
            {'tempest.a.B.c': results.Result(results.ABSENT)}, found
        )

    def test_interrupted_test_is_failed(self):
        stream = make_stream(('tempest.a.B.c', 'inprogress', None))
        found = results.read(stream, ['tempest.a.B.c'])
        self.assertEqual(results.FAILED, found['tempest.a.B.c'].status)


class FilesTest(unittest.TestCase):
    def test_loaded_results_are_those_saved(self):
        found = {'tempest.a.B.c': FAILED, 'tempest.a.B.d': PASSED}
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'results.json'
            results.save(path, ['phyp'], found)
            self.assertEqual((['phyp'], found), results.load(path))


class SummaryTest(unittest.TestCase):
    def test_summary_counts_each_status(self):
        self.assertEqual(
            '3 tests: 2 passed, 1 failed',
            results.summary({'a': PASSED, 'b': FAILED, 'c': PASSED}),
        )


class CompareTest(unittest.TestCase):
    def test_equal_statuses_are_no_difference(self):
        other = results.Result(results.FAILED, 'for another reason')
        self.assertEqual(
            [], results.compare({'a': FAILED}, {'a': other}, causes=[])
        )

    def test_difference_has_its_cause(self):
        causes = [(re.compile('^b'), 'of b'), (re.compile('^a'), 'of a')]
        self.assertEqual(
            [results.Difference('a', FAILED, PASSED, 'of a')],
            results.compare({'a': FAILED}, {'a': PASSED}, causes),
        )

    def test_difference_without_entry_has_no_cause(self):
        absent = results.Result(results.ABSENT)
        self.assertEqual(
            [results.Difference('a', PASSED, absent, '')],
            results.compare({'a': PASSED}, {}, causes=[]),
        )

    def test_causes_in_repository_are_complete(self):
        for pattern, cause in results.read_causes():
            with self.subTest(pattern.pattern):
                self.assertTrue(cause)
