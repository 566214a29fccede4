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

"""PCM preferences are read and changed; no metrics come of them."""

from pypowervm.tasks.monitor import util
from pypowervm.wrappers import monitor

from tests.emulator import wire

PCM = wire.UOM.replace('uom', 'pcm')
MONITORS = {
    'ltm_enabled': False,
    'aggregation_enabled': False,
    'stm_enabled': False,
    'compute_ltm_enabled': False,
}


class PreferencesTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.uuid = self.system().uuid
        self.path = f'pcm/ManagedSystem/{self.uuid}/preferences'

    def document(self, inner, kind='ManagedSystemPcmPreference'):
        return f'<{kind} xmlns="{PCM}">{inner}</{kind}>'

    def post(self, inner, **headers):
        headers = {'Content_Type': 'application/xml', **headers}
        return self.ask('POST', self.path, self.document(inner), **headers)

    def monitors(self):
        found = self.adapter.read_by_path(f'/rest/api/{self.path}')
        (wrapper,) = monitor.PcmPref.wrap(found)
        self.assertEqual(self.system().system_name, wrapper.system_name)
        return {name: getattr(wrapper, name) for name in MONITORS}

    def test_preferences_are_as_captured(self):
        (captured,) = (
            wire.contents(root)[0]
            for name, root in wire.captured()
            if name == 'pcm_pref.txt'
        )
        served = self.get(self.path).content
        self.assertEqual(captured.tag, served.tag)
        for one, other in zip(captured.iter(), served.iter(), strict=True):
            self.assertEqual(one.tag, other.tag)
            self.assertEqual(one.get('kb'), other.get('kb'), one.tag)

    def test_monitors_are_off_until_pypowervm_enables_them(self):
        self.assertEqual(MONITORS, self.monitors())
        util.ensure_ltm_monitors(
            self.adapter, self.uuid, override_to_default=True
        )
        self.assertEqual(
            MONITORS | {'ltm_enabled': True, 'aggregation_enabled': True},
            self.monitors(),
        )
        self.control.reset()
        self.assertEqual(MONITORS, self.monitors())

    def test_monitor_that_is_not_posted_stays(self):
        for name in ('LongTermMonitorEnabled', 'ComputeLTMEnabled'):
            answer = self.post(f'<{name}>true</{name}>')
            self.assertEqual(200, answer.status, answer.text)
        self.assertEqual(
            MONITORS | {'ltm_enabled': True, 'compute_ltm_enabled': True},
            self.monitors(),
        )

    def test_tag_changes_with_the_preferences(self):
        tag = self.get(self.path).headers['etag']
        same = self.ask('GET', self.path, If_None_Match=tag)
        self.assertEqual(304, same.status)
        inner = '<AggregationEnabled>true</AggregationEnabled>'
        self.assertEqual(200, self.post(inner, If_Match=tag).status)
        self.assertEqual(412, self.post(inner, If_Match=tag).status)
        self.assertNotEqual(tag, self.get(self.path).headers['etag'])

    def test_wrong_documents_change_nothing(self):
        for body, message in (
            ('<LongTermMonitorEnabled>on</LongTermMonitorEnabled>', 'true or'),
            (
                '<EnergyMonitorEnabled>true</EnergyMonitorEnabled>',
                'no element',
            ),
        ):
            with self.subTest(body):
                self.assert_refusal(self.post(body), message)
        self.assertEqual(MONITORS, self.monitors())

    def test_preferences_of_unknown_system_are_not_found(self):
        answer = self.ask('GET', self.path.replace(self.uuid, self.uuid[::-1]))
        self.assert_refusal(answer, 'REST029B ', status=404)

    def test_metrics_are_empty(self):
        self.assertEqual([], util.query_ltm_feed(self.adapter, self.uuid))
        for name in ('LongTermMonitor', 'ShortTermMonitor'):
            path = f'pcm/ManagedSystem/{self.uuid}/RawMetrics/{name}'
            self.assertEqual(204, self.ask('GET', path).status)
