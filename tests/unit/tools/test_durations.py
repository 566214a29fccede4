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

"""The times of tests that a fresh checkout shares them out by."""

import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import subunit
import testtools

_ROOT = pathlib.Path(__file__).parents[3]
_PATH = _ROOT / 'tools' / 'durations.py'
_SPEC = importlib.util.spec_from_file_location('durations', _PATH)
durations = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(durations)


def has_class(name):
    """Return whether a class of tests exists, without importing it."""
    module, _, class_ = name.rpartition('.')
    path = _ROOT.joinpath(*module.split('.')).with_suffix('.py')
    return path.is_file() and f'\nclass {class_}(' in path.read_text()


class DurationsTest(unittest.TestCase):
    def stream(self):
        """Return the stream that stestr loads."""
        output = io.TextIOWrapper(io.BytesIO())
        with mock.patch.object(sys, 'stdout', output):
            durations.read()
        return output.buffer.getvalue()

    def test_classes_of_tests_in_file_exist(self):
        known = durations.known()

        self.assertTrue(known)
        for name in known:
            with self.subTest(name=name):
                # A class may inherit its test.
                self.assertTrue(
                    has_class(name.rpartition('.')[0]),
                    'write the file again, or rename the test there: see '
                    'the page on testing',
                )

    def test_stream_has_time_of_each_test(self):
        found = {}

        def note(test):
            begin, end = test['timestamps']
            found[test['id']] = (end - begin).total_seconds()

        result = testtools.StreamToDict(note)
        result.startTestRun()
        subunit.ByteStreamToStreamResult(io.BytesIO(self.stream())).run(result)
        result.stopTestRun()

        self.assertEqual(durations.known(), found)

    def test_file_is_written_from_run(self):
        known = durations.known()
        stream = io.TextIOWrapper(io.BytesIO(self.stream()))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'durations'
            with (
                mock.patch.object(durations, 'FILE', path),
                mock.patch.object(sys, 'stdin', stream),
            ):
                durations.write()

                self.assertEqual(known, durations.known())
