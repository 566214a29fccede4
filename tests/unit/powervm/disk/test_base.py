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


import testtools

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.powervm.disk import base
from tests import example_drivers

LPAR = '3F2504E0-4F89-41D3-9A0C-0305E82C3301'
DISK = storage.Disk(storage.ROOT, 1)


class DiskDriverTest(testtools.TestCase):
    """A driver with the methods only that each driver must have."""

    def setUp(self):
        super().setUp()
        self.disks = example_drivers.ExampleDisks(None)

    def test_checks_refuse_what_driver_cannot_do(self):
        self.disks.check(config_drive=False)
        for words, check, arguments, options in (
            ('config drives', self.disks.check, (), {'config_drive': True}),
            ('rebuilding', self.disks.check_room, (LPAR, [DISK], None), {}),
            ('rescuing', self.disks.check_reconnect, (LPAR,), {}),
            ('larger root disks', self.disks.check_growth, (LPAR, 2), {}),
            ('images', self.disks.check_read, (LPAR,), {'is_off': True}),
        ):
            error = self.assertRaises(
                exception.DiskDriverRefused, check, *arguments, **options
            )
            self.assertIn(words, error.summary)

    def test_driver_has_nothing_that_its_checks_refuse(self):
        self.assertFalse(self.disks.has_rescue(LPAR))
        self.assertFalse(self.disks.grow_root(LPAR, 1))
        self.assertFalse(self.disks.end_read(LPAR))
        self.disks.delete_rescue(LPAR)

    def test_driver_cannot_pass_check_without_what_it_allows(self):
        for check, missing in (
            ('check', 'make_medium'),
            ('check_reconnect', 'has_rescue and reconnect and delete_rescue'),
            ('check_growth', 'grow_root'),
            ('check_read', 'read_root and end_read'),
        ):
            error = self.assertRaises(
                TypeError,
                type,
                'Hasty',
                (example_drivers.ExampleDisks,),
                {check: lambda self: None},
            )
            self.assertEqual(
                f'Hasty has {check}, but not {missing}', str(error)
            )

    def test_driver_without_abstract_method_cannot_be_made(self):
        error = self.assertRaises(
            TypeError, example_drivers.UnfinishedDisks, None
        )
        self.assertIn('UnfinishedDisks', str(error))
        self.assertIn('remove', str(error))

    def test_driver_of_mapped_disks_needs_no_more_than_this(self):
        self.assertEqual(
            {
                'attach',
                'capacity',
                'delete_rescue',
                'disks_of',
                'fit_swap',
                'make_blank',
                'make_root',
                'remove',
                'servers',
                'swap_fits',
            },
            base.MappedDisks.__abstractmethods__,
        )
