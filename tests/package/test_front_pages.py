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

"""The pages at the root of the repository, as GitHub shows them."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = (
    'README.rst',
    'CONTRIBUTING.rst',
    'HACKING.rst',
    'devstack/README.rst',
    'emulator/README.rst',
)
_LINK = re.compile(r'<([^<>`\s]+)>`_')
_INSTALL = re.compile(r'(?m)^ *[$#] (?:\S*/)?pip install (.*)$')
_MENTION = re.compile(
    r'``((?:doc|etc|tools|tests|packages|emulator|demo)/[\w./-]+)``'
)


class LinkTest(unittest.TestCase):
    def test_linked_files_exist(self):
        found = 0
        for page in PAGES:
            path = ROOT / page
            for link in _LINK.findall(path.read_text()):
                if ':' in link:
                    continue
                found += 1
                with self.subTest(page=page, link=link):
                    self.assertTrue((path.parent / link).is_file())
        self.assertGreater(found, 20)

    def test_mentioned_files_exist(self):
        for page in PAGES:
            for name in _MENTION.findall((ROOT / page).read_text()):
                with self.subTest(page=page, name=name):
                    self.assertTrue((ROOT / name).exists())

    def test_pages_do_not_install_older_driver_or_extras_without_code(self):
        """No page installs the older driver, or extras without their code.

        Package indexes have another project's nova-powervm, and a wheel has
        neither the emulator nor the demonstration.
        """
        pages = [*(ROOT / 'doc' / 'source').rglob('*.rst')]
        pages += [ROOT / page for page in PAGES]
        commands = [
            (str(path.relative_to(ROOT)), command)
            for path in pages
            for command in _INSTALL.findall(path.read_text())
        ]
        self.assertIn(('README.rst', '-c constraints.txt .'), commands)
        for page, command in commands:
            with self.subTest(page=page, command=command):
                self.assertNotRegex(command, r"(^| )'?nova-powervm")
                if '-e ' not in command:
                    self.assertNotRegex(command, r'\[.*(emulator|demo|test)')
