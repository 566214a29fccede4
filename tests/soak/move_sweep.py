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

"""Each request of each step of each move fails.

The sweep goes over every request that each host gets in a resize, in a cold
migration, in their confirmation and in their revert. After each fault Nova,
the driver, the user and the operator go on, and then the server runs with its
disk and its devices on one host, and nothing is left that nobody owns.

The whole sweep runs if ``NOVA_POWERVM_TEST_ALL_REQUESTS`` is set (with
``NOVA_POWERVM_TEST_KILLS``, that of kills of nova-compute), and of it
one of so many parts with ``NOVA_POWERVM_TEST_PART``, for example ``0/5``. The
devices then differ from request to request. Otherwise a sample runs, which
``NOVA_POWERVM_TEST_SEED`` chooses.
"""

import collections
import dataclasses
import difflib
import itertools
import os
import random
import re

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging

from nova_powervm.lpar import storage
from tests.functional import move_sites
from tests.soak import SEED
from tests.soak import request_faults

LOG = logging.getLogger(__name__)

_PART, _PARTS = map(
    int, os.environ.get('NOVA_POWERVM_TEST_PART', '0/1').split('/')
)

#: Devices before and after a resize; a migration keeps the former ones.
DEVICES = (('', ''), ('g', 'gg'), ('o', 'o'), ('go', ''), ('', 'go'))
STEPS = ('move', 'confirm', 'revert')

_SMALL = {'swap': 512}
_LARGE = {'memory_mb': 1024, 'vcpu': 2, 'disk': 2, 'swap': 1024}
#: In one of so many cases the services are restarted, and Placement audited.
_RESTART_IN = 4
#: How often the page on stuck servers has a server rebooted at most.
_HARD_REBOOTS = 3
#: A request that gives an LPAR its slots, by its label or its path.
_GIVES_SLOTS = re.compile(
    r'(PUT|POST) (LogicalPartition\.(create|update)'
    r'|.*/LogicalPartition(/[-0-9A-F]{36})?(\?.*)?)$'
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A step of a move, and where and how a request of it fails.

    :ivar step: One of :data:`STEPS`.
    :ivar devices: Those before and after the move.
    :ivar host: The one whose request fails; empty if none does.
    :ivar number: Which of its requests that is, counted from 1.
    :ivar request: Method and label of the request.
    :ivar fault: A key of :data:`.request_faults.FAULTS`.
    """

    step: str
    devices: tuple[str, str]
    host: str = ''
    number: int = 0
    request: str = ''
    fault: str = ''

    def __str__(self):
        devices = ' to '.join(one or 'none' for one in self.devices)
        return (
            f'{self.step} with {devices}: {self.fault} at {self.number}, '
            f'{self.request} of {self.host} (seed {SEED})'
        )


class MoveSweepTestCase(move_sites.MoveSiteTestCase):
    """Runs the steps of one kind of move, each with its faults.

    :cvar migrates: Whether servers are migrated instead of resized.
    :cvar steps: Those that requests are disturbed in.
    :cvar devices: Those of servers before and after a resize.
    :cvar small: Sizes of the flavor of new servers.
    :cvar large: Sizes of the flavor that they are resized to.
    """

    migrates = False
    steps = STEPS
    devices = DEVICES
    small = _SMALL
    large = _LARGE

    def setUp(self):
        request_faults.keep_log_short(self)
        super().setUp()
        self.threads, self.kills = request_faults.prepare_kills(self)
        self._counter = itertools.count()
        self._outcomes = collections.Counter()
        # The first one writes the image to the pool.
        self._begin(self._simplest())
        self.forget()
        self._run_periodics()
        self._nothing = self.whole_state()
        if request_faults.ALL:
            # The first one creates the media repositories.
            self.run_case(self._simplest())

    def _simplest(self):
        return Case(self.steps[0], self.variant(self.devices[0]))

    # Cases

    def sweep_all(self, step):
        """Run all cases of a step, or one part of them."""
        cases = [
            case
            for offset, devices in enumerate(self.devices)
            for index, case in enumerate(
                self.cases(step, self.variant(devices))
            )
            if (index + offset) % _PARTS == _PART
        ]
        unreached = self.sweep(cases)
        # What follows a step may come too late for its last request.
        self.assertLess(len(unreached), 1 + len(cases) // 10, unreached)

    def sweep(self, cases):
        """Run cases; return those whose request was not reached."""
        unreached = []
        for case in cases:
            with self.subTest(case):
                if not self.run_case(case):
                    unreached.append(str(case))
        LOG.warning(
            '%d cases, %s; not reached: %s',
            len(cases),
            dict(self._outcomes),
            unreached,
        )
        return unreached

    def cases(self, step, devices):
        """Return the cases of a step, after running it without a fault."""
        self.run_case(Case(step, devices))
        return [
            Case(step, devices, host, *found)
            for host, requests in self.requests.items()
            for found in self._faults(requests)
        ]

    def _faults(self, requests):
        """Return number, request and fault; a sample has all kinds."""
        if not request_faults.ALL:
            return (
                request_faults.cases(requests)
                + request_faults.kills(requests)
                + request_faults.states_set(requests)
            )
        if request_faults.SETTING:
            return request_faults.states_set(requests)
        if request_faults.KILLING:
            return request_faults.kills(requests)
        return request_faults.cases(requests)

    def variant(self, devices):
        """Return the devices before and after a move of this kind."""
        return (devices[0], devices[0] if self.migrates else devices[1])

    def run_case(self, case):
        """Run a case; return whether its request was reached."""
        self._number = next(self._counter)
        try:
            server = self._prepare(self._begin(case))
            server = self._inject(case, server)
            self._outcomes[case.step, server['status']] += 1
            self.assert_safe(server)
            server = self._recover(server)
            self.assert_whole(server)
            self._delete_server(server)
            self._run_periodics()
            self._remove_unmarked_vlan()
            self.assert_nothing_left()
        except Exception:
            self._clear_by_force()
            raise
        self._release()
        return self._reached

    def _begin(self, case):
        self.case = case
        self._reached = False
        # The request that failed, unless nova-compute was killed in it.
        self._hit = ''
        server = self.boot_server(self.flavor(case.devices[0], **self.small))
        self.root = self.write_to_root(server)
        return server

    def _prepare(self, server):
        """Take the steps before that of the case; return the server."""
        if self.case.step != 'move':
            server = self._move(server)
            self.assertEqual('VERIFY_RESIZE', server['status'])
        return server

    def _ask(self, server):
        step = self.case.step
        if step == 'move':
            self._ask_to_move(server)
        else:
            self.ask(server, f'{step}Resize')

    def _ask_to_move(self, server):
        if self.migrates:
            self.ask(server, 'migrate')
        else:
            flavor = self.flavor(self.case.devices[1], **self.large)
            self.ask(server, 'resize', flavorRef=flavor)

    def _move(self, server):
        self._ask_to_move(server)
        return self.await_end(server)

    def _inject(self, case, server):
        """Take the step of a case with its fault; record its requests."""
        for host in self.host_names:
            self.control(host).clear_journal()
        if case.fault in request_faults.KILLS:
            return self._kill(case, server)
        if case.fault == request_faults.STATE_SET:
            return self._set_state(case, server)
        if case.host:
            self.control(case.host).add_fault(
                match=request_faults.COUNTED,
                nth=case.number,
                **request_faults.FAULTS[case.fault],
            )
        self._ask(server)
        server = self.await_end(server)
        for host in self.host_names:
            for found in self.control(host).faults():
                self._reached = bool(found['applied'])
            self.control(host).clear_faults()
        self.requests = {
            host: request_faults.counted(self.control(host))
            for host in self.host_names
        }
        if self._reached:
            self._hit = self.requests[case.host][case.number - 1]
        return server

    def _kill(self, case, server):
        """Kill nova-compute in a step, start it again, and let it go on."""
        self.kills.arm(
            self.hosts[case.host].emulator.url,
            case.number,
            after=case.fault == 'killed after',
        )
        self._ask(server)
        return self._outlive(self.kills, server, case.host)

    def _outlive(self, kills, server, *hosts):
        """Start nova-compute again if it is killed, and let it go on."""
        while not kills.killed.wait(0.1):
            if self._is_at_rest(server['id']):
                break
        self._reached = kills.killed.is_set()
        kills.disarm()
        if self._reached:
            self.threads.revive()
            for host in hosts:
                self.restart_host(host)
            self.forget_events(server)
            self.await_stillness()
            return self.api.get_server(server['id'])
        return self.await_end(server)

    def _set_state(self, case, server):
        """Set the state of a server in a step, and reboot it hard."""

        def act():
            self.set_state(server, 'active')
            self.ask(server, 'reboot', type='HARD')

        self.kills.arm(
            self.hosts[case.host].emulator.url,
            case.number,
            after=False,
            act=act,
        )
        self._ask(server)
        while not self.kills.killed.wait(0.1):
            if self._is_at_rest(server['id']):
                break
        self._reached = self.kills.killed.is_set()
        self.await_stillness()
        self.kills.disarm()
        self.forget_events(server)
        return self.api.get_server(server['id'])

    def _remove_unmarked_vlan(self):
        """Remove a VLAN that a kill has left, as the guide to networks says.

        The driver records that it has added a VLAN only after it has, and
        deletes that record before it removes the VLAN.
        """
        if (self.case.fault, self.case.request.rpartition('.')[0]) in (
            ('killed after', 'POST NetworkBridge'),
            ('killed before', 'POST NetworkBridge'),
            ('killed before', 'GET NetworkBridge'),
        ):
            self.delete_vlans(self.case.host)

    def _release(self):
        """Forget a case, and release the devices that it has burned."""
        self.forget()
        self.givings.forget()
        if self.burned_devices():
            self.release_all()
            self._run_periodics()

    def _clear_by_force(self):
        """Delete what a case has left that failed, as far as possible."""
        self.delete_lpars()
        self._restart()
        self.forget()
        for host in self.host_names:
            self.delete_vlans(host)
        for consumer in set().union(*self.consumers().values()):
            self._delete_server_allocations(consumer)
        self._release()
        self._run_periodics()
        self._nothing = self.whole_state()

    # What follows a fault

    def _recover(self, server):
        """Do what Nova, the user and the operator do next."""
        self._run_periodics()
        if self._number % _RESTART_IN == 0:
            self._restart()
        if self.is_stuck(server) or self._is_state_set(server):
            server = self._end_by_hand(server)
        elif server['status'] == 'VERIFY_RESIZE':
            end = 'confirm' if self._number % 2 else 'revert'
            server = self.act(server, f'{end}Resize')
        elif server['status'] == 'ERROR' or self._is_off(server):
            server = self.act(server, 'reboot', type='HARD')
        if self._is_root_small(server):
            is_known = 'The revert is refused' in self.logged()
            if not is_known and self.case.fault != request_faults.STATE_SET:
                self.assert_logged('could not be grown to')
            server = self.act(server, 'reboot', type='HARD')
        self._run_periodics()
        self.clean_up(server)
        return server

    def _is_root_small(self, server):
        """Return whether a server's root disk has yet to grow."""
        record = self._record(server['id'])
        return self.root_of(server)[0] < record.flavor.root_gb

    def _is_state_set(self, server):
        """Return whether a step has ended because the state was set."""
        return (
            self.case.fault == request_faults.STATE_SET
            and server['status'] != 'VERIFY_RESIZE'
        )

    def _end_by_hand(self, server):
        """Do what the page on stuck servers says, until the server runs."""
        for _ in range(_HARD_REBOOTS):
            self.set_state(server, 'active')
            server = self.act(server, 'reboot', type='HARD')
            fault = str(server.get('fault'))
            if 'recorded on the wrong host' in fault:
                self._restart()
            elif 'in use by a running LPAR' in fault:
                self._run_periodics()
                self.remove_stale_lpars(server)
                self._run_periodics()
            else:
                break
        return server

    def _is_off(self, server):
        """Return whether a kill has left an active server without a guest."""
        lpar = self.lpar(server, self._record(server['id']).host)
        return lpar is None or lpar.state == 'not activated'

    def _restart(self, *hosts):
        """Restart the nova-computes of hosts, or of all."""
        for host in hosts or self.host_names:
            self.restart_host(host)
        self._run_periodics()

    # Checks

    def assert_logged(self, words):
        """Verify that the log of a case has some words."""
        self.assertTrue(words in self.logged(), f'not in the log: {words}')

    def assert_safe(self, server):
        """Verify what has to hold at any moment."""
        super().assert_safe(server)
        self.assert_burns()

    def assert_burns(self):
        """Verify that exactly those devices are burned that LPARs got."""
        burned = self.burned_devices()
        given = {
            key
            for key in self.given_slots()
            if self.kinds[key] == move_sites.SCRATCH
        }
        self.assertEqual(set(), given - burned)
        # Only the host knows whether a request that failed gave them. It may
        # be another one than in the step that was recorded.
        requests = self.case.request, self._hit, self.kills.request
        if not any(map(_GIVES_SLOTS.match, requests)):
            self.assertEqual(set(), burned - given)

    def assert_whole(self, server):
        """Verify a server that runs: its LPAR, disks and allocations."""
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        record = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), server['id']
        )
        host, uuid = record.host, server['id']
        self.assertEqual({host}, {*self.lpars_of(server)})
        lpar = self.lpar(server, host)
        # Not the columns: Nova may save those of one flavor of a move, and
        # the flavor of a reboot that runs at the same time.
        self.assertEqual(
            ('running', record.flavor.memory_mb, record.flavor.vcpus),
            (lpar.state, lpar.memory_mb, lpar.vcpus),
        )
        slots = {(host, index): {uuid} for index in lpar.slots}
        self.assertEqual({host: {uuid}} | slots, self.consumers())
        self.assertIn(
            sorted(self.kinds[key] for key in slots),
            [
                sorted(move_sites.CLASSES[letter] for letter in devices)
                for devices in self.case.devices
            ],
        )
        self.assertEqual(slots.keys(), self.tracked())
        self.assert_disks(record, server, host)
        self.assertEqual(1, len(self.adapters(server, host)))
        self.assert_burns()
        self.assert_clean_audit()

    def assert_disks(self, record, server, host):
        """Verify disks, their sizes, contents and mappings."""
        (swap,) = (
            bdm.volume_size
            for bdm in objects.BlockDeviceMappingList.get_by_instance_uuid(
                nova_context.get_admin_context(), server['id']
            )
            if bdm.guest_format == 'swap'
        )
        disks = {
            name: round(float(disk['capacity']) * 1024)
            for name, disk in self.units_of_servers().items()
        }
        root_gb = record.flavor.root_gb
        if self.case.fault == request_faults.STATE_SET:
            # A hard reboot in the middle of a revert grows it.
            root_gb = max(root_gb, round(self.root_of(server)[0]))
        wanted = {
            self.disk_name(server): root_gb * 1024,
            self.disk_name(server, storage.SWAP): swap,
        }
        if self.case.fault == request_faults.STATE_SET or (
            self.case.fault in request_faults.KILLS
            and 'Keeping the swap disk' in self.logged()
        ):
            # A hard reboot keeps it, whatever a revert has recorded.
            kept = disks[self.disk_name(server, storage.SWAP)]
            self.assertIn(kept, (_SMALL['swap'], _LARGE['swap']))
            wanted[self.disk_name(server, storage.SWAP)] = kept
        self.assertEqual(wanted, disks)
        self.assertEqual(self.root, self.root_of(server)[1])
        (medium,) = self.media(host)
        self.assertEqual(
            {host: sorted([*wanted, medium['name']])},
            {
                one: sorted(mapping['name'] for mapping in self.mappings(one))
                for one in self.host_names
                if self.mappings(one)
            },
        )

    def assert_clean_audit(self):
        """Verify in some of the cases that Nova's audit finds nothing."""
        if self._number % _RESTART_IN == 0:
            self.assertEqual((0, ''), self.audit())

    def assert_nothing_left(self):
        """Verify that a deleted server has left nothing but burns.

        A restart removes the descriptions of uploads that were interrupted.
        """
        if any(self.hosts[host].reader.files() for host in self.host_names):
            self._restart()
        self.assertEqual({}, self.consumers())
        self.assertEqual(
            [],
            [*difflib.unified_diff(self._nothing, self.whole_state(), n=0)],
        )
        self.assert_burns()
        self.assert_clean_audit()


class LocalResize(MoveSweepTestCase):
    """Resizes within a host with local disks."""

    has_pool = False
    host_names = ('host1',)


class PoolResize(MoveSweepTestCase):
    """Resizes within a host whose disks are in a pool."""

    host_names = ('host1',)


class Migration(MoveSweepTestCase):
    """Migrates to another host without a change of the flavor."""

    migrates = True


if request_faults.ALL:

    class WholeSweepMixin:
        """Sweeps over all steps of one kind of move."""

        def test_fault_at_any_request_of_move(self):
            self.sweep_all('move')

        def test_fault_at_any_request_of_confirmation(self):
            self.sweep_all('confirm')

        def test_fault_at_any_request_of_revert(self):
            self.sweep_all('revert')

    class WholeLocalResizeTest(WholeSweepMixin, LocalResize):
        pass

    class WholePoolResizeTest(WholeSweepMixin, PoolResize):
        pass

    class WholeOtherHostResizeTest(WholeSweepMixin, MoveSweepTestCase):
        pass

    class WholeMigrationTest(WholeSweepMixin, Migration):
        pass

else:
    _CHANCE = random.Random(SEED)  # noqa: S311
    _KIND = _CHANCE.choice(
        (LocalResize, PoolResize, MoveSweepTestCase, Migration)
    )

    class SampleTest(_KIND):
        def test_fault_at_any_request_leaves_servers_whole(self):
            step = _CHANCE.choice(STEPS)
            cases = self.cases(step, self.variant(_CHANCE.choice(DEVICES)))
            self.sweep(_CHANCE.sample(cases, request_faults.SAMPLE))
