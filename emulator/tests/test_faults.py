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

"""Injected faults, and the journal of requests."""

from pypowervm import exceptions
from pypowervm.wrappers import http_error
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms

from powervm_emulator.core import errors

from . import base


class InjectedFaultTest(base.EmulatorTestCase):
    is_alone = True

    def names(self):
        return {found.name for found in lpar.LPAR.get(self.adapter)}

    def fail_with(self, error, function, **fault):
        """Inject a fault into the next matching request of a call."""
        self.control.add_fault(**fault)
        with self.assertRaises(error):
            function()

    def test_status_before_change_prevents_it(self):
        planned = self.build()
        self.control.add_fault(
            method='PUT', match='LogicalPartition', status=500, message='no'
        )
        error = self.assert_refused(500, 'no', planned.create)
        self.assertEqual(500, http_error.HttpError.wrap(error.response).status)
        self.assertNotIn('vm1', self.names())
        planned.create()

    def test_status_after_change_keeps_it(self):
        planned = self.build(slots=base.GPUS[:1])
        self.control.add_fault(
            match='LogicalPartition.create', status=503, phase='after'
        )
        self.assert_refused(503, 'Injected', planned.create)
        self.assertIn('vm1', self.names())
        self.assertEqual('vm1', self.slot(base.GPUS[0]).part_name)

    def test_dropped_request_changes_nothing_but_answer_keeps_change(self):
        planned = self.build()
        drop = {'method': 'PUT', 'drop': True}
        self.fail_with(exceptions.ConnectionError, planned.create, **drop)
        self.assertNotIn('vm1', self.names())
        self.control.clear_journal()
        drop['phase'] = 'after'
        self.fail_with(exceptions.ConnectionError, planned.create, **drop)
        self.assertIn('vm1', self.names())
        self.assertEqual(
            [(None, 2)],
            [
                (record['status'], record['fault'])
                for record in self.control.journal()
                if record['label'] == 'LogicalPartition.create'
            ],
        )

    def test_only_long_delay_times_client_out(self):
        self.control.add_fault(match='ManagedSystem.feed', delay=0.001)
        self.assertEqual(1, len(ms.System.get(self.adapter)))
        self.assertEqual(1, self.control.faults()[0]['applied'])
        self.control.add_fault(match='ManagedSystem.feed', delay=60)
        with self.assertRaises(exceptions.TimeoutError):
            self.adapter.read('ManagedSystem', timeout=0.1)
        self.assertEqual(1, len(ms.System.get(self.adapter)))

    def test_long_delay_after_change_keeps_it(self):
        planned = self.build()
        self.control.add_fault(
            match='LogicalPartition.create', delay=60, phase='after'
        )
        with self.assertRaises(exceptions.TimeoutError):
            self.adapter.create(planned, 'LogicalPartition', timeout=0.5)
        self.assertIn('vm1', self.names())

    def test_nth_matching_request_fails_and_with_every_all_that_follow(self):
        self.control.add_fault(match='ManagedSystem', nth=3, status=500)
        self.system()
        self.system()
        self.assert_refused(500, '.', self.system)
        self.system()
        self.control.add_fault(status=500, nth=2, every=True)
        self.system()
        self.assert_refused(500, '.', self.system)
        self.assert_refused(500, '.', self.system)
        self.control.clear_faults()
        self.system()

    def test_nth_reaches_each_request_of_create(self):
        """Sweep over an operation: each of its requests fails once."""
        self.control.clear_journal()
        self.create('counted')
        count = len(self.control.journal())
        for nth in range(1, count + 1):
            with self.subTest(nth=nth):
                self.control.clear_journal()
                self.control.add_fault(nth=nth, status=500)
                name = f'vm{nth}'
                self.assert_refused(500, '.', self.create, name)
                failed = [
                    record['number']
                    for record in self.control.journal()
                    if record['fault']
                ]
                first = self.control.journal()[0]['number']
                self.assertEqual([first + nth - 1], failed)
                self.control.clear_faults()
                self.assertNotIn(name, self.names())

    def test_match_includes_query_of_path_or_is_route_label(self):
        search, adapter = lpar.LPAR.search, self.adapter
        self.control.add_fault(match=r'search/.*database', status=500)
        self.assertEqual([], search(adapter, name='x'))
        self.assert_refused(500, '.', search, adapter, name='database')
        self.control.add_fault(match='LogicalPartition.feed', status=500)
        self.system()
        self.assert_refused(500, '.', self.names)

    def test_first_of_two_faults_is_applied(self):
        self.control.add_fault(status=500)
        self.control.add_fault(status=501)
        self.assert_refused(500, '.', self.system)
        self.system()
        self.assertEqual(
            [1, 0], [fault['applied'] for fault in self.control.faults()]
        )

    def test_status_401_makes_client_log_on_again(self):
        self.control.add_fault(match='ManagedSystem', status=401)
        self.assertEqual(1, len(ms.System.get(self.adapter)))
        self.assertEqual(2, self.control.journal_counts()['PUT Logon.create'])

    def test_logon_can_fail(self):
        self.control.add_fault(match='Logon', status=404)
        with self.assertRaises(exceptions.HttpNotFound):
            base.session_for(self.emulator)

    def test_message_makes_vios_look_busy(self):
        fault = {'match': 'VirtualIOServer', 'message': 'HSCL3205 busy'}
        self.control.add_fault(status=500, **fault)
        read = self.adapter.read
        error = self.assert_refused(500, 'HSCL3205', read, 'VirtualIOServer')
        wrapper = http_error.HttpError.wrap(error.response)
        self.assertTrue(wrapper.is_vios_busy())

    def test_add_fault_refuses_invalid_arguments(self):
        for message, fault in (
            ('phase', {'status': 500, 'phase': 'during'}),
            ('from 1', {'status': 500, 'nth': 0}),
            ('give a status', {}),
            ('status of an error', {'status': 200}),
            ('match', {'status': 500, 'match': '('}),
            ('delay', {'delay': -1}),
            ('delay', {'delay': 601}),
            ('delay', {'delay': float('nan')}),
        ):
            with self.assertRaisesRegex(errors.ControlError, message):
                self.control.add_fault(**fault)
        self.assertEqual([], self.control.faults())


class JournalTest(base.EmulatorTestCase):
    is_alone = True

    def test_journal_records_request_and_answer(self):
        self.control.clear_journal()
        self.system()
        (record,) = self.control.journal()
        self.assertEqual(
            {
                'number': 2,
                'method': 'GET',
                'path': '/rest/api/uom/ManagedSystem?group=None',
                'label': 'ManagedSystem.feed',
                'status': 200,
                'fault': None,
            },
            record,
        )

    def test_journal_counts_requests_by_label(self):
        self.create().delete()
        counts = self.control.journal_counts()
        self.assertEqual(1, counts['PUT LogicalPartition.create'])
        self.assertEqual(1, counts['DELETE LogicalPartition.delete'])

    def test_journal_labels_requests_outside_api(self):
        self.assert_refused(400, 'REST000E', self.adapter.read, 'Nonsense')
        self.assert_refused(
            405,
            'PUT',
            self.adapter._request,
            'PUT',
            '/rest/api/uom/ManagedSystem',
            headers={},
        )
        labels = [record['label'] for record in self.control.journal()]
        self.assertEqual(['unknown', 'not_allowed'], labels[-2:])
