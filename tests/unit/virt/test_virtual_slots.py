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

from unittest import mock

from nova import exception as nova_exception
from nova import objects
from nova import test as nova_test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import system_metadata
from nova_powervm.virt import virtual_slots

MAC, OTHER = 'fa:16:3e:00:00:01', 'fa:16:3e:00:00:02'
FIRST, SECOND = f'{uuids.volume}@0', f'{uuids.volume}@1'
RECORD = {MAC: 2, FIRST: 64, SECOND: 65}


def name_of(key):
    """Return the name of a key in Nova's record."""
    return system_metadata.virtual_slot(key).name


class VirtualSlotsTest(nova_test.NoDBTestCase):
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
            mock.patch.object(system_metadata, 'change')
        )

    def assert_saved(self, **options):
        """Return what was saved, by the names of keys."""
        (call,) = self.saved.call_args_list
        self.assertEqual(options, call.kwargs)
        instance, changes = call.args
        self.assertIs(self.instance, instance)
        return {key.name: value for key, value in changes.items()}

    def test_record_is_read(self):
        metadata = self.instance.system_metadata
        metadata[name_of(OTHER)] = 'no number'

        self.assertEqual(RECORD, virtual_slots.recorded(self.instance))

    def test_build_forgets_devices_that_are_gone(self):
        virtual_slots.note_all(self.instance, {OTHER: 3, FIRST: 66})

        # The other server may just be off.
        self.assertEqual(
            {OTHER: 3, FIRST: 66, SECOND: 65},
            virtual_slots.recorded(self.instance),
        )
        self.assertIn('image_ref', self.instance.system_metadata)
        self.saved.assert_not_called()

    def test_known_slots_change_and_save_nothing(self):
        self.instance.obj_reset_changes()
        virtual_slots.note(self.instance, RECORD)
        virtual_slots.save(self.instance, RECORD)
        virtual_slots.try_to_forget(self.instance, OTHER)

        self.assertEqual(set(), self.instance.obj_what_changed())
        self.saved.assert_not_called()

    def test_slot_that_differs_is_saved(self):
        virtual_slots.try_to_save(
            self.instance, {**RECORD, MAC: 16}, only_idle=True
        )

        self.assertEqual(
            {name_of(MAC): '16'}, self.assert_saved(only_idle=True)
        )

    def test_volume_that_is_gone_is_forgotten(self):
        virtual_slots.try_to_forget(self.instance, uuids.volume)

        self.assertEqual(
            dict.fromkeys(map(name_of, (FIRST, SECOND))), self.assert_saved()
        )

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
            virtual_slots.try_to_save(self.instance, {MAC: 3})
            self.assertEqual(
                lines,
                self.stdlog.logger.output.count('slots of the instance can'),
            )

    def test_slots_of_an_lpar_that_is_about_to_go_are_saved(self):
        lpars = mock.Mock()
        lpars.read_virtual_slots.return_value = {FIRST: 70}
        virtual_slots.save_present(lpars, self.instance, ['volumes'])

        lpars.read_virtual_slots.assert_called_once_with(mock.ANY, ['volumes'])
        self.assertEqual(
            {name_of(FIRST): '70'}, self.assert_saved(only_idle=False)
        )

    def test_lpar_that_is_gone_leaves_the_record(self):
        lpars = mock.Mock()
        lpars.read_virtual_slots.side_effect = exception.PartitionNotFound(
            uuid='it'
        )
        virtual_slots.save_present(lpars, self.instance)

        self.saved.assert_not_called()
