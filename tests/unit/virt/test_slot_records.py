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


"""The record of the virtual slots that an instance's devices have."""

import threading
from unittest import mock

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.ops import apply
from nova_powervm.virt import record_changes
from nova_powervm.virt import slot_records
from nova_powervm.virt import system_metadata
from tests.unit.virt import base

MAC, OTHER = 'fa:16:3e:00:00:01', 'fa:16:3e:00:00:02'
FIRST, SECOND = f'{uuids.volume}@0', f'{uuids.volume}@1'
RECORD = {MAC: 2, FIRST: 64, SECOND: 65}


def name_of(key):
    """Return the name of a key in Nova's record."""
    return system_metadata.virtual_slot(key).name


class SlotRecordsTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(
            uuid=uuids.instance,
            system_metadata={
                'image_ref': 'it',
                **{name_of(key): str(slot) for key, slot in RECORD.items()},
            },
        )
        self.saved = self.enterContext(
            mock.patch.object(system_metadata, 'edit', side_effect=self.edit)
        )

    def edit(self, instance, how, **options):
        """Edit the metadata of the object, and save nothing."""
        how(instance.system_metadata)

    def save(self, slots, *removed, **options):
        """Record what an operation has done."""
        done = apply.Outcome()
        done.slots |= slots
        done.removed.update(removed)
        slot_records.try_to_save(self.instance, done, **options)

    def assert_recorded(self, **expected):
        """Assert which slots are on record now."""
        self.assertEqual(expected, slot_records.recorded(self.instance))
        self.assertIn('image_ref', self.instance.system_metadata)

    def test_record_is_read(self):
        metadata = self.instance.system_metadata
        metadata[name_of(OTHER)] = 'no number'

        self.assertEqual(RECORD, slot_records.recorded(self.instance))

    def test_build_forgets_devices_that_are_gone(self):
        slot_records.note_all(self.instance, {OTHER: 3, FIRST: 66})

        # The other server may just be off.
        self.assert_recorded(**{OTHER: 3, FIRST: 66, SECOND: 65})
        self.saved.assert_not_called()

    def test_known_slots_change_and_save_nothing(self):
        self.instance.obj_reset_changes()
        self.save(RECORD)
        slot_records.note_all(self.instance, RECORD)

        self.assertEqual(set(), self.instance.obj_what_changed())
        self.saved.assert_not_called()

    def test_slot_that_differs_is_saved(self):
        self.save({**RECORD, MAC: 16}, only_idle=True)

        self.assert_recorded(**{**RECORD, MAC: 16})
        self.assertEqual({'only_idle': True}, self.saved.call_args.kwargs)

    def test_device_that_is_gone_is_forgotten(self):
        self.save({}, uuids.volume)

        self.assert_recorded(**{MAC: 2})

    def test_slot_is_on_record_for_one_device_only(self):
        # A server with an earlier name was added, and is removed again; the
        # first one has no ports any more.
        for slots in (
            {f'{uuids.volume}@1': 64, f'{uuids.volume}@2': 65},
            {FIRST: 64, SECOND: 65},
            {FIRST: 65},
        ):
            self.save(slots)
            self.assert_recorded(**{MAC: 2, **slots})

    def test_attachment_does_not_fail_because_of_its_record(self):
        for error, lines in (
            (
                nova_exception.UnexpectedTaskStateError(
                    instance_uuid=1, expected=None, actual='x'
                ),
                0,
            ),
            (RuntimeError('no database'), 1),
        ):
            self.saved.side_effect = error
            self.save({MAC: 3})
            self.assertEqual(
                lines,
                self.stdlog.logger.output.count('slots of the instance can'),
            )

    def test_slots_of_an_lpar_that_is_about_to_go_are_saved(self):
        lpars = mock.Mock()
        lpars.read_virtual_slots.return_value = {FIRST: 70}
        slot_records.save_present(lpars, self.instance, ['volumes'])

        lpars.read_virtual_slots.assert_called_once_with(mock.ANY, ['volumes'])
        self.assert_recorded(**{**RECORD, FIRST: 70})
        self.assertEqual({'only_idle': False}, self.saved.call_args.kwargs)

    def test_lpar_that_is_gone_leaves_the_record(self):
        lpars = mock.Mock()
        lpars.read_virtual_slots.side_effect = exception.PartitionNotFound(
            uuid='it'
        )
        slot_records.save_present(lpars, self.instance)

        self.saved.assert_not_called()


class ConcurrentTest(base.TestCase):
    """Several threads have objects of one record."""

    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        made = objects.Instance(
            self.context,
            uuid=uuids.instance,
            project_id='project',
            system_metadata={'image_ref': 'it'},
            flavor=objects.Flavor(name='small', flavorid='1', extra_specs={}),
        )
        made.create()

    def load(self):
        """Load the record."""
        return objects.Instance.get_by_uuid(
            self.context, uuids.instance, expected_attrs=['system_metadata']
        )

    def save(self, instance, slots, *removed):
        """Record what an operation has done."""
        done = apply.Outcome()
        done.slots |= slots
        done.removed.update(removed)
        slot_records.try_to_save(instance, done)

    def test_ports_that_are_attached_at_once_are_both_recorded(self):
        first, second = self.load(), self.load()
        write = record_changes.save_metadata
        others = []

        def write_late(instance, **options):
            if not others:
                other = threading.Thread(
                    target=self.save, args=(second, {OTHER: 17})
                )
                others.append(other)
                other.start()
                other.join(0.2)
            write(instance, **options)

        with mock.patch.object(record_changes, 'save_metadata', write_late):
            self.save(first, {MAC: 16})
            others[0].join()

        self.assertEqual(
            {MAC: 16, OTHER: 17}, slot_records.recorded(self.load())
        )

    def test_older_object_takes_nothing_from_the_record(self):
        older, present = self.load(), self.load()
        self.save(present, {FIRST: 64})
        console = system_metadata.console('host1')
        system_metadata.change(present, {console: 'path'})
        self.save(older, {MAC: 2})
        # Nova saves it at the end of what it does.
        older.save()

        found = self.load()
        self.assertEqual({FIRST: 64, MAC: 2}, slot_records.recorded(found))
        self.assertEqual('path', console.read(found.system_metadata))

    def test_older_object_can_forget_a_device(self):
        older = self.load()
        self.save(self.load(), {MAC: 16})
        self.save(older, {}, MAC)

        self.assertEqual({}, slot_records.recorded(self.load()))
