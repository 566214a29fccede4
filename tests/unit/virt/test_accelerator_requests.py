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


import ddt
import requests
from keystoneauth1 import exceptions as keystone_exceptions
from nova import context
from nova import exception as nova_exception
from nova import objects
from nova.accelerator import cyborg
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.virt import accelerator_requests
from nova_powervm.virt import system_metadata
from tests import proofs
from tests.functional import request_states as table
from tests.functional.request_states import Result
from tests.unit.virt import base


@ddt.ddt
class BindingWaitTest(base.NoDBTestCase):
    """Requests that Cyborg is still binding."""

    def setUp(self):
        super().setUp()
        self.flags(arq_binding_timeout=100)
        self.context = context.RequestContext(auth_token='token')
        self.instance = objects.Instance(
            uuid=uuids.instance,
            flavor=objects.Flavor(extra_specs={accelerators.PROFILE: 'fpga'}),
            system_metadata={},
        )
        self.slept = []
        self.states = []
        self.stub_out('nova.accelerator.cyborg.get_client', self.client)

    def client(self, given):
        """Give a client of Cyborg; the user's token is used."""
        self.assertIs(self.context, given)
        return self

    def get_arqs_for_instance(self, uuid):
        """Tell the request in the next of its states; the last one stays."""
        del self.states[: len(self.states) > 1]
        return [self.request(self.states[0])]

    def request(self, state):
        """Describe a request as Cyborg's API does."""
        return {
            'uuid': uuids.request,
            'state': state,
            'attach_handle_type': 'PCI',
            'attach_handle_info': {'drc_index': '21010020'},
        }

    def settled(self, *states):
        """Take over a request that changes its state with each look."""
        self.states = list(states)
        return accelerator_requests.await_requests(
            self.context,
            self.instance,
            'host1',
            [self.request(states[0])],
            self.slept.append,
        )

    def test_bound_request_is_not_polled(self):
        (found,) = self.settled('Bound')

        self.assertEqual(0x21010020, found.drc_index)
        self.assertEqual(['Bound'], self.states)
        self.assertEqual([], self.slept)

    @proofs.proves('C49', 'V16')
    def test_starting_request_is_polled_until_bound(self):
        started = ['BindStarted'] * 4

        (found,) = self.settled('Initial', *started, 'Bound')

        self.assertEqual(0x21010020, found.drc_index)
        self.assertEqual([0.5, 1, 2, 4], self.slept)

    @ddt.named_data(
        ['fails', 'BindFailed', 1, 'is not bound, its state'],
        ['takes too long', 'BindStarted', 100, 'is not bound yet'],
    )
    def test_unbound_request_is_refused_in_time(self, state, seconds, words):
        error = self.assertRaises(
            exception.AcceleratorRefused, self.settled, 'Initial', state
        )

        self.assertIn(words, str(error))
        self.assertLessEqual(sum(self.slept), seconds + 10)
        self.assertLess(len(self.slept), 20)

    def test_unbound_request_is_not_polled_without_wait(self):
        self.states = ['Initial']

        error = self.assertRaises(
            exception.AcceleratorsUnknown,
            accelerator_requests.fetch_requests,
            self.context,
            self.instance,
            'host1',
            wait=False,
            sleep=self.slept.append,
        )

        self.assertIn('still binding', str(error))
        self.assertEqual([], self.slept)

    def test_fewer_requests_than_recorded_are_refused(self):
        accelerator_requests.record_slots(
            self.instance,
            [
                accelerators.Request('a', 'p1', 0x21010020),
                accelerators.Request('b', 'p2', 0x21010021),
                accelerators.Request('c', 'p3', None),
            ],
        )

        error = self.assertRaises(
            exception.AcceleratorRefused, self.settled, 'Bound'
        )

        self.assertIn('No request is bound to slot 21010021', str(error))

    def test_fewer_requests_than_owned_slots_are_refused_without_record(self):
        self.states = ['Bound']

        error = self.assertRaises(
            exception.AcceleratorRefused,
            accelerator_requests.fetch_requests,
            self.context,
            self.instance,
            'host1',
            owned=lambda: {0x21010020, 0x21010021},
        )

        self.assertIn('No request is bound to slot 21010021', str(error))

    def test_owned_slots_do_not_count_beside_record(self):
        self.states = ['Bound']
        self.instance.system_metadata = {
            system_metadata.ACCELERATORS.name: '21010020'
        }

        (found,) = accelerator_requests.fetch_requests(
            self.context,
            self.instance,
            'host1',
            owned=lambda: {0x21010020, 0x21010021},
        )

        self.assertEqual(0x21010020, found.drc_index)

    def test_record_that_cannot_be_saved_raises_nothing(self):
        # The instance has no context, so saving fails.
        accelerator_requests.save_slots(
            self.instance, [accelerators.Request('a', 'p1', 0x21010020)]
        )

    def test_instance_without_requests_has_no_record(self):
        accelerator_requests.record_slots(self.instance, [])

        self.assertEqual({}, self.instance.system_metadata)


class CyborgOfState:
    """Answers Nova's client as Cyborg does for two requests in a state."""

    def __init__(self, state):
        self._state = state

    def get(self, path, params):
        """Answer with the requests of an instance, or without any."""
        if self._state == table.NO_ANSWER:
            raise keystone_exceptions.ConnectFailure('refused')
        answer = requests.Response()
        answer.status_code = 200
        if self._state == table.UNBIND_FAILED:
            answer.status_code = 500
        answer.json = lambda: {'arqs': self._requests()}
        return answer

    def _requests(self):
        """Return the requests that Cyborg still has for the instance."""
        state = self._state
        count = {table.UNBOUND: 0, table.FEWER: 1}.get(state, 2)
        return [
            {
                'uuid': f'request{number}',
                'state': table.BOUND if state == table.FEWER else state,
                'attach_handle_type': 'PCI',
                'attach_handle_info': {'drc_index': f'2101002{number}'},
            }
            for number in range(count)
        ]


@ddt.ddt
class RequestStatesTest(base.NoDBTestCase):
    """What the driver decides in each state of the table."""

    def setUp(self):
        super().setUp()
        self.flags(arq_binding_timeout=1)
        self.context = context.RequestContext(auth_token='token')
        self.instance = objects.Instance(
            uuid=uuids.instance,
            flavor=objects.Flavor(extra_specs={accelerators.PROFILE: 'fpga'}),
            system_metadata={
                system_metadata.ACCELERATORS.name: '21010020 21010021'
            },
        )

    def client(self, state):
        """Return Nova's client of Cyborg, for requests in a state."""
        client = cyborg._CyborgClient(self.context)
        client._adapter = CyborgOfState(state)
        self.stub_out('nova.accelerator.cyborg.get_client', lambda _: client)
        return client

    def fetch(self, wait):
        """Read the requests as for a rebuild, or as at a boot of the host."""
        return accelerator_requests.fetch_requests(
            self.context,
            self.instance,
            'host1',
            wait=wait,
            sleep=lambda seconds: None,
        )

    def passed(self, state):
        """Read the requests that Nova passes to a reboot or start."""
        return accelerator_requests.await_requests(
            self.context,
            self.instance,
            'host1',
            self.client(state).get_arqs_for_instance(uuids.instance),
            lambda seconds: None,
        )

    @ddt.data(*table.STATES)
    def test_start_at_host_boot_is_decided_by_state(self, state):
        self.client(state)
        match table.TABLE[table.HOST_BOOT][state]:
            case Result.WORKS:
                self.assertEqual(2, len(self.fetch(wait=False)))
            case Result.LATER:
                self.assertRaises(
                    exception.AcceleratorsUnknown, self.fetch, wait=False
                )
            case Result.OFF:
                self.assertRaises(
                    exception.AcceleratorRefused, self.fetch, wait=False
                )

    @ddt.data(*table.STATES)
    def test_rebuild_is_decided_by_state(self, state):
        self.client(state)
        match table.TABLE[table.REBUILD][state]:
            case Result.WORKS:
                self.assertEqual(2, len(self.fetch(wait=True)))
            case Result.REFUSED:
                self.assertRaises(
                    exception.AcceleratorRefused, self.fetch, wait=True
                )
            case Result.STUCK:
                # Nova's conductor has the same error before the driver.
                self.assertRaises(
                    exception.AcceleratorsUnknown, self.fetch, wait=True
                )

    @ddt.data(*table.STATES)
    def test_reboot_and_start_are_decided_by_state(self, state):
        for operation in (table.SOFT_REBOOT, table.HARD_REBOOT, table.START):
            match table.TABLE[operation][state]:
                case Result.WORKS:
                    self.assertEqual(2, len(self.passed(state)))
                case Result.REFUSED:
                    self.assertRaises(
                        (
                            exception.AcceleratorRefused,
                            # Nova's, which does not call the driver then.
                            nova_exception.AcceleratorRequestOpFailed,
                        ),
                        self.passed,
                        state,
                    )
