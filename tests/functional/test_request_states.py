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
import time

from nova_powervm.virt import accelerator_requests
from tests.functional import base
from tests.functional import real_cyborg
from tests.functional import request_states as table
from tests.functional.request_states import Result

SLOTS = (0x21010022, 0x21010030)
FILE = """\
nvme:
  identification: {drc_index: "21010030"}
  resource_class: PGPU
crypto:
  identification: {drc_index: "21010022"}
  resource_class: FPGA
"""
SPECS = {
    'accel:device_profile': real_cyborg.PROFILE,
    'group_policy': 'none',
}

#: What the child process calls the states that no request has in its table.
_ACTIONS = {table.UNBOUND: 'unbind', table.NO_ANSWER: 'away'}

# What Nova says of requests that it did not get.
_OF_NOVA = {
    table.UNBOUND: 'Cyborg returned no accelerator requests',
    table.UNBIND_FAILED: 'Invalid response from Cyborg',
    table.NO_ANSWER: 'Could not communicate with Cyborg',
}
# What the driver says of requests that it got.
_OF_DRIVER = {
    table.INITIAL: "is not bound yet, its state is 'Initial'",
    table.BIND_STARTED: "is not bound yet, its state is 'BindStarted'",
    table.BIND_FAILED: "is not bound, its state is 'BindFailed'",
    table.DELETING: "is not bound, its state is 'Deleting'",
    table.FEWER: 'it was built with 2 accelerators',
}
_WAITED = 'Failure getting accelerator re'
_STILL_BINDING = 'it is still binding them'


class RequestStatesTestCase(base.PowerVMTestCase):
    """Provides two hosts whose slots Cyborg has, and a profile for two."""

    inventory = """\
gpus:
  identification: {drc_index: "21010020"}
  resource_class: CUSTOM_GPU
"""
    host_names = ('host1',)

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.flags(arq_binding_timeout=1)
        self.cyborg = self.useFixture(real_cyborg.RealCyborg(self))
        for host in self.host_names:
            self.start_host(host)
            self.cyborg.configure(host, FILE)
            self.cyborg.report(host)
        self.cyborg.create_profile(
            *(
                {
                    f'resources:{name}': '1',
                    f'trait:{real_cyborg.MARK}': 'required',
                }
                for name in ('PGPU', 'FPGA')
            )
        )

    def cells(self, operation, test):
        """Return a story for each cell of an operation.

        The last one shows that the refusals before it have changed nothing.
        """
        row = table.TABLE[operation]
        return {
            f'{operation}: {state}': functools.partial(test, state, row[state])
            for state in sorted(table.STATES, key=lambda s: s == table.BOUND)
        }

    def forget(self):
        """Let Cyborg work again."""
        self.cyborg.call('plan')
        self.cyborg.call('come_back')
        super().forget()

    def boot_accelerated(self, expected='ACTIVE', host='host1', **options):
        """Boot a server with two accelerators."""
        request = {'host': host} if host else {}
        return self.boot(SPECS, expected, request=request, **options)

    # States

    def plan(self, state, skip=0):
        """Plan that requests get a state as soon as they are bound."""
        if state == table.FEWER:
            self.cyborg.call('plan', action='unbind', number=1, skip=skip)
        elif state != table.BOUND:
            action = _ACTIONS.get(state, state)
            self.cyborg.call('plan', action=action, skip=skip)

    def disturb(self, server, state):
        """Give the requests of a server a state."""
        self.arqs = self.cyborg.requests(server)
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
            self._set_states(rows, table.BOUND)

    def _set_states(self, arqs, state):
        for arq in arqs:
            self.cyborg.call('set_state', uuid=arq['uuid'], state=state)

    def assert_no_requests(self):
        """Assert that no request has an instance; delete the others."""
        left = self.cyborg.requests()
        self.assertEqual([], [arq for arq in left if arq['instance_uuid']])
        if left:
            self.cyborg.delete(left)

    # Operations

    def act(self, server, action, ends=('compute_',)):
        """Request an action; return the details of its end, None for success.

        :param ends: Beginnings of the names of events, one of which has to
            end. An error of any event is an end.
        """
        before = len(self.admin_api.get_instance_actions(server['id']))
        self.api.post_server_action(server['id'], action)
        for _ in range(200):
            actions = self.admin_api.get_instance_actions(server['id'])
            events = len(actions) > before and self._events(server, actions[0])
            for event in events or ():
                if event['result'] == 'Error':
                    return event['details']
            ended = [e['event'] for e in events or () if e['finish_time']]
            if any(e.startswith(ends) for e in ended):
                return None
            time.sleep(0.1)
        self.fail(f'{action} of {server["id"]} has no end')

    def _events(self, server, action):
        return self.admin_api.get_instance_action_details(
            server['id'], action['request_id']
        )['events']

    def settled(self, server):
        """Return a server once it has no task, or a task that stays."""
        for _ in range(20):
            found = self.api.get_server(server['id'])
            if found['OS-EXT-STS:task_state'] is None:
                break
            time.sleep(0.05)
        return found

    def assert_state(self, server, status, lpar_state, host='host1'):
        """Assert status and LPAR of a server; it has both of its slots."""
        self.assertEqual(status, self.settled(server)['status'])
        lpar = self.lpar(server, host)
        self.assertEqual(lpar_state, lpar.state)
        self.assertEqual(dict.fromkeys(SLOTS, True), lpar.slots)

    def assert_running(self, server, host='host1'):
        """Assert that a server runs with both of its slots."""
        self.assert_state(server, 'ACTIVE', 'running', host)


class OperationStatesTest(RequestStatesTestCase):
    """Operations on a server that exists, one after the other."""

    def setUp(self):
        super().setUp()
        self.server = self.boot_accelerated()
        # It stays when a story ends.
        self._booted.clear()

    def test_operations_give_results_of_table(self):
        self.tell_stories()

    def stories(self):
        """Return the cells, and what the table does not have."""
        image = self.create_image(b'new')
        stories = super().stories()
        for operation, action in (
            (table.SOFT_REBOOT, {'reboot': {'type': 'SOFT'}}),
            (table.HARD_REBOOT, {'reboot': {'type': 'HARD'}}),
            (table.START, {'os-start': None}),
            (table.REBUILD, {'rebuild': {'imageRef': image}}),
        ):
            check = functools.partial(self._check_action, action)
            stories |= self.cells(operation, check)
        return stories | self.cells(table.HOST_BOOT, self._check_host_boot)

    def story_rebuild_misses_request_of_server_without_record(self):
        # An earlier version of the driver built it.
        instance = self.instance(self.server)
        del instance.system_metadata[accelerator_requests.SLOTS_KEY]
        instance.save()
        action = {'rebuild': {'imageRef': self.create_image(b'new')}}
        self.disturb(self.server, table.FEWER)

        self.assertIn(_OF_DRIVER[table.FEWER], self.act(self.server, action))

        self.assert_running(self.server)
        self.heal(table.FEWER)
        self.assertIsNone(self.act(self.server, action))
        self.assert_running(self.server)
        self.assertIn(
            accelerator_requests.SLOTS_KEY,
            self.instance(self.server).system_metadata,
        )

    def _check_action(self, action, state, result):
        before = ('ACTIVE', 'running')
        if 'os-start' in action:
            before = ('SHUTOFF', 'not activated')
            self._stop_server(self.server)
        self.disturb(self.server, state)
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
        self.assertIn((_OF_NOVA | _OF_DRIVER)[state], details)
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
        self.flags(resume_guests_state_on_host_boot=True)
        self.disturb(self.server, state)
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
            self.assertIn(words[state], self.fault(self.server))
            self._reboot_server(self.server, hard=True)
        self.assert_running(self.server)


class BuildTestCase(RequestStatesTestCase):
    """Builds, whose requests change between their binding and the spawn."""

    def assert_built(self, server, state, result, host='host1'):
        """Assert that a build ended as it should, and delete the server."""
        if result is Result.WORKS:
            self.assert_running(server, host)
        else:
            self.assertEqual('ERROR', server['status'])
            self.assertIn(words_of_build(state), server['fault']['message'])
            for name in self.hosts:
                self.assertIsNone(self.lpar(server, name))
            self.wait_until_unallocated(server)
        self.heal_planned(state)
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_no_requests()
        for slot in SLOTS:
            self.assertIsNone(self.slot_owner(slot, host))


def words_of_build(state):
    """Return what a build says that fails because of a state."""
    if state in (table.BIND_FAILED, table.DELETING):
        return _OF_DRIVER[state]
    return _WAITED


class BuildStatesTest(BuildTestCase):
    """Builds on the first host."""

    def test_spawn_gives_result_of_table(self):
        self.tell_stories()

    def stories(self):
        """Return the cells of a build."""
        return self.cells(table.SPAWN, self._check_spawn)

    def _check_spawn(self, state, result):
        self.plan(state)
        server = self.boot_accelerated(expected=None)
        self.assert_built(server, state, result)


class ReschedulingStatesTest(BuildTestCase):
    """Builds that fail on one host and are tried on another one."""

    host_names = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=2, group='scheduler')
        # The scheduler prefers the host with more free memory, whatever
        # failed there before.
        self.flags(
            build_failure_weight_multiplier=0.0, group='filter_scheduler'
        )
        self.boot({}, memory_mb=2048, request={'host': 'host2'})
        # It stays when a story ends.
        self._booted.clear()

    def test_reschedule_gives_result_of_table(self):
        self.tell_stories()

    def stories(self):
        """Return the cells of a build on a second host."""
        return self.cells(table.RESCHEDULE, self._check_reschedule)

    def _check_reschedule(self, state, result):
        self.control('host1').plan_job('PowerOn', 'no power')
        self.control('host1').clear_journal()
        self.plan(state, skip=1)

        server = self.boot_accelerated(expected=None, host=None)

        self.assertEqual(['PowerOn'], self.jobs('host1'))
        self.assert_built(server, state, result, 'host2')
        for slot in SLOTS:
            self.assertIsNone(self.slot_owner(slot, 'host1'))


class EvacuationStatesTest(RequestStatesTestCase):
    """Evacuations, for which Nova makes and binds new requests."""

    host_names = ('host1', 'host2')

    def test_evacuate_gives_result_of_table(self):
        self.tell_stories()

    def stories(self):
        """Return the cells of an evacuation."""
        return self.cells(table.EVACUATE, self._check_evacuate)

    def _check_evacuate(self, state, result):
        server = self.boot_accelerated()
        self.computes['host1'].stop()
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host='host1'
        )
        self.admin_api.put_service_force_down(service['id'], True)
        self.plan(state)

        details = self._evacuate(server)

        if result is not Result.WORKS:
            self.assertIn(words_of_build(state), details)
            found = self.settled(server)
            self.assertEqual('ERROR', found['status'])
            self.assertIn(words_of_build(state), found['fault']['message'])
            self.assertEqual('host1', self.instance(server).host)
            self.assertIsNone(self.lpar(server, 'host2'))
            self.heal_planned(state)
            self.assertIsNone(self._evacuate(server))
        self.assertEqual('host2', self.instance(server).host)
        slots = self.lpar(server, 'host2').slots
        self.assertEqual(dict.fromkeys(SLOTS, True), slots)
        self.restart_host('host1')
        self.admin_api.put_service_force_down(service['id'], False)
        self.assertIsNone(self.lpar(server, 'host1'))
        self._delete_server({'id': server['id'], 'status': 'ERROR'})
        self.assert_no_requests()

    def _evacuate(self, server):
        return self.act(server, {'evacuate': {}}, ('compute_rebuild',))
