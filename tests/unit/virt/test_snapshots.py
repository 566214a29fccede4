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

"""What is checked of an image while it is made of a root disk."""

import contextlib
import hashlib
import io
from unittest import mock

import ddt
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.virt import snapshots
from tests.unit.virt import base

DISK = bytes(1000)
VHD = b'conectix'.ljust(1000, b'\0')


class Glance:
    """Stores one image, or other bytes than those that it gets."""

    def __init__(self, damage=lambda data: data):
        self._damage = damage
        self.stored = b''
        self.deleted = False

    def get(self, context, image_id, **options):
        return {
            'name': 'image',
            'size': len(self.stored),
            'os_hash_algo': 'sha512',
            'os_hash_value': hashlib.sha512(self.stored).hexdigest(),
        }

    def update(self, context, image_id, metadata, data):
        received = b''.join(iter(lambda: data.read(100), b''))
        self.stored = self._damage(received)

    def delete(self, context, image_id):
        self.deleted = True


@ddt.ddt
class SnapshotTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.glance = Glance()
        self.stub_out('nova.image.glance.API', lambda: self.glance)
        self.stub_out(
            'nova_powervm.virt.errors.record_failure', lambda *_: None
        )
        self.states = []
        self.host = mock.Mock()
        self.host.partitions.find.return_value.power = partition.Power.OFF
        self.host.disks.check_read.return_value = 1
        self.deferred = mock.Mock()

    def take(
        self,
        task,
        disk=DISK,
        size=None,
        is_wanted=lambda states: True,
        vm_state=vm_states.ACTIVE,
    ):
        """Make an image of a server whose flavor has a disk of 1 GB."""
        instance = objects.Instance(
            uuid=uuids.instance,
            project_id='project',
            os_type=None,
            vm_state=vm_state,
            task_state=task,
            flavor=objects.Flavor(root_gb=1),
        )

        def update(state, expected_state=None):
            self.states.append(state)
            if not is_wanted(self.states):
                raise nova_exception.UnexpectedDeletingTaskStateError(
                    instance_uuid=uuids.instance, expected={}, actual={}
                )

        self.host.disks.read_root.return_value = contextlib.nullcontext(
            drivers.DiskBytes(size or len(disk), io.BytesIO(disk))
        )
        snapshots.Snapshots(self.host, self.deferred).take(
            None, instance, uuids.image, update
        )

    def refused(self, words, *args, **options):
        error = self.assertRaises(
            nova_exception.NovaException, self.take, *args, **options
        )
        self.assertIn(words, str(error))

    def test_image_has_the_bytes_of_the_disk(self):
        self.take(task_states.IMAGE_SNAPSHOT)
        self.assertEqual(DISK, self.glance.stored)

    @ddt.data(lambda data: data[:-1], lambda data: data[:-1] + b'!')
    def test_image_that_is_stored_wrong_is_refused(self, damage):
        self.glance = Glance(damage)
        self.refused('stored other bytes', task_states.IMAGE_SNAPSHOT)

    def test_deletion_of_the_server_ends_the_upload(self):
        self.assertRaises(
            nova_exception.UnexpectedDeletingTaskStateError,
            self.take,
            task_states.IMAGE_SNAPSHOT,
            is_wanted=lambda states: len(states) < 5,
        )
        self.assertEqual(b'', self.glance.stored)

    def test_disk_that_makes_no_server_is_not_shelved(self):
        self.refused('like a raw image', task_states.SHELVING, VHD)
        self.assertTrue(self.glance.deleted)
        self.deferred.start_or_defer.assert_called_once()
        self.take(task_states.IMAGE_SNAPSHOT, VHD)

    def test_server_that_is_deleted_or_was_off_is_not_started(self):
        self.assertRaises(
            nova_exception.UnexpectedDeletingTaskStateError,
            self.take,
            task_states.SHELVING,
            is_wanted=lambda states: len(states) < 5,
        )
        self.refused(
            'like a raw image',
            task_states.SHELVING,
            VHD,
            vm_state=vm_states.STOPPED,
        )
        self.deferred.start_or_defer.assert_not_called()

    def test_shelve_that_would_be_stuck_is_refused_before_the_stop(self):
        self.flags(shelved_offload_time=0)
        for name, answer in (('recorded', ['it']), ('is_volume_backed', True)):
            self.stub_out(
                f'nova_powervm.virt.instance_volumes.{name}',
                lambda _, answer=answer: answer,
            )
        check = self.host.volumes.check_removal
        check.side_effect = exception.VolumeHeld(volume='it', reason='it')
        for task, is_refused in (
            (task_states.SHELVING, True),
            (task_states.SHELVING_OFFLOADING, True),
            (task_states.POWERING_OFF, False),
        ):
            instance = objects.Instance(uuid=uuids.instance, task_state=task)
            asked = snapshots.SnapshotChecks(self.host)
            if is_refused:
                self.assertRaises(
                    exception.VolumeHeld, asked.check_stop, instance
                )
                self.assertEqual(['it'], check.call_args.args[1])
            else:
                asked.check_stop(instance)

    def test_disk_larger_than_that_of_flavor_stops_no_guest(self):
        self.host.disks.check_read.return_value = 2
        for name, answer in (('recorded', ()), ('is_volume_backed', False)):
            self.stub_out(
                f'nova_powervm.virt.instance_volumes.{name}',
                lambda _, answer=answer: answer,
            )
        instance = objects.Instance(
            uuid=uuids.instance,
            task_state=task_states.SHELVING,
            flavor=objects.Flavor(root_gb=1),
        )
        self.assertRaisesRegex(
            exception.SnapshotRefused,
            'more than the 1 GB of the flavor',
            snapshots.SnapshotChecks(self.host).check_stop,
            instance,
        )

    def test_disk_that_is_larger_than_it_looked_is_not_shelved(self):
        size = storage.GIB + 1
        self.refused('larger disk first', task_states.SHELVING, size=size)
        self.assertEqual(b'', self.glance.stored)
