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

"""Rescues: the order of the disks, what is refused, and what failures leave.

What is done after each request that fails is in :mod:`.test_faults`, and after
each kill in :mod:`.test_kills`.
"""

import base64
import dataclasses
import hashlib
from typing import ClassVar

import ddt
from pypowervm import const
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import operations
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from tests import proofs
from tests.ops import base

RESCUE, UNRESCUE = operations.RESCUE, operations.UNRESCUE
START, HARD = operations.START, operations.HARD_REBOOT
GIB = storage.GIB
DATA = b'\x01rescue system' + bytes(2000)
IMAGE = image.Image(
    'rescue', 'raw', len(DATA), 'sha512', hashlib.sha512(DATA).hexdigest()
)
PASSWORD = b'the password of the rescue system'
#: The virtual slots of the server's own disks, and those in a rescue.
OWN = {48: 'r', 49: '0', 59: 's', 60: 'i'}
RESCUED = {48: 'z', 49: 'r', 50: '0', 60: 's', 61: 'j'}


class RescueTestCase(base.HostTestCase):
    """Has a running LPAR with three disks and a config drive."""

    def setUp(self):
        super().setUp()
        self.wanted = self.spawn(
            slots=(base.slot(base.GPU, one_time_use=True),),
            blanks=(base.EPHEMERAL, base.SWAP),
            config_drive=True,
            timeout=60,
        )
        for role in 'r0':
            data = base64.b64encode(f'the guest wrote {role}'.encode())
            self.control.write_disk(self.stored()[role]['udid'], data.decode())
        self.before = self.bytes_of('r0si')

    def bytes_of(self, roles):
        """Return the hashes of disks and media."""
        stored = self.stored()
        return {role: stored[role]['sha256'] for role in roles}

    def asked(self, **changes):
        """Describe the rescue system."""
        root = spec.WantedImage(IMAGE, 0)
        return dataclasses.replace(self.wanted, **{'root': root} | changes)

    def rescue(self, **changes):
        """Rescue the server."""
        self.run_plan(
            RESCUE,
            self.asked(**changes),
            image=base.Source(DATA),
            make_config_drive=lambda slots, mac: PASSWORD,
        )

    def fail_rescue(self, error, *words, **changes):
        """Assert that a rescue fails, and what it leaves."""
        self.failed(
            error,
            RESCUE,
            self.asked(**changes),
            *words,
            image=base.Source(DATA),
            make_config_drive=lambda slots, mac: PASSWORD,
        )
        self.assert_own()

    def assert_places(self, expected):
        """Assert the virtual slots on each server."""
        first, *others = (
            self.places()[name] for name in sorted(self.mapped())
        )
        self.assertEqual(expected, first)
        for found in others:
            self.assertEqual(
                {
                    slot - 16: role
                    for slot, role in expected.items()
                    if role not in 'ij'
                },
                found,
            )

    def assert_own(self, state=base.RUNNING):
        """Assert that the LPAR is as it was before a rescue."""
        self.assert_lpar(state, slots=[base.GPU], disks='r0si')
        self.assert_places(OWN)
        self.assertEqual([*'0irs'], sorted(self.stored()))
        self.assertEqual(self.before, self.bytes_of('r0si'))

    def assert_rescued(self, state=base.RUNNING):
        """Assert that the LPAR has its rescue system first."""
        self.assert_lpar(state, slots=[base.GPU], disks='zr0sj')
        self.assert_places(RESCUED)
        self.assertEqual(self.before, self.bytes_of('r0si'))

    def set_server(self, state, name='vios1'):
        """Set the state of a Virtual I/O Server."""
        self.control.set_partition(name, state)


class DisksMixin:
    """What each disk driver does in its own way."""

    @proofs.proves('device.rescue')
    def test_unrescue_brings_back_what_rescue_has_put_aside(self):
        before = self.disks.capacity().reserved_gb

        self.rescue()

        self.assert_rescued()
        self.assertEqual(['off soft 60', 'on'], self.jobs[-2:])
        self.assertEqual(
            hashlib.sha256(PASSWORD).hexdigest(), self.bytes_of('j')['j']
        )
        self.assertEqual(1, self.stored()['z']['capacity'])
        self.assertEqual(before + 1, self.disks.capacity().reserved_gb)

        self.run_plan(UNRESCUE, self.wanted)

        self.assert_own()
        self.assertEqual(['off soft 60', 'on'], self.jobs)
        # Not even asked for.
        self.assertEqual({base.GPU}, self.burned())
        self.assertNotIn('GET allocations', self.trail())

    def test_port_that_was_attached_is_not_in_the_way_of_a_rescue(self):
        self.set_state(base.RUNNING, rmc_state='active')
        ports = (base.PORT, base.PORT2)
        self.run_plan(
            operations.ATTACH_PORT,
            dataclasses.replace(self.wanted, ports=ports[1:]),
        )
        self.rescue()

        self.assert_lpar(slots=[base.GPU], ports=ports, disks='zr0sj')

        with self.subTest('deletion of a rescued server'):
            self.removals.destroy(base.INSTANCE)

            self.assert_nothing_left()

        with self.subTest('server without config drive'):
            self.wanted = self.spawn()

            self.rescue()

            self.assertEqual('zr', self.mapped_disks())
            self.run_plan(UNRESCUE, self.wanted)
            self.assertEqual('r', self.mapped_disks())

    def test_storage_of_others_stays_where_it_is(self):
        self.set_state(base.OFF)
        self.map_by_hand('scratch', 50)

        self.rescue()

        found = self.places()['vios1']
        # Its place in a rescue is taken.
        ephemeral = {50: None, 63: '0'}
        self.assertEqual(RESCUED | ephemeral, found)
        self.run_plan(UNRESCUE, self.wanted)
        self.assertEqual(OWN | {50: None}, self.places()['vios1'])

    def map_by_hand(self, name, slot):
        """Make a disk, and map it to the LPAR, as an operator does."""
        vios = self.vios_uuid()
        group = self.disks.groups.all(vios)[0]
        group.virtual_disks.append(
            pvm_storage.VDisk.bld(self.adapter, name, 1)
        )
        made = group.update()
        (disk,) = (d for d in made.virtual_disks if d.name == name)
        server = virtual_io_server.VIOS.get(
            self.adapter, uuid=vios, xag=[const.XAG.VIO_SMAP]
        )
        server.scsi_mappings.append(
            virtual_io_server.VSCSIMapping.bld(
                self.adapter,
                None,
                self.wanted.lpar_uuid,
                disk,
                lpar_slot_num=slot,
            )
        )
        server.update()

    # Refused, or failed

    def test_rescue_is_refused_before_guest_stops(self):
        with self.subTest('without room'):
            large = dataclasses.replace(IMAGE, size=100_000 * GIB)

            self.fail_rescue(
                exception.InsufficientSpace,
                'rescue disk of 100000 GB',
                root=spec.WantedImage(large, 0),
            )

            self.assertEqual(([], []), (self.changes(), self.jobs))

        with self.subTest('server with disks is down'):
            self.set_server(base.OFF)

            with self.assertRaisesRegex(
                exception.RestBusy,
                'vios1, which serves its disks, does not run',
            ):
                self.rescue()

            self.assertEqual(([], []), (self.changes(), self.jobs))
            self.set_server(base.RUNNING)
            self.assert_own()

        with self.subTest('a rescue disk is made anew beside the others'):
            for _ in range(2):
                self.disks.make_root(
                    self.wanted.lpar_uuid,
                    storage.Disk(storage.RESCUE, 1),
                    IMAGE,
                    image.Contents(len(DATA), 'raw', len(DATA)),
                    base.Source(DATA),
                )

            self.assertEqual([*'0irsz'], sorted(self.stored()))
            self.assert_places(OWN)

    @proofs.proves('operation.rescue')
    def test_hard_reboot_connects_all_after_interrupted_rescue(self):
        self.rescue()
        self.control.add_fault(
            method='POST', match='VirtualIOServer.update', nth=2, status=500
        )

        # One that leaves disks disconnected starts nothing.
        self.failed(exception.RestError, HARD, self.wanted)

        self.assertEqual(base.OFF, self.lpar()['state'])
        self.run_plan(START, self.wanted)
        self.assert_own()

        self.control.clear_faults()
        self.rescue()
        self.set_state(base.OFF)
        self.disks.remove(self.wanted.lpar_uuid, delete=False)
        self.wanted = dataclasses.replace(self.wanted, config_drive=False)

        self.run_plan(HARD, self.wanted)

        self.assertEqual([*'0rs'], sorted(set(self.stored()) - {'i'}))
        self.assertEqual('r0s', self.mapped_disks().rstrip('i'))


class RescueTest(DisksMixin, RescueTestCase):
    """A volume group, and what holds wherever the disks are."""

    #: Options with which new disks are made elsewhere.
    other_options: ClassVar = {'volume_group': 'rootvg'}

    def vios_uuid(self):
        """Return the uuid of a server with the disks."""
        return self.disks.groups.vios

    def test_hard_reboot_ends_rescue_whatever_the_states_are(self):
        for before, jobs, meanwhile in (
            (base.OFF, ['on'], base.RUNNING),
            (base.FAILED, ['off hard', 'on'], base.OFF),
            (base.RUNNING, ['off soft 60', 'on'], base.FAILED),
        ):
            with self.subTest(before=before, meanwhile=meanwhile):
                self.set_state(before)

                self.rescue()

                self.assert_rescued()
                self.assertEqual(jobs, self.jobs)
                self.set_state(meanwhile)

                self.run_plan(HARD, self.wanted)

                self.assert_own()

    def test_rescued_server_is_neither_rescued_again_nor_moved(self):
        self.rescue()

        self.refused(
            exception.RescueRefused,
            RESCUE,
            self.asked(),
            'an earlier rescue has left its disk',
        )
        # The other system would start after the move.
        self.refused(
            exception.MoveRefused,
            operations.DEPARTURE,
            self.wanted,
            'a rescue of it has not ended',
        )

        self.assert_rescued()

        with self.subTest('the boot of the host starts it again'):
            self.set_state(base.OFF)

            self.run_plan(
                START, dataclasses.replace(self.wanted, rescued=True)
            )

            self.assert_rescued()

        with self.subTest('a start ends what Nova does not know'):
            self.set_state(base.OFF)

            self.run_plan(START, self.wanted)

            self.assert_own()

    def test_guest_is_as_it_was_after_failed_rescue(self):
        with self.subTest('damaged image'):
            damaged = dataclasses.replace(IMAGE, hash_value='0' * 128)

            self.fail_rescue(
                exception.ImageDamaged, root=spec.WantedImage(damaged, 0)
            )

            self.assertEqual([], self.jobs)

        with self.subTest('disk of former options'):
            self.start_service(**self.other_options)

            with self.assertRaises(exception.RestError) as caught:
                self.rescue()

            self.assertIn('is connected, but not where', str(caught.exception))
            self.assertEqual(([], []), (self.changes(), self.jobs))
            self.start_service()
            self.assert_own()

        with self.subTest('no start'):
            self.fail_start()

            self.fail_rescue(exception.RestError, 'PowerOn')

            self.assertEqual(['off soft 60', 'on', 'on'], self.jobs)

        with self.subTest('a start in spite of an error'):
            self.fail_start(phase='after')
            # The driver cannot find out that it runs.
            self.control.add_fault(match='LogicalPartition.quick', status=500)

            self.fail_rescue(exception.RestError)

            self.assertEqual(
                ['off soft 60', 'on', 'off hard', 'on'], self.jobs
            )

        with self.subTest('a guest that was off'):
            self.set_state(base.OFF)
            self.fail_start()

            with self.assertRaises(exception.RestError):
                self.rescue()

            self.assert_own(base.OFF)

    def fail_start(self, **options):
        """Let the next start fail."""
        self.control.clear_faults()
        self.control.add_fault(
            method='PUT', match='/do/PowerOn', status=500, **options
        )


@ddt.ddt
class PoolRescueTest(DisksMixin, RescueTestCase):
    disk_driver = 'ssp'

    def test_image_of_other_format_and_disk_of_former_options_are_refused(
        self,
    ):
        """The disks are in the pool, but one was made in a volume group."""
        other = dataclasses.replace(IMAGE, disk_format='qcow2')
        self.fail_rescue(
            exception.ImageRefused, root=spec.WantedImage(other, 0)
        )
        self.assertEqual([], self.changes())

        self.set_state(base.OFF)
        name = storage.disk_name(self.wanted.lpar_uuid, storage.EPHEMERALS[1])
        self.map_by_hand(name, 51)

        with self.assertRaises(exception.RestError) as caught:
            self.rescue()

        self.assertIn(f'{name} is connected', str(caught.exception))
        self.assertEqual([], self.jobs)

    @ddt.data((base.OFF, []), (base.RUNNING, ['off soft 60']))
    @ddt.unpack
    def test_disk_that_another_lpar_gets_meanwhile_is_left_to_it(
        self, state, jobs
    ):
        self.set_state(state)
        other = self.lpar('database')['uuid'].upper()

        def take(slots, mac):
            self.disks.remove(self.wanted.lpar_uuid, delete=False)
            (root,) = (
                known.stored
                for known in self.disks.pool.disks()
                if known.disk.role == storage.ROOT
            )
            self.disks.attach(other, [root])
            return PASSWORD

        self.failed(
            exception.DiskInUse,
            RESCUE,
            self.asked(),
            image=base.Source(DATA),
            make_config_drive=take,
        )

        # A guest that was stopped is not started without its disk.
        self.assertEqual(jobs, self.jobs)
        self.assertNotIn('z', self.stored())
        self.assertEqual({'vios1': [], 'vios2': []}, self.mapped())

    def test_config_drive_on_second_server_comes_back(self):
        self.removals.destroy(base.INSTANCE)
        self.set_server(base.OFF)
        self.start_service()
        self.wanted = self.spawn(config_drive=True)
        self.set_server(base.RUNNING)
        self.start_service()

        self.rescue()

        self.assertEqual({'vios1': [*'zrj'], 'vios2': [*'zr']}, self.mapped())
        self.run_plan(UNRESCUE, self.wanted)
        self.assertEqual({'vios1': [*'r'], 'vios2': [*'ri']}, self.mapped())

    def vios_uuid(self):
        """Return the uuid of the first server of the pool."""
        return self.disks._units.servers[0]
