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
from nova import context
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.virt import accelerator_requests


@ddt.ddt
class BindingWaitTest(test.NoDBTestCase):
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
            accelerator_requests.SLOTS_KEY: '21010020'
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
