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

"""Stories of a class do not fail because of what another one has left."""

import unittest

from tests.functional import base

INDEX = 0x21010020


class StoriesTest(unittest.TestCase):
    def test_story_that_changes_host_fails_and_others_are_told_anew(self):
        told = []

        class ExampleTest(base.PowerVMTestCase):
            def setUp(self):
                super().setUp()
                self.start_host()

            def test_stories_are_told(self):
                self.tell_stories()

            def story_sets_option(self):
                told.append('option')
                self.flags(reserved_host_cpus=7)

            def story_pulls_card(self):
                told.append(f'{base.CONF.reserved_host_cpus} reserved')
                self.control().pull(f'{INDEX:08X}')

            def story_finds_card(self):
                told.append(INDEX in self.slot_providers())

        result = unittest.TestResult()
        ExampleTest('test_stories_are_told').run(result)

        self.assertEqual(['option', '0 reserved', True], told)
        self.assertEqual(2, result.testsRun)
        ((test, words),) = result.failures + result.errors
        self.assertTrue(
            test.id().endswith('.test_stories_are_told'), test.id()
        )
        self.assertIn('has changed a host', words)
        self.assertIn('story_pulls_card', words)
