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

"""The page on metrics, the alert rules and the dashboard."""

import re
import unittest

from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.ops import metrics
from tests.promtool import queries
from tests.unit.docs import pages
from tests.unit.docs import test_messages

_METRIC = re.compile(r'(powervm_\w+)(?:\{([^}]*)\})?')
_MATCHER = re.compile(r'(\w+)\s*(!?[=~]{1,2})\s*"([^"]*)"')
_GROUPING = re.compile(r'(?:by|ignoring) \(([^)]*)\)')
_REASONS = {*test_messages.WITHHELD_CODES, *names.QUARANTINE_REASONS}


class MetricsPageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.text = pages.documents()['admin/metrics']

    def test_page_explains_every_metric_state_reason_and_alert(self):
        explained = {
            *(sample.name for sample in queries.recorded()),
            *(s for s in plan.State if s is not plan.State.REMOVED),
            *_REASONS,
            *(metrics.GONE, metrics.RESERVED, metrics.DUPLICATE),
            *queries.alert_queries(),
        }
        for word in explained:
            with self.subTest(word=word):
                self.assertIn(f'``{word}``', self.text)

    def test_page_says_whom_the_files_name(self):
        """Before, a page denied that every user of a host sees projects."""
        # The recorded host has burned devices of nobody.
        burned = metrics.make_burned_family('burned', 'host1', {'p': 1})
        known = [*queries.recorded(), *burned.samples]
        labels = {key for each in known for key in each.labels}
        _, _, paragraph = self.text.partition('Every user of the machine')
        paragraph = pages.words(paragraph.partition('\n\n')[0])
        self.assertFalse(labels & {'server', 'instance', 'uuid'})
        self.assertIn('no server', paragraph)
        self.assertIn('project', labels)
        self.assertIn('by project', paragraph)


class QueriesTest(unittest.TestCase):
    """The queries ask for what there is; tests.promtool runs them."""

    def test_alerts_and_dashboard_ask_for_existing_labels(self):
        labels = {}
        for sample in queries.recorded():
            known = labels.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                known.setdefault(label, set()).add(value)
        for name in ('powervm_slots', 'powervm_service_slots'):
            labels[name]['state'] |= {*plan.State}
            labels[name]['reason'] |= _REASONS
        found = [*queries.alert_queries().values()]
        found += queries.dashboard_queries()
        self.assertGreater(len(found), 20)
        for query in found:
            with self.subTest(query=query):
                self.assert_answerable(query, labels)

    def assert_answerable(self, query, labels):
        asked = _METRIC.findall(query)
        self.assertTrue(asked)
        for name, matchers in asked:
            for label, operator, value in _MATCHER.findall(matchers):
                if value != '.*':
                    words = value.split('|') if '~' in operator else [value]
                    self.assertLessEqual({*words}, labels[name][label])
            for grouping in _GROUPING.findall(query):
                self.assertLessEqual({*grouping.split(', ')}, {*labels[name]})
