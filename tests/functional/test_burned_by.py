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
"""Who burned a device, as Nova's records tell, and nobody waits for him."""

import fixtures
from oslo_messaging._drivers import impl_fake

from nova_powervm.tool.inventory import conductor
from tests.functional import base
from tests.functional import one_time_use
from tests.functional import test_cleaning

#: Slots with further GPUs.
MORE = ('21010038', '21010039')
GPU = base.gpu_groups(1)


class BurnedByTest(test_cleaning.CleaningTestCase):
    """Two projects burn devices of a host."""

    def setUp(self):
        super().setUp()
        # This would clear the queues of the services, too.
        self.useFixture(
            fixtures.MockPatchObject(impl_fake.FakeDriver, 'cleanup')
        )
        # None for those of a compute node.
        self.messaging = None
        for index in MORE:
            self.plug_gpu(index)
        self._run_periodics()

    def nova_conf(self, name='host1', **changes):
        if self.messaging is not None:
            changes['DEFAULT'] = {'host': name, **self.messaging}
        return super().nova_conf(name, **changes)

    def test_devices_are_put_down_to_those_who_burned_them(self):
        self.tell_stories()

    def prepare(self):
        self.pass_time()

    def use_by(self, boot):
        """Boot and delete a server; return the slot of its device."""
        server = boot()
        (index,) = self.lpar(server).slots
        self._delete_server(server)
        return index

    def use_mine(self):
        """Burn a device."""
        return self.use_by(lambda: self.boot(GPU))

    def use_of_another(self):
        """Burn a device of another project."""
        return self.use_by(self.boot_of_another)

    def shown(self):
        """Return what ``show`` says of burned devices, by their slots."""
        code, rows = self.rows('show')
        self.assertEqual(0, code)
        return {
            int(row['Slot'], 16): row['Burned By']
            for row in rows
            if row['Burned By']
        }

    def metric(self, text, name):
        """Return the values of a metric by project."""
        begin = f'{name}{{host="host1",project="'
        return {
            line.removeprefix(begin).partition('"')[0]: line.split()[-1]
            for line in text.splitlines()
            if line.startswith(begin)
        }

    def story_commands_and_metrics_tell_who_burned_what(self):
        path = self.directory / 'powervm.prom'
        self.restart_host(metrics_file=str(path))
        mine, theirs = self.use_mine(), self.use_of_another()
        live = self.boot(GPU)
        (third,) = self.lpar(live).slots
        me = self.api.project_id

        self.assertEqual(
            {mine: me, third: me, theirs: one_time_use.ANOTHER}, self.shown()
        )
        _, text, _ = self.run_command('metrics')
        counts = {me: '1.0', one_time_use.ANOTHER: '1.0'}
        self.assertEqual(counts, self.metric(text, 'powervm_burned_devices'))
        self._run_periodics()
        self._run_periodics()
        self.assertEqual(
            counts,
            self.metric(path.read_text(), 'powervm_service_burned_devices'),
        )
        self.restart_host(metrics_file=None)

        # The project that burned more of them does not delay the other.
        self._delete_server(live)
        cleaned = []

        def clean(variables):
            cleaned.append(int(variables['POWERVM_DRC_INDEX'], 16))

        self.assertEqual(0, self.clean_by(clean))
        self.assertEqual([theirs, *sorted([mine, third])], cleaned)

    def story_commands_work_if_nobody_can_be_asked(self):
        self.use()
        self.useFixture(
            fixtures.MockPatchObject(conductor.Conductor, 'timeout', 1)
        )
        for messaging, words in (
            ({}, 'transport_url is not set'),
            # Nobody listens there.
            (
                {'transport_url': 'fake:/', 'control_exchange': 'elsewhere'},
                'does not tell which projects',
            ),
            # Nor answers there: the driver would try for ever.
            ({'transport_url': 'rabbit://127.0.0.1:1/'}, 'within 1 seconds'),
        ):
            with self.subTest(words):
                self.messaging = messaging
                code, out, err = self.run_command('show', '-f', 'json')
                self.assertEqual(0, code, err)
                self.assertIn('"Burned By": "unknown"', out)
                self.assertIn(words, err)
                code, text, _ = self.run_command('metrics')
                self.assertEqual(0, code)
                self.assertEqual(
                    {'unknown': '1.0'},
                    self.metric(text, 'powervm_burned_devices'),
                )
        self.use(one_time_use.INDEX + 1)
        self.assertEqual(0, self.clean())
        self.assert_burned()
