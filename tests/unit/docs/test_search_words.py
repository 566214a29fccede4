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

"""What operators look for has a section with their words in its title.

The search of the documents finds pages that have all words of a query; a
title comes before a text.
"""

import re
import unittest

from tests.unit.docs import pages

#: What operators looked for -> the page that has it.
QUERIES = {
    'exclude slot': 'admin/hosts',
    'give card back to NovaLink': 'admin/hosts',
    'host reboots': 'admin/hosts',
    'replace card': 'admin/hosts',
    'rotate password': 'admin/hosts',
    'who uses which card': 'admin/hosts',
    'several versions': 'admin/upgrade',
    'device profile deleted': 'admin/cyborg',
    'evacuated server keeps': 'admin/evacuation',
    'what the driver removes': 'admin/hosts',
}

_TITLE = re.compile(r'^(.+)\n[-=~]{4,}$', re.MULTILINE)


class SearchWordsTest(unittest.TestCase):
    def test_title_has_words_of_query(self):
        documents = pages.documents()
        for query, page in QUERIES.items():
            with self.subTest(query):
                wanted = {*query.lower().split()}
                titles = _TITLE.findall(documents[page])
                self.assertTrue(
                    any(
                        wanted <= {*re.findall(r'\w+', title.lower())}
                        for title in titles
                    ),
                    titles,
                )
