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

"""The inventory file of a running service, on a real file system."""

import logging
import pathlib
import tempfile
import unittest
from unittest import mock

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.inventory_file import file_reader
from tests import proofs

FIRST = 'first: {identification: {class: ABCD}}\n'
SECOND = 'second: {identification: {class: ABCE}}\n'
BAD = 'second: {identification: {class: 0302}}\n'


class InventoryFileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name).resolve()
        self.path = self.directory / 'inventory.yaml'

    def start(self, content=FIRST):
        if content is not None:
            self.path.write_text(content)
            self.path.chmod(0o640)
        self.file = inventory_file.InventoryFile(str(self.path))

    def refresh(self, times=2):
        """Give the names of the paragraphs in force, and what is logged."""
        with self.assertLogs(file_reader.LOG.logger) as caught:
            # Something has to be logged for the assertion to hold.
            file_reader.LOG.info('begin')
            for _ in range(times):
                self.file.refresh()
        names = [paragraph.name for paragraph in self.file.policy.paragraphs]
        return names, caught.records[1:]

    def taken(self, *names):
        found, records = self.refresh()
        self.assertEqual(list(names), found)
        (record,) = records
        self.assertEqual(logging.INFO, record.levelno)
        self.assertIn('was read again', record.getMessage())
        self.assertEqual((list(names), []), self.refresh())

    def refused(self, *words, names=('first',)):
        found, records = self.refresh()
        self.assertEqual(list(names), found)
        (record,) = records
        self.assertEqual(logging.ERROR, record.levelno)
        for word in words:
            self.assertIn(word, record.getMessage())
        self.assertEqual((list(names), []), self.refresh(5))

    def replace(self, content):
        """Put another file in its place, as editors do."""
        other = self.directory / 'other'
        other.write_text(content)
        other.chmod(0o640)
        other.rename(self.path)

    def test_invalid_file_stops_a_starting_service(self):
        with self.assertRaises(exception.PolicyInvalid):
            self.start(BAD)

    @proofs.proves('D73', 'D91')
    def test_unchanged_file_is_not_parsed_again(self):
        self.start()
        with mock.patch.object(file_reader.structure, 'parse') as parse:
            self.assertEqual((['first'], []), self.refresh(5))
        parse.assert_not_called()

    def test_changed_text_is_used_at_the_second_look(self):
        self.start()
        self.path.write_text(SECOND)
        self.assertEqual((['first'], []), self.refresh(1))
        self.assertEqual(['second'], self.refresh(1)[0])
        self.replace(FIRST)
        self.taken('first')

    def test_switched_link_is_used(self):
        versions = []
        for content in (FIRST, SECOND):
            version = self.directory / f'version{len(versions)}'
            version.mkdir()
            (version / 'inventory.yaml').write_text(content)
            versions.append(version)
        current = self.directory / 'current'
        current.symlink_to(versions[0])
        self.path.symlink_to(current / 'inventory.yaml')
        self.start(None)
        new = self.directory / 'new'
        new.symlink_to(versions[1])
        new.rename(current)
        self.taken('second')
        versions[1].rename(self.directory / 'away')
        self.refused('symbolic link', 'does not exist', names=['second'])

    def test_growing_file_is_not_used_before_it_is_complete(self):
        self.start()
        for end in range(1, len(SECOND) + 1):
            self.path.write_text(SECOND[:end])
            self.assertEqual((['first'], []), self.refresh(1))
        self.assertEqual(['second'], self.refresh(1)[0])

    def test_removed_or_emptied_file_leaves_policy_in_force(self):
        self.start()
        self.path.unlink()
        self.refused('no such file', 'has no paragraph', 'allow: false')
        for content in ('', '# nothing\n', ' \n---\n'):
            self.path.write_text(content)
            self.refused('has no paragraph', '1 paragraph(s)')

    def test_invalid_text_leaves_policy_in_force(self):
        self.start()
        self.replace(BAD)
        self.refused('1 problem(s)', 'line 1, column 34', "quote it: '0302'")
        self.replace(FIRST)
        self.taken('first')

    def test_place_for_all_to_write_leaves_policy_in_force(self):
        self.start()
        for path, good in ((self.path, 0o640), (self.directory, 0o755)):
            path.chmod(0o777)
            self.refused('every user can write', f'chmod o-w {path}')
            path.chmod(good)
            self.taken('first')

    def test_file_created_after_start_is_used(self):
        self.start(None)
        self.assertEqual(([], []), self.refresh())
        self.replace(BAD)
        self.refused('1 problem(s)', names=())
        self.replace(SECOND)
        self.taken('second')
