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

"""Which projects burned devices, as nova-compute writes it."""

import pathlib
import re

import fixtures
from nova import test

from nova_powervm.devices import names
from nova_powervm.devices import one_time_use
from nova_powervm.devices import plan
from nova_powervm.virt import burn_records
from nova_powervm.virt import host_cycle

NOON = 1_750_000_000.0
_COUNT = re.compile(r'burned_devices{host="host1",project="(.*?)"} (\d+)')


def burned(uuid):
    """Return the entry of a burned device."""
    return plan.Entry(
        action=plan.Action.PUBLISH,
        drc_index=1,
        name=uuid,
        uuid=uuid,
        inventory={'CUSTOM_GPU': {'total': 1, 'reserved': 1}},
        traits=frozenset({names.ONE_TIME_USE_TRAIT}),
    )


class CycleMetricsTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'powervm.prom'
        )
        self.asked, self.written_at = [], {}
        self.project = 'one'
        self.stub_out(f'{burn_records.__name__}.read_holders', self.read)
        self.metrics = host_cycle.CycleMetrics(
            str(self.path), 'host1', self.written_at.get
        )

    def read(self, host, providers):
        """Answer as Nova's records do."""
        self.asked.append(set(providers))
        if self.project is None:
            raise OSError('the conductor does not answer')
        return {
            uuid: one_time_use.Holder(
                'instance', self.project, frozenset({uuid}), NOON, until=NOON
            )
            for uuid in providers
        }

    def publish(self, *uuids):
        """Publish burned devices, as for a build."""
        self.metrics.write(plan.Plan(entries=tuple(map(burned, uuids))))

    def cycle(self, *uuids):
        """Run a cycle; return the numbers of burned devices by project."""
        self.metrics.expect_update(0)
        self.publish(*uuids)
        return {
            project: int(number)
            for project, number in _COUNT.findall(self.path.read_text())
        }

    def test_conductor_is_asked_once_about_each_burn(self):
        """Each host had 2000 instances read in each cycle."""
        self.assertEqual({'unknown': 1}, self.cycle('p1'))
        for _ in range(3):
            self.assertEqual({'one': 1}, self.cycle('p1'))
        self.cycle('p1', 'p2')
        self.project = 'two'
        self.assertEqual({'one': 1, 'two': 1}, self.cycle('p1', 'p2'))
        self.assertEqual({'two': 1}, self.cycle('p2'))
        self.assertEqual([{'p1'}, {'p2'}], self.asked)

    def test_device_that_is_burned_anew_is_asked_about_again(self):
        self.cycle('p1')
        self.cycle('p1')
        self.project = 'two'

        # Nova publishes before it builds.
        self.publish()

        self.cycle('p1')
        self.assertEqual({'two': 1}, self.cycle('p1'))

    def test_question_that_failed_is_asked_again(self):
        self.project = None
        self.cycle('p1')
        self.assertEqual({'unknown': 1}, self.cycle('p1'))
        self.project = 'one'
        self.assertEqual({'one': 1}, self.cycle('p1'))

    def test_device_that_an_operator_reserved_is_nobodys(self):
        self.written_at['p1'] = NOON + 3600
        self.cycle('p1')
        self.assertEqual({'unknown': 1}, self.cycle('p1'))
