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

"""Placement that does not say who holds a provider."""

import types
import unittest

from keystoneauth1 import exceptions as keystone
from nova import exception as nova_exception

from nova_powervm.virt import placement
from tests.unit.domain import values

SILENT, HELD = values.provider(), values.provider('another')


class Client:
    """A report client that knows one provider, or only half of it."""

    def __init__(self, error, status=200):
        self.error = error
        self.status = status

    def get_allocations_for_resource_provider(self, context, uuid):
        if uuid == SILENT.uuid and self.error:
            raise self.error
        return types.SimpleNamespace(allocations={'instance': {}})

    def get(self, url):
        status = self.status if SILENT.uuid in url else 200
        return Answer(status)


class Answer:
    def __init__(self, status):
        self.status_code = status
        self.text = ''

    def __bool__(self):
        return self.status_code < 400

    def json(self):
        return {'inventories': {}}


class ConsumersTest(unittest.TestCase):
    def test_it_counts_as_allocated(self):
        lost = nova_exception.ResourceProviderAllocationRetrievalFailed(
            rp_uuid='u', error='503'
        )
        for client in (
            Client(keystone.ConnectFailure('cut off')),
            Client(keystone.RequestTimeout()),
            Client(lost),
            Client(None, status=404),
            Client(None, status=503),
        ):
            with self.subTest(error=client.error, status=client.status):
                asked = placement.ReportClientPlacement(
                    types.SimpleNamespace(reportclient=client)
                )
                with self.assertLogs(placement.LOG.logger, 'WARNING'):
                    answer = asked.consumers([SILENT, HELD])
                self.assertFalse(answer.is_free(SILENT))
                self.assertEqual((), answer.of(SILENT))
                self.assertEqual(('instance',), answer.of(HELD))
