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

"""Each request of each operation fails once, in each way that it can.

After a failure, what the operation's row of the design's table says is done;
what follows without a fault makes the LPAR right.
"""

import dataclasses
import os

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import storage
from tests import proofs
from tests.ops import base

ERROR = {'status': 500}
LOST_REQUEST = {'drop': True}
LOST_ANSWER = {'drop': True, 'phase': 'after'}
EXPIRED = {'status': 401}
OUTDATED = {'status': 412}
#: A port of a VLAN that the bridge does not carry.
NEW_VLAN = dataclasses.replace(base.PORT2, vlan=9)
#: Whether each request meets each fault: ``tools/soak.sh requests``.
ALL = bool(os.environ.get('NOVA_POWERVM_TEST_ALL_REQUESTS'))
FAULTS = (ERROR, LOST_REQUEST, LOST_ANSWER, EXPIRED, OUTDATED)
#: A body that is streamed, a document that is made, and one that is changed.
_LOGGED_ON_AGAIN = (
    'PUT File.upload',
    'PUT LogicalPartition.create',
    'POST VirtualIOServer.update',
)


class SweepTestCase(base.HostTestCase):
    """Runs an operation again and again, with a fault at each request."""

    #: The operation, and what is done after its failure.
    operation = operations.HARD_REBOOT
    #: Whether :meth:`disturb` can follow a failure at once. A default run
    #: recovers then where that could show something new.
    is_left_for_next = False

    def setUp(self):
        super().setUp()
        self.wanted = self.describe(
            slots=(base.slot(base.GPU, one_time_use=True),)
        )
        self.spawn_first()
        # The templates of jobs are read once and remembered.
        for _ in range(2):
            self.disturb()
            self.run_plan(self.operation, self.wanted)
        self.requests = self.listed()

    def spawn_first(self):
        """Have the LPAR as it is before the first operation."""
        self.run_plan(operations.SPAWN, self.wanted)

    def disturb(self):
        """Bring about what the operation is to make right."""

    def recover(self):
        """Do what an operator does after a failure."""
        self.run_plan(operations.HARD_REBOOT, self.wanted)

    def assert_right(self):
        """Assert that the operation has done all."""
        self.assert_lpar(slots=[base.GPU])

    def assert_failed(self):
        """Assert what holds after a failure of the operation."""
        self.assertIn('r', self.stored())
        if 'on' in self.jobs and self.lpar()['state'] == base.RUNNING:
            # No guest is started without a slot, or with one too many.
            self.assertEqual(
                dict.fromkeys(self.wanted.drc_indexes, True), self.slots()
            )

    def listed(self):
        """Return method and label of the requests, as faults name them."""
        return [
            f'{record["method"]} {record["label"]}'
            for record in self.control.journal()
        ]

    def sweep(self):
        """Inject faults into each request; return what failed, by fault.

        :ivar swept: The requests that met an error.
        """
        failed = {}
        self.swept = []
        for number, request in enumerate(self.requests):
            for fault in self.faults_of(number):
                if fault is ERROR:
                    self.swept.append(request)
                with self.subTest(number=number, request=request, **fault):
                    if self.attempt(number, fault):
                        failed.setdefault(str(fault), []).append(request)
        return failed

    def faults_of(self, number):
        """Return the faults that a request meets.

        It makes no difference to a reading whether its request or its answer
        is lost.
        """
        request = self.requests[number]
        is_reading = _is_reading(request)
        if ALL:
            return (ERROR, LOST_REQUEST, EXPIRED) if is_reading else FAULTS
        before, after = self.requests[:number], self.requests[number + 1 :]
        if not is_reading:
            is_first = request not in before
            return self.faults_of_change(request, is_first=is_first)
        # Before a change, there is nothing to undo.
        if request in after or all(map(_is_reading, before)):
            return ()
        return self.faults_of_reading()

    def faults_of_change(self, request, *, is_first):
        """Return what a change meets in a default run.

        :class:`SpawnSweepTest` has the other faults, and those of requests
        that tidy up.

        :param is_first: Whether it is the first of its kind; a later one
            meets an error, which shows what is undone there.
        """
        if request.startswith('DELETE Job'):
            return ()
        if _is_of_file(request) or not is_first:
            return (ERROR,)
        return ERROR, LOST_ANSWER

    def faults_of_reading(self):
        """Return what the last reading of a kind meets in a default run."""
        return ()

    def attempt(self, number, fault):
        """Run the operation with a fault; return whether it failed."""
        self.disturb()
        method, label = self.requests[number].split()
        nth = self.requests[: number + 1].count(self.requests[number])
        self.control.add_fault(method=method, match=label, nth=nth, **fault)
        try:
            self.run_plan(self.operation, self.wanted)
        except exception.PowerVMError as error:
            found = error
        else:
            found = None
        (applied,) = self.control.faults()
        self.control.clear_faults()
        self.assertEqual(1, applied['applied'])
        with self.unchanged():
            self._assert_safe()
            self.assert_burned_what_it_has()
        if found is None:
            self.assert_right()
            return False
        self.assert_failed()
        if ALL or not self.is_left_for_next or self.is_new(method + label):
            self.recover()
            self.assert_right()
        return True

    def assert_burned_what_it_has(self):
        """Assert that a one-time-use device of an LPAR is burned."""
        if self.lpar():
            slots = self.slots()
            burning = {
                s.drc_index
                for s in self.wanted.slots
                if s.burns and s.drc_index in slots
            }
            self.assertLessEqual(burning, self.burned())


class EveryFaultMixin:
    """Has each kind of fault, but not where it could prove nothing new."""

    def faults_of_change(self, request, *, is_first):
        if not is_first:
            return (ERROR,)
        faults = [ERROR]
        if not request.startswith('DELETE'):
            faults += [LOST_REQUEST, LOST_ANSWER]
        if not _is_of_file(request):
            faults.append(OUTDATED)
        if request in _LOGGED_ON_AGAIN:
            faults.append(EXPIRED)
        return faults

    def faults_of_reading(self):
        return (ERROR,)


class SpawnSweepTest(EveryFaultMixin, SweepTestCase):
    """What a spawn made goes; a second spawn is complete."""

    operation = operations.SPAWN
    is_left_for_next = True

    def setUp(self):
        super().setUp()
        self.wanted = dataclasses.replace(
            self.wanted, config_drive=True, blanks=(base.EPHEMERAL,)
        )

    def spawn_first(self):
        """Have no LPAR."""

    def world(self):
        """Return a host with neither the VLAN nor a media repository."""
        world = super().world()
        del world['systems'][0]['network_bridges'][0]['vlans']
        return world

    def disturb(self):
        # The first boot of a service asks for what later ones remember.
        self.begin()

    def recover(self):
        self.run_plan(operations.SPAWN, self.wanted)

    def assert_failed(self):
        self.removals.remove_leftovers(lambda: ())
        self.assert_nothing_left()

    def assert_right(self):
        self.assert_lpar(slots=[base.GPU], disks='r0i')

    @proofs.proves('D78')
    def test_spawn_fails_clean_at_each_request(self):
        failed = self.sweep()

        # A job and an upload that were carried out need no tidying up. An
        # upload, a feed and a server that fail once may be tried again.
        self.assertEqual(
            {r for r in self.swept if not _is_of_file(r)}
            - {'DELETE Job.delete', 'GET VirtualIOServer.read'},
            {r for r in failed[str(ERROR)] if not _is_of_file(r)},
        )
        self.assertEqual(
            ['PUT LogicalPartition.create', 'PUT LogicalPartition.job'],
            failed[str(LOST_REQUEST)],
        )
        self.assertNotIn(str(LOST_ANSWER), failed)
        self.assertNotIn(str(EXPIRED), failed)
        # These have no ETag, so 412 is an ordinary error for them.
        self.assertEqual(
            [
                'PUT LogicalPartition.create',
                'PUT ClientNetworkAdapter.create',
                'PUT LogicalPartition.job',
            ],
            failed[str(OUTDATED)],
        )


class DestroySweepTest(EveryFaultMixin, SweepTestCase):
    """A deletion that fails is completed by the next one."""

    def run_plan(self, operation, wanted, **asked):
        if operation is not operations.HARD_REBOOT:
            return super().run_plan(operation, wanted, **asked)
        self.forget()
        return self.removals.destroy(base.INSTANCE)

    def disturb(self):
        if self.lpar() is None:
            super().run_plan(operations.SPAWN, self.wanted)
        self.start_service()

    def assert_right(self):
        self.assert_nothing_left()

    def assert_failed(self):
        # One that was not deleted stays known.
        self.assertIsNotNone(self.lpar())

    def recover(self):
        self.removals.destroy(base.INSTANCE)

    def test_deletion_is_completed_by_the_next_one(self):
        failed = self.sweep()

        # A feed that fails once is read again.
        self.assertEqual(
            set(self.swept) - {'DELETE Job.delete'},
            set(failed[str(ERROR)]),
        )
        self.assertEqual(
            ['PUT LogicalPartition.job'], failed[str(LOST_REQUEST)]
        )
        self.assertNotIn(str(LOST_ANSWER), failed)


class HardRebootSweepTest(SweepTestCase):
    """A guest that lost a slot stays off; one that did not starts again."""

    def disturb(self):
        self.set_state(base.OFF)
        self.give(base.GPU, None)
        self.networks.detach(self.wanted.lpar_uuid, base.PORT)
        self.set_state(base.RUNNING)

    def test_hard_reboot_ends_off_or_right_at_each_request(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class RestartSweepTest(SweepTestCase):
    """A guest with all its slots is off after no failure."""

    def disturb(self):
        self.set_state(base.OFF)
        self.networks.detach(self.wanted.lpar_uuid, base.PORT)
        self.set_state(base.RUNNING)

    def assert_failed(self):
        super().assert_failed()
        # Unless its own start failed.
        if 'on' not in self.jobs:
            self.assertEqual(base.RUNNING, self.lpar()['state'])

    def test_guest_is_started_again_at_each_request(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class SoftRebootSweepTest(HardRebootSweepTest):
    """The same, if the user asks for a soft reboot."""

    operation = operations.SOFT_REBOOT


class StartSweepTest(SweepTestCase):
    """A start that fails leaves the LPAR off."""

    operation = operations.START

    def disturb(self):
        self.set_state(base.OFF)
        self.give(base.GPU, None)

    def assert_failed(self):
        super().assert_failed()
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_start_leaves_lpar_off_at_each_request(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class ResizeSweepTest(SweepTestCase):
    """A resize that fails leaves the LPAR off, for a hard reboot."""

    operation = operations.RESIZE

    def spawn_first(self):
        self.old = self.wanted
        super().spawn_first()
        self.wanted = dataclasses.replace(
            self.old,
            settings=lpar_settings.FlavorSettings(2048, 2, 0.5),
            slots=(base.slot(base.GPU2, one_time_use=True),),
            moved_slots=dict.fromkeys([base.GPU, base.GPU2], 'move'),
            blanks=(storage.Disk(storage.SWAP, 1),),
            checks_swap=True,
        )

    def disturb(self):
        self.set_state(base.OFF)
        self.give(base.GPU2, None)
        self.give(base.GPU)
        self.disks.fit_swap(self.wanted.lpar_uuid, None)

    def assert_right(self):
        self.assert_lpar(slots=[base.GPU2], disks='rs')
        self.assertEqual(2048, self.lpar()['memory'])

    def assert_failed(self):
        super().assert_failed()
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_resize_leaves_lpar_off_at_each_request(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class DepartureSweepTest(SweepTestCase):
    """A departure that fails starts the guest again, with its swap disk."""

    operation = operations.DEPARTURE
    is_left_for_next = True

    def spawn_first(self):
        self.wanted = dataclasses.replace(
            self.wanted,
            blanks=(base.SWAP,),
            checks_swap=True,
        )
        super().spawn_first()

    def disturb(self):
        self.disks.fit_swap(self.wanted.lpar_uuid, base.SWAP)
        self.set_state(base.RUNNING)

    def assert_right(self):
        self.assert_lpar(base.OFF, slots=[base.GPU], disks='r')

    def recover(self):
        self.run_plan(operations.DEPARTURE, self.wanted)

    def assert_failed(self):
        super().assert_failed()
        self.assertEqual(base.RUNNING, self.lpar()['state'])

    def test_guest_runs_again_after_each_failure(self):
        self.sweep()


class PortSweepTestCase(SweepTestCase):
    """Attaches a port to an LPAR that is off, and detaches it."""

    operation = operations.ATTACH_PORT

    def disturb(self):
        self.wanted = dataclasses.replace(self.wanted, ports=(NEW_VLAN,))
        self.set_state(base.OFF)
        self.networks.detach(self.wanted.lpar_uuid, NEW_VLAN)
        # The VLAN that the attachment has added goes, too.
        self.networks.clean_up()

    def assert_right(self):
        self.assert_lpar(
            base.OFF, slots=[base.GPU], ports=[base.PORT, NEW_VLAN]
        )

    def recover(self):
        self.run_plan(operations.ATTACH_PORT, self.wanted)


class AttachSweepTest(PortSweepTestCase):
    """An attachment that fails leaves the other adapters as they are."""

    def test_attachment_is_completed_by_the_next_one(self):
        self.sweep()


class DetachSweepTest(PortSweepTestCase):
    """A detachment that fails leaves the other adapters as they are."""

    operation = operations.DETACH_PORT

    def disturb(self):
        super().disturb()
        self.run_plan(operations.ATTACH_PORT, self.wanted)

    def assert_right(self):
        self.assert_lpar(base.OFF, slots=[base.GPU])

    def recover(self):
        self.run_plan(operations.DETACH_PORT, self.wanted)

    def test_detachment_is_completed_by_the_next_one(self):
        self.sweep()


class PlugSweepTest(PortSweepTestCase):
    """The ports of a server are plugged while nova-compute starts."""

    operation = operations.PLUG_PORTS

    def test_plugging_is_completed_by_the_next_one(self):
        self.sweep()


class ArrivalSweepTest(SweepTestCase):
    """After each failure the disks are there, and the LPAR is not."""

    disk_driver = 'ssp'
    operation = operations.ARRIVAL
    is_left_for_next = True

    def disturb(self):
        if self.lpar():
            self.removals.destroy(base.INSTANCE, delete_disks=False)

    def assert_failed(self):
        self.removals.remove_leftovers(lambda: ())
        self.assertIsNone(self.lpar())
        self.assertEqual(['r'], list(self.stored()))

    def recover(self):
        self.run_plan(operations.ARRIVAL, self.wanted)

    def test_disks_stay_after_each_failure(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class LostReturnSweepTest(ArrivalSweepTest):
    """The same on the source of a move that is reverted."""

    operation = operations.RETURN

    def recover(self):
        self.run_plan(operations.HARD_REBOOT, self.wanted)


class MappingSweepTest(SweepTestCase):
    """A hard reboot that connects lost disks, on two VIOSes."""

    disk_driver = 'ssp'

    def disturb(self):
        self.set_state(base.OFF)
        self.disks.remove(self.wanted.lpar_uuid, delete=False)

    def assert_failed(self):
        super().assert_failed()
        self.assertEqual(base.OFF, self.lpar()['state'])

    def test_disks_are_connected_by_the_next_hard_reboot(self):
        failed = self.sweep()

        self.assertNotIn(str(EXPIRED), failed)
        self.assertNotIn(str(LOST_ANSWER), failed)


class RescueSweepTest(SweepTestCase):
    """A guest runs its own system again after each failed rescue."""

    operation = operations.RESCUE
    is_left_for_next = True

    def spawn_first(self):
        self.wanted = dataclasses.replace(self.wanted, config_drive=True)
        super().spawn_first()

    def disturb(self):
        if 'z' in self.stored():
            self.run_plan(operations.UNRESCUE, self.wanted)

    def assert_right(self):
        self.assert_lpar(slots=[base.GPU], disks='zrj')

    def assert_failed(self):
        super().assert_failed()
        self.assert_lpar(
            # Unless its own start failed, too.
            self.lpar()['state'] if 'on' in self.jobs else base.RUNNING,
            slots=[base.GPU],
            disks='ri',
        )
        self.assertEqual([*'ir'], sorted(self.stored()))

    def recover(self):
        super().recover()
        self.assert_lpar(slots=[base.GPU], disks='ri')
        self.run_plan(operations.RESCUE, self.wanted)

    @proofs.proves('operation.rescue')
    def test_failed_rescue_leaves_server_as_it_was(self):
        self.sweep()


if ALL:

    class UnrescueSweepTest(RescueSweepTest):
        """A hard reboot ends what a failed unrescue has begun."""

        operation = operations.UNRESCUE

        def disturb(self):
            if 'z' not in self.stored():
                self.run_plan(operations.RESCUE, self.wanted)

        def assert_right(self):
            self.assert_lpar(slots=[base.GPU], disks='ri')
            self.assertEqual([*'ir'], sorted(self.stored()))

        def assert_failed(self):
            SweepTestCase.assert_failed(self)
            self.assertLessEqual({*'ir'}, set(self.stored()))

        def recover(self):
            self.run_plan(operations.HARD_REBOOT, self.wanted)

    class PoolRescueSweepTest(RescueSweepTest):
        disk_driver = 'ssp'

    class PoolUnrescueSweepTest(UnrescueSweepTest):
        disk_driver = 'ssp'


def _is_reading(request):
    return request.startswith('GET')


def _is_of_file(request):
    """Return whether a request is about the upload of a file."""
    return 'File' in request
