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


import types
import unittest

import openstack.exceptions

from nova_powervm.demo import compute_hosts


class _Compute:
    """A compute API that shows a server in these states, one after another.

    It refuses to end the force of a service so often.
    """

    def __init__(self, *states, refusals=0):
        self._states = list(states)
        self._refusals = refusals
        self.actions = []

    def get_server(self, _identifier):
        host, status, task = self._states.pop(0)
        return types.SimpleNamespace(
            name='mine', compute_host=host, status=status, task_state=task
        )

    def evacuate_server(self, identifier):
        self.actions.append(('evacuate', identifier))

    def start_server(self, identifier):
        self.actions.append(('start', identifier))

    def update_service_forced_down(self, _service, host, binary, is_forced):
        if self._refusals and not is_forced:
            self._refusals -= 1
            raise openstack.exceptions.BadRequestException('evacuations')
        self.actions.append((host, binary, is_forced))


def _hosts(*states, refusals=0):
    compute = _Compute(*states, refusals=refusals)
    return compute, compute_hosts.ComputeHosts(
        types.SimpleNamespace(compute=compute)
    )


class ComputeHostsTest(unittest.TestCase):
    def test_evacuation_ends_on_another_host_without_a_task(self):
        compute, hosts = _hosts(
            ('one', 'ACTIVE', None),
            ('one', 'REBUILD', 'rebuilding'),
            ('two', 'SHUTOFF', None),
        )

        hosts.evacuate('id')

        self.assertEqual([('evacuate', 'id')], compute.actions)

    def test_failed_evacuation_ends_the_wait(self):
        compute, hosts = _hosts(
            ('one', 'ACTIVE', None), ('one', 'ERROR', None)
        )

        hosts.evacuate('id')

        self.assertEqual([('evacuate', 'id')], compute.actions)

    def test_evacuation_without_end_is_a_timeout(self):
        _, hosts = _hosts(
            ('one', 'ACTIVE', None), ('one', 'REBUILD', 'rebuilding')
        )

        with self.assertRaisesRegex(TimeoutError, 'mine is still REBUILD'):
            hosts.evacuate('id', seconds=-1)

    def test_start_waits_for_the_end_of_its_task(self):
        compute, hosts = _hosts(
            ('two', 'SHUTOFF', 'powering-on'), ('two', 'ACTIVE', None)
        )

        hosts.start('id')

        self.assertEqual([('start', 'id')], compute.actions)

    def test_force_ends_when_nova_agrees(self):
        compute, hosts = _hosts(refusals=2)

        hosts.force_down('one')
        hosts.end_force('one')

        self.assertEqual(
            [('one', 'nova-compute', True), ('one', 'nova-compute', False)],
            compute.actions,
        )

    def test_refusal_to_end_the_force_is_raised_in_the_end(self):
        _, hosts = _hosts(refusals=5)

        with self.assertRaises(openstack.exceptions.BadRequestException):
            hosts.end_force('one', seconds=-1)
