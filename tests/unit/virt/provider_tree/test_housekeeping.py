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

"""What is put in order between updates may fail, and ends no cycle."""

import types
import unittest

from keystoneauth1 import exceptions as keystone
from nova import exception as nova_exception

from nova_powervm.devices import planned
from nova_powervm.virt.provider_tree import housekeeping
from tests.unit.devices import values

SLOT_TRAIT = 'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020'
THERE = values.provider(traits=[SLOT_TRAIT])


class Client:
    """A report client whose Placement does not answer at first."""

    def __init__(self, error):
        self.error = error
        self.deleted = []
        self.invalidated = []
        # What Nova remembers.
        self._provider_tree = types.SimpleNamespace(
            get_provider_uuids=lambda root: [root, THERE.uuid]
        )

    def get_providers_in_tree(self, context, uuid):
        self._fail()
        return []

    def delete(self, url, version):
        self._fail()
        self.deleted.append(url)
        return types.SimpleNamespace(status_code=204)

    def invalidate_resource_provider(self, uuid, cacheonly):
        self.invalidated.append(uuid)

    def _fail(self):
        if self.error:
            raise self.error


class FailureTest(unittest.TestCase):
    def test_it_is_done_when_placement_answers(self):
        for error in (
            keystone.ConnectFailure('cut off'),
            keystone.ServiceUnavailable(),
            nova_exception.ResourceProviderRetrievalFailed(uuid='u'),
        ):
            with self.subTest(error):
                self.tidy(Client(error))

    def tidy(self, client):
        house = housekeeping.Housekeeping(
            types.SimpleNamespace(reportclient=client)
        )
        house.planned([THERE], planned.Plan())
        for _ in range(2):
            with self.assertLogs(housekeeping.LOG.logger, 'WARNING'):
                house.before_cycle('root')
        self.assertEqual([], client.invalidated)

        client.error = None
        with self.assertLogs(housekeeping.LOG.logger, 'WARNING') as logs:
            house.before_cycle('root')
        self.assertIn(THERE.uuid, logs.output[0])
        self.assertEqual(['root'], client.invalidated)
        self.assertEqual([f'/traits/{SLOT_TRAIT}'], client.deleted)
