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

"""Requests of operations on volumes fail, or the service is killed at them.

Afterwards the next request of a user makes right what is on the host: no disk
is left on a Virtual I/O Server without a mapping, and none is mapped to an
LPAR that should not have it.
"""

import dataclasses

from nova_powervm.lpar import operations
from tests.ops import base
from tests.ops import test_faults
from tests.ops import test_kills
from tests.ops import volumes

V1 = volumes.volume('v1')
BOTH = {'vios1': ['v1'], 'vios2': ['v1']}


class Connections:
    """What both servers have connected."""

    def found(self):
        """Return the names of the connected volumes, by server."""
        return {
            name: [*slots.values()] for name, slots in self.connected().items()
        }

    def assert_agree(self, expected):
        """Assert that servers have disks of the connected volumes only."""
        self.assertEqual(expected, self.found())
        self.assertEqual(
            {name: len(of) for name, of in expected.items()},
            {name: len(of) for name, of in self.hdisks().items()},
        )


class AttachKillTest(
    Connections, volumes.VolumesTestCase, test_kills.KillSweepTestCase
):
    operation = operations.ATTACH_VOLUME
    is_left_as_before = True

    def setUp(self):
        super().setUp()
        self.wanted = dataclasses.replace(
            self.wanted, volumes=(V1,), known_volumes=frozenset({V1.id})
        )

    def prepare(self):
        if self.lpar() is None:
            without = dataclasses.replace(self.wanted, volumes=())
            self.run_plan(operations.SPAWN, without)
        elif any(self.found().values()):
            self.detach(V1)
        self.assert_no_volumes()

    def recover(self):
        super().recover()
        self.assert_agree(BOTH)

    def test_hard_reboot_ends_killed_attachment(self):
        self.assertGreater(self.sweep(), 3)


class UndoneAttachKillTest(AttachKillTest):
    """Nova has no UDID for a volume whose attachment was killed."""

    def recover(self):
        """Its user detaches the volume."""
        self.run_plan(operations.DETACH_VOLUME, self.describe(volumes=(V1,)))
        self.assert_no_volumes()


class DetachKillTest(AttachKillTest):
    operation = operations.DETACH_VOLUME

    def prepare(self):
        if self.lpar() is None:
            self.run_plan(operations.SPAWN, self.wanted)
        else:
            self.attach(V1)
        self.assert_agree(BOTH)

    def recover(self):
        """Nova shows the volume as attached; its user detaches it again."""
        self.run_plan(
            self.operation,
            self.describe(volumes=(V1.with_udid(volumes.UDIDS['v1']),)),
        )
        self.assert_agree({'vios1': [], 'vios2': []})


class SpawnKillTest(volumes.VolumesTestCase, test_kills.KillSweepTestCase):
    """A killed build leaves nothing, of its volumes either, once deleted."""

    def setUp(self):
        super().setUp()
        self.wanted = dataclasses.replace(self.wanted, volumes=(V1,))

    def tidy_up(self):
        """Nova has the remains destroyed."""
        self.removals.destroy(base.INSTANCE, volumes=self.wanted.volumes)
        self.assert_nothing_left()
        self.assert_no_volumes()

    def recover(self):
        """Nova builds the instance again."""
        self.run_plan(operations.SPAWN, self.wanted)

    def test_remains_of_killed_spawn_can_be_removed(self):
        self.assertGreater(self.sweep(), 9)


class FaultTestCase(
    Connections, volumes.VolumesTestCase, test_faults.SweepTestCase
):
    """Does something with a server whose boot disk is a volume."""

    def spawn_first(self):
        """Have no LPAR, but a description of one with a boot volume."""
        boot = volumes.volume(is_boot=True)
        self.wanted = self.describe(root=None, volumes=(boot,))

    def assert_swept(self):
        """Assert that an error at a server's mappings is one."""
        failed = self.sweep()
        self.assertIn(
            'POST VirtualIOServer.update', failed[str(test_faults.ERROR)]
        )


class SpawnFaultTest(FaultTestCase):
    """A build with a volume fails at each change, and leaves nothing."""

    operation = operations.SPAWN
    is_left_for_next = True

    def disturb(self):
        self.begin()

    def recover(self):
        self.run_plan(operations.SPAWN, self.wanted)

    def assert_failed(self):
        self.removals.remove_leftovers(lambda: ())
        self.assert_nothing_left()
        self.assert_no_volumes()

    def assert_right(self):
        self.assert_lpar(disks='')
        # One server may have failed.
        self.assertIn(['v1'], self.found().values())
        self.assert_agree(self.found())

    def test_build_with_a_boot_volume_fails_clean(self):
        self.assert_swept()


class RemovalFaultTest(FaultTestCase):
    """A deletion that fails at a change is ended by the next one."""

    def run_plan(self, operation, wanted, **asked):
        if operation is operations.SPAWN:
            super().run_plan(operation, wanted, **asked)
        else:
            self.forget()
            self.recover()

    def disturb(self):
        if self.lpar() is None:
            self.run_plan(operations.SPAWN, self.wanted)
        self.start_service()

    def recover(self):
        self.removals.destroy(base.INSTANCE, volumes=self.wanted.volumes)

    def assert_failed(self):
        self.assertIsNotNone(self.lpar())

    def assert_right(self):
        self.assert_nothing_left()
        self.assertEqual({'vios1': [], 'vios2': []}, self.found())

    def test_deletion_is_ended_by_the_next_one(self):
        self.assert_swept()


class DepartureFaultTest(FaultTestCase):
    """A guest that cannot leave runs on, with its volumes where they were."""

    operation = operations.DEPARTURE

    def spawn_first(self):
        super().spawn_first()
        wanted = (*self.wanted.volumes, volumes.volume('v2'))
        self.wanted = dataclasses.replace(
            self.wanted,
            volumes=wanted,
            virtual_slots={f'{V1.id}@0': 70, f'{V1.id}@1': 71},
        )
        super(FaultTestCase, self).spawn_first()
        self.before = self.connected()
        record = self.lpars.read_virtual_slots(self.wanted.lpar_uuid, wanted)
        self.reboot = dataclasses.replace(self.wanted, virtual_slots=record)

    def disturb(self):
        """Have the guest back after the last departure."""
        self.run_plan(operations.HARD_REBOOT, self.reboot)

    def recover(self):
        self.run_plan(operations.DEPARTURE, self.wanted)

    def assert_failed(self):
        self.assert_lpar(disks='')
        self.assertEqual(self.before, self.connected())
        self.assertEqual([2, 2], [*map(len, self.hdisks().values())])

    def assert_right(self):
        self.assert_lpar(base.OFF, disks='')
        self.assertEqual({'vios1': [], 'vios2': []}, self.found())

    def test_guest_that_cannot_leave_runs_on_with_its_volumes(self):
        self.assert_swept()
