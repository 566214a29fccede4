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

from nova_powervm import exception
from nova_powervm.virt.provider_tree import placement
from tests import proofs
from tests.unit.devices import values

SILENT, HELD = values.provider(), values.provider('another')


class Client:
    """A report client that knows one provider, or only half of it."""

    def __init__(self, error, status=200):
        self.error = error
        self.status = status

    def get_allocations_for_resource_provider(self, context, uuid):
        if uuid == SILENT.uuid and self.error:
            raise self.error
        return types.SimpleNamespace(
            allocations={'instance': {'resources': {'CUSTOM_GPU': 1}}}
        )

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
    def test_provider_without_answer_counts_as_allocated(self):
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
                    answer = asked.get_allocations([SILENT, HELD])
                self.assertFalse(answer.is_free(SILENT))
                self.assertEqual((), answer.consumers_of(SILENT))
                self.assertEqual(('instance',), answer.consumers_of(HELD))
                self.assertEqual({'CUSTOM_GPU'}, answer.classes(HELD))


class Row:
    """A provider in Placement, asked over one report client."""

    def __init__(self, *faults, classes=('CUSTOM_GPU',)):
        self.inventories = {name: values.record() for name in classes}
        self.generation = 4
        self.faults = list(faults)
        self.asked = []
        self.invalidated = []

    def get(self, url, version):
        self.asked.append('GET')
        return self._answer(200)

    def put(self, url, content, version):
        self.asked.append('PUT')
        fault = self.faults.pop(0) if self.faults else None
        if fault == 'conflict':
            self.generation += 1
        if content['resource_provider_generation'] != self.generation:
            return self._answer(409)
        if fault != 'ignored':
            self.inventories = content['inventories']
            self.generation += 1
        if fault == 'lost':
            raise keystone.ConnectTimeout('no answer')
        return self._answer(200)

    def invalidate_resource_provider(self, uuid, cacheonly):
        self.invalidated.append((uuid, cacheonly))

    def _answer(self, status):
        answer = Answer(status)
        content = {
            'resource_provider_generation': self.generation,
            'inventories': {k: dict(v) for k, v in self.inventories.items()},
        }
        answer.json = lambda: content
        return answer


class BurnTest(unittest.TestCase):
    def burn(self, row, classes=()):
        virtapi = types.SimpleNamespace(reportclient=row)
        return placement.ReportClientPlacement(virtapi).burn('uuid', classes)

    @proofs.proves('O18', 'O36')
    def test_burn_is_written_and_read_back(self):
        """Also after a lost answer, and only once."""
        for faults in ([], ['lost']):
            with self.subTest(faults):
                row = Row(*faults)
                self.assertTrue(self.burn(row))
                self.assertEqual(['GET', 'PUT', 'GET'], row.asked)
                self.assertEqual(
                    {'CUSTOM_GPU': values.record(1)}, row.inventories
                )
                # Nova must not write what it knew before.
                self.assertEqual([('uuid', True)], row.invalidated)
                row.asked.clear()
                self.assertFalse(self.burn(row))
                self.assertEqual(['GET'], row.asked)

    def test_burn_succeeds_after_conflict(self):
        row = Row('conflict')
        self.assertTrue(self.burn(row))
        self.assertEqual({'CUSTOM_GPU': values.record(1)}, row.inventories)

    def test_burn_that_is_not_written_fails(self):
        gpu = {'CUSTOM_GPU': values.record()}
        for words, row, left in (
            ('has not reserved', Row(*['ignored'] * 9), gpu),
            ('409', Row(*['conflict'] * 9), gpu),
            ('no inventory', Row(classes=()), {}),
        ):
            with (
                self.subTest(words),
                self.assertRaisesRegex(exception.PlacementUnanswered, words),
            ):
                self.burn(row)
            self.assertEqual(left, row.inventories)

    def test_burn_reserves_only_given_resource_classes(self):
        row = Row(classes=('CUSTOM_GPU', 'CUSTOM_BY_NOVA'))
        self.assertTrue(self.burn(row, {'CUSTOM_GPU'}))
        self.assertEqual(
            {
                'CUSTOM_GPU': values.record(1),
                'CUSTOM_BY_NOVA': values.record(),
            },
            row.inventories,
        )
        self.assertFalse(self.burn(row, {'CUSTOM_GPU'}))
