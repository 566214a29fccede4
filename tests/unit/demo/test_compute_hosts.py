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

"""Waits of the demonstration for what Nova does with servers."""

import types
import unittest

import ddt
import openstack.exceptions

from demo import cloud
from demo import compute_hosts

#: Host, status and task of a server, one look after another.
WAITS = 'two', 'VERIFY_RESIZE', None
IS_BACK = 'two', 'ACTIVE', None


class _Compute:
    """A compute API that shows a server in these states, one after another.

    It notes what else is called, and refuses to end the force of a service
    so often.
    """

    def __init__(self, *states, refusals=0):
        self._states = list(states)
        self._refusals = refusals
        self.actions = []

    def __getattr__(self, name):
        return lambda *given: self.actions.append((name, *given))

    def get_server(self, _identifier):
        host, status, task = self._states.pop(0)
        return types.SimpleNamespace(
            name='mine', compute_host=host, status=status, task_state=task
        )

    def find_flavor(self, name, *, ignore_missing):
        return types.SimpleNamespace(id=f'id of {name}')

    def migrations(self, server_id):
        return [
            types.SimpleNamespace(uuid=f'{server_id} {day}', created_at=day)
            for day in ('2026-01-02', '2026-01-03', '2026-01-01')
        ]

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


@ddt.ddt
class ComputeHostsTest(unittest.TestCase):
    @ddt.named_data(
        [
            'evacuation until it is elsewhere without a task',
            'evacuate',
            'evacuate_server',
            [('one', *IS_BACK[1:]), ('one', 'REBUILD', 'rebuilding'), IS_BACK],
        ],
        [
            'evacuation until it has failed',
            'evacuate',
            'evacuate_server',
            [('one', *IS_BACK[1:]), ('one', 'ERROR', None)],
        ],
        [
            'start until its task ends',
            'start',
            'start_server',
            [('two', 'SHUTOFF', 'powering-on'), IS_BACK],
        ],
        [
            'migration until it waits for confirmation',
            'migrate',
            'migrate_server',
            [('one', 'ACTIVE', 'resize_prep'), WAITS],
        ],
        [
            'confirmation until nothing waits',
            'confirm',
            'confirm_server_resize',
            [WAITS, ('two', 'ACTIVE', 'x'), IS_BACK],
        ],
        [
            'revert until nothing waits',
            'revert',
            'revert_server_resize',
            [WAITS, ('two', 'VERIFY_RESIZE', 'resize_reverting'), IS_BACK],
        ],
    )
    def test_hosts_wait_for(self, action, request, states):
        compute, hosts = _hosts(*states)

        getattr(hosts, action)('id')

        self.assertEqual([(request, 'id')], compute.actions)
        self.assertEqual([], compute._states)

    def test_resize_has_id_of_flavor(self):
        compute, hosts = _hosts(('one', 'ACTIVE', 'resize_prep'), WAITS)

        hosts.resize('id', 'large')

        self.assertEqual(
            [('resize_server', 'id', 'id of large')], compute.actions
        )

    def test_evacuation_without_end_is_a_timeout(self):
        _, hosts = _hosts(
            ('one', 'ACTIVE', None), ('one', 'REBUILD', 'rebuilding')
        )

        with self.assertRaisesRegex(TimeoutError, 'mine is still REBUILD'):
            hosts.evacuate('id', seconds=-1)

    def test_last_migration_is_the_youngest(self):
        _, hosts = _hosts()

        self.assertEqual('id 2026-01-03', hosts.last_migration('id'))

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


class ServerTest(unittest.TestCase):
    def test_server_is_settled_when_active_or_failed_with_fault(self):
        for status, fault, expected in (
            ('BUILD', '', False),
            ('ACTIVE', '', True),
            ('ERROR', '', False),
            ('ERROR', 'No valid host', True),
        ):
            server = cloud.Server('a-uuid', 'a-name', 'i-1', status, fault)
            self.assertIs(expected, server.is_settled)
