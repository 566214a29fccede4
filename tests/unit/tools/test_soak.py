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

"""What chooses at random is in tools/soak.sh, and not in a test run."""

import importlib.util
import pathlib
import re
import subprocess
import unittest

_ROOT = pathlib.Path(__file__).parents[3]
_SCRIPT = _ROOT / 'tools' / 'soak.sh'
#: Folders whose modules no test run imports.
_NOT_RUN = ('benchmark', 'cloud', 'fuzz', 'soak', 'tempest')


class SoakTest(unittest.TestCase):
    def test_script_without_arguments_names_all_that_it_runs(self):
        ran = subprocess.run(
            (_SCRIPT,), capture_output=True, text=True, check=False
        )
        self.assertEqual(2, ran.returncode, ran.stderr)
        defined = re.findall(r'^soak_([\w-]+)\(', _SCRIPT.read_text(), re.M)
        named = re.findall(r'^  ([\w-]+) ', ran.stdout, re.M)
        self.assertIn('moves', named)
        self.assertEqual(defined, named)

    def test_script_rejects_unknown_name(self):
        ran = subprocess.run(
            (_SCRIPT, 'everything', '1'), capture_output=True, check=False
        )
        self.assertEqual(2, ran.returncode)

    def test_modules_of_script_exist(self):
        text = _SCRIPT.read_text()
        names = set(re.findall(r'\btests(?:\.\w+)+\b', text))
        names |= {
            f'tests.cloud.{name}'
            for name in re.findall(r'cloud_round (\w+)', text)
        }
        self.assertIn('tests.soak.move_sweep', names)
        for name in names:
            with self.subTest(name):
                module = re.sub(r'\.[A-Z]\w*$', '', name)
                self.assertIsNotNone(importlib.util.find_spec(module))

    def test_tests_of_run_do_not_choose_at_random(self):
        tests = _ROOT / 'tests'
        paths = [
            path
            for path in tests.rglob('*.py')
            if path.relative_to(tests).parts[0] not in _NOT_RUN
        ]
        paths += (_ROOT / 'emulator' / 'tests').rglob('*.py')
        self.assertIn(tests / 'functional' / 'base.py', paths)
        for path in paths:
            with self.subTest(path=path):
                self.assertNotRegex(
                    path.read_text(), r'(?m)^ *(import|from) random\b'
                )
