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

"""What is refused while Nova does not know where an LPAR is."""

from unittest import mock

import fixtures
from nova import exception as nova_exception
from nova import objects
from nova.compute import rpcapi
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import live_migration
from nova_powervm.virt import lpar_locations
from tests.unit.virt import base

RUNNING = live_migration.Sight('running')
MOVING = live_migration.Sight('migrating running', 'Migration_In_Progress')


class LocationsTest(base.NoDBTestCase):
    """The LPAR is on ``here``, or on ``there``, another host, or on none."""

    def setUp(self):
        super().setUp()
        self.partitions = mock.Mock()
        self.locations = lpar_locations.LparLocations(self.partitions, 'host1')
        self.answer = {'sight': None}
        self.asked = []
        self.stub_out(
            f'{rpcapi.__name__}.ComputeAPI.check_instance_shared_storage',
            self.ask,
        )
        self.service = mock.Mock(forced_down=False)
        self.useFixture(
            fixtures.MockPatchObject(
                objects.Service,
                'get_by_compute_host',
                side_effect=self.service_of,
            )
        )

    def service_of(self, context, host):
        if self.service is None:
            raise nova_exception.ComputeHostNotFound(host=host)
        return self.service

    def ask(self, api, context, data, instance, host):
        self.asked.append((host, data))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def put(self, here=None, there=None):
        """Put the LPAR on hosts."""
        self.partitions.find.return_value = here and mock.Mock(
            state=here.state, migration_state=here.migration_state
        )
        self.answer = {'sight': there and [there.state, there.migration_state]}

    def check(self, destination='host2', host='host1'):
        """Check an instance that a live migration has perhaps moved."""
        key = 'os_glance_powervm_live_migration'
        metadata = {key: f'to {destination}'} if destination else {}
        self.locations.check(
            objects.Instance(
                uuid=uuids.instance,
                host=host,
                deleted=False,
                system_metadata=metadata,
            )
        )

    def test_nobody_is_asked_without_need(self):
        for destination, here, host in (
            (None, None, 'host1'),
            # It is where Nova records it.
            ('host2', RUNNING, 'host1'),
            # It was lost after it had arrived.
            ('host1', None, 'host1'),
            # So was its host, which it is evacuated from.
            ('host2', None, 'host2'),
        ):
            with self.subTest(destination=destination, here=here, host=host):
                self.put(here, RUNNING)
                self.check(destination, host)
                self.assertEqual([], self.asked)

    def test_lpar_that_moves_or_has_left_is_left_alone(self):
        for here, there, host, words in (
            (MOVING, MOVING, 'host1', 'being migrated live'),
            (None, RUNNING, 'host1', 'has brought it to host host2'),
            (None, MOVING, 'host1', 'has brought it to host host2'),
            # An evacuation to a third host.
            (None, RUNNING, 'host3', 'has brought it to host host2'),
            # One to the host that has it.
            (RUNNING, None, 'host3', 'to this host already'),
        ):
            with (
                self.subTest(words, there=there),
                self.assertRaisesRegex(exception.LparElsewhere, words),
            ):
                self.put(here, there)
                self.check(host=host)

    def test_lpar_that_neither_host_has_is_lost(self):
        self.put()
        self.check()
        self.check(host='host3')
        self.assertEqual(['host2', 'host2'], [host for host, _ in self.asked])

    def test_host_without_answer_may_have_it(self):
        self.put()
        for answer in (
            nova_exception.NovaException('timed out'),
            KeyError('pool'),
            # Of a driver that does not know the question.
            True,
            {},
        ):
            with (
                self.subTest(answer),
                self.assertRaisesRegex(exception.LparUnlocated, 'host2'),
            ):
                self.answer = answer
                self.check()

    def test_host_that_is_declared_down_has_none(self):
        self.put(None, RUNNING)
        self.service.forced_down = True
        self.check()
        self.assertEqual([], self.asked)
        # Nova lets go of a service that has no server on record.
        self.service = None
        self.assertRaises(exception.LparElsewhere, self.check)

    def test_each_host_answers_what_it_shows(self):
        for here in (None, RUNNING, MOVING):
            self.put(here)
            self.answer = self.locations.answer({'located': 'its uuid'})
            instance = objects.Instance(uuid=uuids.instance)
            found = self.locations.there('context', instance, 'host2')
            self.assertEqual(here, found)
