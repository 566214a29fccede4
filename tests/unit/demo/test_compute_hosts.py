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

from demo import compute_hosts


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

    def migrate_server(self, identifier):
        self.actions.append(('migrate', identifier))

    def find_flavor(self, name, *, ignore_missing):
        return types.SimpleNamespace(id=f'id of {name}')

    def resize_server(self, identifier, flavor):
        self.actions.append(('resize', identifier, flavor))

    def confirm_server_resize(self, identifier):
        self.actions.append(('confirm', identifier))

    def revert_server_resize(self, identifier):
        self.actions.append(('revert', identifier))

    def migrations(self, server_id):
        return [
            types.SimpleNamespace(uuid=f'{server_id} {day}', created_at=day)
            for day in ('2026-01-02', '2026-01-03', '2026-01-01')
        ]

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

    def test_move_ends_when_it_waits_for_confirmation(self):
        for move, arguments, action in (
            ('migrate', (), ('migrate', 'id')),
            ('resize', ('large',), ('resize', 'id', 'id of large')),
        ):
            compute, hosts = _hosts(
                ('one', 'ACTIVE', 'resize_prep'),
                ('two', 'VERIFY_RESIZE', None),
            )

            getattr(hosts, move)('id', *arguments)

            self.assertEqual([action], compute.actions)

    def test_confirmation_and_revert_end_when_nothing_waits_any_more(self):
        for action in ('confirm', 'revert'):
            compute, hosts = _hosts(
                ('two', 'VERIFY_RESIZE', None),
                ('two', 'VERIFY_RESIZE', 'resize_reverting'),
                ('two', 'ACTIVE', 'resize_reverting'),
                ('two', 'ACTIVE', None),
            )

            getattr(hosts, action)('id')

            self.assertEqual([(action, 'id')], compute.actions)

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
