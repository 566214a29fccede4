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

"""Entity tags: refresh, conflicting updates and retried transactions."""

from pypowervm import const
from pypowervm import exceptions
from pypowervm.utils import transaction
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import virtual_io_server as vios

from powervm_emulator.core import groups

from . import base


class EtagTest(base.EmulatorTestCase):
    def statuses(self, label):
        return [
            record['status']
            for record in self.control.journal()
            if record['label'] == label
        ]

    def test_etag_is_signed_decimal_integer(self):
        for found in lpar.LPAR.get(self.adapter):
            self.assertRegex(found.etag, r'^-?\d{1,10}$')

    def test_feed_and_entry_have_same_etag(self):
        for found in lpar.LPAR.get(self.adapter):
            self.assertEqual(found.etag, self.read(found.uuid).etag)

    def test_create_and_read_have_same_etag(self):
        created = self.create(slots=base.GPUS)
        # Created without groups, read with none of them.
        again = lpar.LPAR.get(self.adapter, uuid=created.uuid, xag=[])
        self.assertEqual(created.etag, again.etag)

    def test_etag_differs_with_extended_group(self):
        first = vios.VIOS.get(self.adapter)[0]
        second = vios.VIOS.get(self.adapter, xag=[const.XAG.VIO_SMAP])[0]
        self.assertNotEqual(first.etag, second.etag)

    def test_etags_differ_for_every_choice_of_groups(self):
        names = sorted(groups.EXTENDED)
        choices = [None, *(names[:count] for count in range(len(names)))]
        choices += [[name] for name in names[1:]]
        resource = next(
            self.emulator._application._emulation.host.all('VirtualIOServer')
        )
        etags = {resource.etag(groups.Groups(choice)) for choice in choices}
        self.assertEqual(len(choices), len(etags))
        self.assertTrue(all(resource.is_current(etag) for etag in etags))

    def test_refresh_of_unchanged_lpar_is_answered_304(self):
        found = lpar.LPAR.get(self.adapter)[0]
        self.assertIs(found, found.refresh())
        self.assertEqual([304], self.statuses('LogicalPartition.read'))

    def test_refresh_of_changed_system_returns_new_wrapper(self):
        found = self.system()
        self.create(slots=base.GPUS[:1])
        self.assertIsNot(found, found.refresh())

    def test_create_keeps_etags_of_other_lpars(self):
        created = self.create()
        for found in lpar.LPAR.get(self.adapter):
            if found.uuid != created.uuid:
                self.assertIs(found, found.refresh())

    def test_unchanged_feed_is_answered_304(self):
        answer = self.adapter.read('LogicalPartition')
        again = self.adapter.read_by_path(
            '/rest/api/uom/LogicalPartition?group=None', etag=answer.etag
        )
        self.assertEqual(304, again.status)

    def test_lpar_etag_changes_with_state_and_slots(self):
        created = self.create()
        seen = {created.etag}
        for change in (
            lambda: self.control.set_partition('vm1', state='running'),
            lambda: self.control.set_partition('vm1', rmc_state='active'),
            lambda: self.control.set_owner('21010020', 'vm1'),
            lambda: self.control.set_owner('21010020', None),
        ):
            change()
            etag = self.read(created.uuid).etag
            self.assertNotIn(etag, seen)
            seen.add(etag)

    def test_system_etag_changes_with_slots(self):
        before = self.system().etag
        self.control.pull('21010020')
        self.assertNotEqual(before, self.system().etag)

    def test_update_refuses_outdated_etag(self):
        created = self.create()
        other = self.read(created.uuid)
        other.name = 'first'
        other.update()
        created.name = 'second'
        self.assert_refused(412, 'If-Match', created.update)
        self.assertEqual('first', self.read(created.uuid).name)

    def test_delete_refuses_outdated_etag(self):
        created = self.create()
        self.control.set_partition('vm1', rmc_state='none')
        self.assert_refused(412, 'If-Match', created.delete)
        self.read(created.uuid).delete()

    def test_delete_accepts_etag_of_reading_with_groups(self):
        created = self.create()
        lpar.LPAR.get(
            self.adapter, uuid=created.uuid, xag=[const.XAG.NVRAM]
        ).delete()
        with self.assertRaises(exceptions.HttpNotFound):
            self.read(created.uuid)

    def test_update_without_if_match_succeeds(self):
        created = self.create()
        created.name = 'other'
        path = f'/rest/api/uom/LogicalPartition/{created.uuid}'
        self.adapter.update_by_path(created, None, path)
        self.assertEqual('other', self.read(created.uuid).name)

    def test_delete_refuses_malformed_if_match(self):
        created = self.create()
        self.assert_refused(
            412,
            'If-Match',
            self.adapter.delete,
            'LogicalPartition',
            created.uuid,
            etag='W/"x"',
        )

    def test_recreated_lpar_has_new_etag(self):
        first = self.create()
        first.delete()
        second = self.create(uuid=first.uuid)
        self.assertNotEqual(first.etag, second.etag)

    def test_transaction_retries_after_etag_mismatch(self):
        created = self.create()
        changes = []

        @transaction.entry_transaction
        def change(wrapper):
            if not changes:
                self.control.set_partition('vm1', rmc_state='none')
            changes.append(wrapper.etag)
            wrapper.name = 'changed'
            return wrapper.update()

        change(lpar.LPAR.getter(self.adapter, created.uuid))
        self.assertEqual(2, len(changes))
        self.assertEqual([412, 200], self.statuses('LogicalPartition.update'))
        self.assertEqual('changed', self.read(created.uuid).name)

    def test_vios_update_refuses_outdated_etag(self):
        (found,) = vios.VIOS.get(self.adapter, xag=[const.XAG.VIO_SMAP])
        self.control.set_partition('vios1', rmc_state='busy')
        found.allow_perf_data_collection = True
        self.assert_refused(412, 'If-Match', found.update)
