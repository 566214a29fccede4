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

"""The table "request's state x operation -> result", with real Cyborg."""

import functools
import os
import time

from nova import context
from nova import objects

from tests import proofs
from tests.functional import base
from tests.functional import killed_threads
from tests.functional import real_cyborg
from tests.functional import request_states as table
from tests.functional.request_states import Result

#: Slots of the servers that stories boot, on each host.
SLOTS = (0x21010022, 0x21010030)
FILE = """\
nvme:
  identification: {drc_index: "21010030"}
  resource_class: PGPU
crypto:
  identification: {drc_index: "21010022"}
  resource_class: FPGA
"""
#: Slots of the server that all stories share.
STANDING_SLOTS = (0x21010038, 0x21030039)
STANDING_FILE = """\
standing:
  identification: {vendor_id: "1014", device_id: "0634"}
  resource_class: CUSTOM_CRYPTO
"""

#: What the child process calls the states that no request has in its table.
_ACTIONS = {table.UNBOUND: 'unbind', table.NO_ANSWER: 'away'}

# What Nova says of requests that it did not get.
_OF_NOVA = {
    table.UNBOUND: 'Cyborg returned no accelerator requests',
    table.UNBIND_FAILED: 'Invalid response from Cyborg',
    table.NO_ANSWER: 'Could not communicate with Cyborg',
}
# What users read of these.
_FOR_USERS = {
    table.UNBOUND: 'it shows no request of the server',
    table.UNBIND_FAILED: 'it does not answer',
    table.NO_ANSWER: 'it does not answer',
}
# What the driver says of requests that it got.
_OF_DRIVER = {
    table.INITIAL: "is not bound yet, its state is 'Initial'",
    table.BIND_STARTED: "is not bound yet, its state is 'BindStarted'",
    table.BIND_FAILED: "is not bound, its state is 'BindFailed'",
    table.DELETING: "is not bound, its state is 'Deleting'",
    table.FEWER: ' of its 2 accelerators',
}
_WAITED = 'Failure getting accelerator re'
_STILL_BINDING = 'it is still binding them'


class RequestStatesTest(base.PowerVMTestCase):
    """The cells of the table that are told on real services.

    With the environment variable ``NOVA_POWERVM_TEST_ALL_STATES`` all are.
    """

    inventory = """\
gpus:
  identification: {drc_index: "21010020"}
  resource_class: CUSTOM_GPU
"""

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        # The scheduler prefers the host with more free memory, host2,
        # whatever failed there before.
        self.flags(
            build_failure_weight_multiplier=0.0, group='filter_scheduler'
        )
        self.flags(arq_binding_timeout=1)
        self.cyborg = self.useFixture(real_cyborg.RealCyborg(self))
        for host, file in (('host1', FILE + STANDING_FILE), ('host2', FILE)):
            self.start_host(host)
            self.cyborg.configure(host, file)
            self.cyborg.report(host)
        self._create_profile(real_cyborg.PROFILE, 'PGPU', 'FPGA')
        self._create_profile('standing', 'CUSTOM_CRYPTO', 'CUSTOM_CRYPTO')
        self.new_image = self.create_image(b'new')
        #: It has requests of the profile 'standing'.
        self.server = self.boot_accelerated(
            'ACTIVE', 'host1', profile='standing', memory_mb=2048
        )
        # It stays when a story ends.
        self._booted.clear()

    def _create_profile(self, name, *classes):
        self.cyborg.create_profile(
            *(
                {
                    f'resources:{each}': '1',
                    f'trait:{real_cyborg.MARK}': 'required',
                }
                for each in classes
            ),
            name=name,
        )

    @proofs.proves('C8', 'C33', 'C47', 'C53', 'C59', 'V15')
    def test_operations_give_results_of_table(self):
        self.tell_stories()

    def stories(self):
        """Return the cells, and what the table does not have."""
        stories = super().stories()
        for operation, check in (
            (table.SPAWN, self._check_spawn),
            (table.RESCHEDULE, self._check_reschedule),
            (table.SOFT_REBOOT, self._acting({'reboot': {'type': 'SOFT'}})),
            (table.HARD_REBOOT, self._acting({'reboot': {'type': 'HARD'}})),
            (table.START, self._acting({'os-start': None})),
            (
                table.REBUILD,
                self._acting({'rebuild': {'imageRef': self.new_image}}),
            ),
            (table.HOST_BOOT, self._check_host_boot),
        ):
            row = table.TABLE[operation]
            for state in _told(operation):
                stories[f'{operation}: {state}'] = functools.partial(
                    check, state, row[state]
                )
        return stories

    def _acting(self, action):
        return functools.partial(self._check_action, action)

    def forget(self):
        """Let Cyborg work again."""
        self.cyborg.call('plan')
        self.cyborg.call('come_back')
        super().forget()

    def boot_accelerated(
        self, expected, host, profile=real_cyborg.PROFILE, **options
    ):
        """Boot a server with two accelerators.

        :param expected: As in :meth:`boot`.
        :param host: Its host; None for the one that the scheduler prefers.
        """
        return self.boot(
            {'accel:device_profile': profile, 'group_policy': 'none'},
            expected,
            request={'host': host} if host else {},
            **options,
        )

    # States

    def plan(self, state, skip=0):
        """Plan that requests get a state as soon as they are bound."""
        if state == table.FEWER:
            self.cyborg.call('plan', action='unbind', number=1, skip=skip)
        elif state != table.BOUND:
            action = _ACTIONS.get(state, state)
            self.cyborg.call('plan', action=action, skip=skip)

    def disturb(self, state):
        """Give the requests of the standing server a state."""
        self.arqs = self.cyborg.requests(self.server)
        self.assertEqual(2, len(self.arqs))
        if state == table.NO_ANSWER:
            self.cyborg.call('go_away')
        elif state == table.UNBOUND:
            self.cyborg.unbind(self.arqs)
        elif state == table.FEWER:
            self.cyborg.unbind(self.arqs[:1])
        else:
            self._set_states(self.arqs, state)

    def heal(self, state):
        """Make the requests of :meth:`disturb` bound again."""
        if state == table.NO_ANSWER:
            self.cyborg.call('come_back')
        elif state in (table.UNBOUND, table.FEWER):
            self.cyborg.unbind(self.arqs)
            self.cyborg.bind(self.arqs)
        else:
            self._set_states(self.arqs, table.BOUND)

    def heal_planned(self, state):
        """Make Cyborg work again after :meth:`plan`."""
        self.cyborg.call('come_back')
        if state == table.UNBIND_FAILED:
            rows = self.cyborg.call('tables')['extended_accelerator_requests']
            bound = [row for row in rows if row['instance_uuid']]
            self._set_states(bound, table.BOUND)

    def _set_states(self, arqs, state):
        for arq in arqs:
            self.cyborg.call('set_state', uuid=arq['uuid'], state=state)

    def assert_no_requests(self):
        """Assert that no request has another server; delete idle ones."""
        left = [
            arq
            for arq in self.cyborg.requests()
            if arq['instance_uuid'] != self.server['id']
        ]
        self.assertEqual([], [arq for arq in left if arq['instance_uuid']])
        if left:
            self.cyborg.delete(left)

    # Operations

    def act(self, server, action, ends=('compute_',)):
        """Request an action; return the details of its end, None for success.

        :param ends: Beginnings of the names of events, one of which has to
            end. An error of any event is an end.
        """
        before = len(self._actions(server))
        self.api.post_server_action(server['id'], action)
        for number in range(600):
            # Nova's records cost more than a look at its threads.
            if number % 5 and not killed_threads.are_idle():
                time.sleep(0.1)
                continue
            newest, *others = self._actions(server)
            events = self._events(newest) if len(others) == before else ()
            for event in events:
                if event.result == 'Error':
                    return event.details
            ended = [event.event for event in events if event.finish_time]
            if any(name.startswith(ends) for name in ended):
                return None
            time.sleep(0.1)
        self.fail(f'{action} of {server["id"]} has no end')

    @staticmethod
    def _actions(server):
        # Nova's API would take ten times as long.
        return objects.InstanceActionList.get_by_instance_uuid(
            context.get_admin_context(), server['id']
        )

    @staticmethod
    def _events(action):
        return objects.InstanceActionEventList.get_by_action(
            context.get_admin_context(), action.id
        )

    def wait_for_status(self, server, status):
        """Return a server that has a status once it has no task.

        Nova sets the task after the event that :meth:`act` waits for.
        """
        # What is stuck keeps its task, and so this status.
        task = 'rebuilding' if status == 'REBUILD' else None
        return self._wait_for_server_parameter(
            server, {'status': status, 'OS-EXT-STS:task_state': task}
        )

    def assert_state(self, server, status, lpar_state, host='host1'):
        """Assert status and LPAR of a server; it has both of its slots."""
        self.wait_for_status(server, status)
        lpar = self.lpar(server, host)
        self.assertEqual(lpar_state, lpar.state)
        self.assert_slots(server, host)

    def assert_slots(self, server, host):
        """Assert that the LPAR of a server has the slots of its requests."""
        slots = STANDING_SLOTS if server is self.server else SLOTS
        self.assertEqual(
            dict.fromkeys(slots, True), self.lpar(server, host).slots
        )

    def assert_running(self, server, host='host1'):
        """Assert that a server runs with both of its slots."""
        self.assert_state(server, 'ACTIVE', 'running', host)

    def _check_action(self, action, state, result):
        before = ('ACTIVE', 'running')
        if 'os-start' in action:
            before = ('SHUTOFF', 'not activated')
            self._stop_server(self.server)
        self.disturb(state)
        logged = len(self.logged())
        self.control().clear_journal()

        details = self.act(self.server, action)

        new_log = self.logged()[logged:]
        if result is Result.WORKS:
            self.assertIsNone(details)
            self.assert_running(self.server)
            return
        self.assertEqual([], self.jobs())
        if result is Result.STUCK:
            before = ('REBUILD', 'running')
        self.assert_state(self.server, *before)
        # Whoever asks Cyborg in this operation, Nova or the driver.
        words = (_OF_NOVA | _OF_DRIVER)[state], _FOR_USERS.get(state, ' ' * 99)
        self.assertTrue(any(each in details for each in words), details)
        if state in (table.INITIAL, table.BIND_STARTED):
            self.assertIn('waiting up to 1 seconds', new_log)
        self.heal(state)
        if result is Result.STUCK:
            self.api.post_server_action(
                self.server['id'], {'os-resetState': {'state': 'active'}}
            )
        if 'os-start' in action:
            self.assertIsNone(self.act(self.server, action))
        self.assert_running(self.server)

    def _check_host_boot(self, state, result):
        # All other instances and nova-compute itself would wait, too.
        self.flags(
            resume_guests_state_on_host_boot=True, arq_binding_timeout=300
        )
        self.disturb(state)
        self.control().set_partition(
            self.lpar(self.server).uuid, state='not activated'
        )
        logged = len(self.logged())

        self.restart_host()
        self._run_periodics()

        if result is Result.WORKS:
            self.assert_running(self.server)
            return
        status = 'ACTIVE' if result is Result.LATER else 'ERROR'
        self.assert_state(self.server, status, 'not activated')
        words = _OF_NOVA | _OF_DRIVER
        if state in (table.INITIAL, table.BIND_STARTED):
            words = words | {state: _STILL_BINDING}
        self.assertIn(words[state], self.logged()[logged:])
        self.heal(state)
        if result is Result.LATER:
            self._run_periodics()
        else:
            words = words | _FOR_USERS
            self.assertIn(words[state], self.fault(self.server))
            self._reboot_server(self.server, hard=True)
        self.assert_running(self.server)

    def _check_spawn(self, state, result):
        self.plan(state)
        server = self.boot_accelerated(None, 'host2')
        self._check_build(server, state, result, 'host2')

    def _check_reschedule(self, state, result):
        self.flags(max_attempts=2, group='scheduler')
        # The other host has less free memory.
        self.control('host2').plan_job('PowerOn', 'no power')
        self.plan(state, skip=1)

        server = self.boot_accelerated(None, None)

        self.assertEqual(['PowerOn'], self.jobs('host2'))
        self._check_build(server, state, result, 'host1')

    def _check_build(self, server, state, result, host):
        """Assert that a build ended as it should, and delete the server."""
        if result is Result.WORKS:
            self.assert_running(server, host)
        else:
            self.assertEqual('ERROR', server['status'])
            self.assertIn(_words_of_build(state), server['fault']['message'])
            self.wait_until_unallocated(server)
        for name in self.hosts:
            if result is not Result.WORKS or name != host:
                self.assertIsNone(self.lpar(server, name))
        self.heal_planned(state)
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_no_requests()
        for name in self.hosts:
            for slot in SLOTS:
                self.assertIsNone(self.slot_owner(slot, name))

    def story_evacuations_give_results_of_table(self):
        """Nova makes and binds new requests for each of them."""
        server = self.boot_accelerated('ACTIVE', 'host2')
        self.computes['host2'].stop()
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host2'
        )
        self.admin_api.put_service_force_down(service['id'], True)
        row = table.TABLE[table.EVACUATE]

        # Each goes on where the one before failed; the last one works.
        for state in _told(table.EVACUATE):
            with self.subTest(state):
                self._check_evacuate(server, state, row[state])

        self.restart_host('host2')
        self.admin_api.put_service_force_down(service['id'], False)
        self.assertIsNone(self.lpar(server, 'host2'))
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_no_requests()

    def _check_evacuate(self, server, state, result):
        self.plan(state)
        details = self.act(server, {'evacuate': {}}, ('compute_rebuild',))
        if result is Result.WORKS:
            self.assertIsNone(details)
            self.wait_for_status(server, 'ACTIVE')
            self.assertEqual('host1', self.instance(server).host)
            self.assert_slots(server, 'host1')
            return
        self.assertIn(_words_of_build(state), details)
        found = self.wait_for_status(server, 'ERROR')
        self.assertIn(_words_of_build(state), found['fault']['message'])
        self.assertEqual('host2', self.instance(server).host)
        self.assertIsNone(self.lpar(server, 'host1'))
        self.heal_planned(state)


def _told(operation):
    """Return the states to do an operation in.

    The last one shows that the refusals before it have changed nothing.
    """
    states = table.TOLD[operation]
    if os.environ.get('NOVA_POWERVM_TEST_ALL_STATES'):
        states = table.STATES
    return sorted(states, key=lambda state: state == table.BOUND)


def _words_of_build(state):
    """Return what a build says that fails because of a state."""
    if state in (table.BIND_FAILED, table.DELETING):
        return _OF_DRIVER[state]
    return _WAITED
