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
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import storage
from nova_powervm.powervm import disk
from nova_powervm.powervm import plugins
from nova_powervm.powervm import vif
from nova_powervm.powervm import volume
from nova_powervm.powervm.disk import localdisk
from nova_powervm.powervm.vif import sea
from nova_powervm.powervm.volume import vscsi
from tests import example_drivers

LPAR = '3F2504E0-4F89-41D3-9A0C-0305E82C3301'
SWAP = storage.Disk(storage.SWAP, 1)


def disk_context(**settings):
    return disk.Context(None, None, options.Settings(**settings))


class DriversTest(testtools.TestCase):
    """The entry points of this package, and those of an example."""

    def setUp(self):
        super().setUp()
        self.useFixture(example_drivers.InstalledDrivers())

    def test_vif_drivers_of_all_packages_are_loaded(self):
        context = vif.Context(None, None, options.Settings(), None)

        loaded = plugins.load_vif_drivers(context)

        self.assertEqual({'pvm_sea', 'example'}, set(loaded))
        self.assertIsInstance(loaded['pvm_sea'], sea.SeaVifDriver)
        self.assertIs(context, loaded['example'].context)

    def test_volume_drivers_are_named_by_type(self):
        context = volume.Context(None, None, options.Settings())

        loaded = plugins.load_volume_drivers(context)

        self.assertIsInstance(loaded['fibre_channel'], vscsi.VscsiVolumes)

    def test_option_chooses_disk_driver(self):
        context = disk_context(disk_driver='example')

        loaded = plugins.load_disk_driver(context)

        self.assertIsInstance(loaded, example_drivers.ExampleDisks)
        self.assertIs(context, loaded.context)
        self.assertIsNone(loaded.unavailable)

    def test_localdisk_without_volume_group_offers_no_disks(self):
        loaded = plugins.load_disk_driver(disk_context())

        self.assertIn('[powervm]volume_group_name', loaded.unavailable)
        self.assertEqual(0, loaded.capacity().total_gb)
        error = self.assertRaises(
            exception.ConfigurationError, loaded.check, config_drive=False
        )
        self.assertIn('[powervm]volume_group_name', str(error))
        for method, *arguments in (
            (loaded.make_blank, LPAR, SWAP),
            (loaded.make_medium, LPAR, b''),
            (loaded.check_growth, LPAR, 2),
            (loaded.grow_root, LPAR, 2),
            (loaded.read_root, LPAR),
        ):
            error = self.assertRaises(
                exception.ConfigurationError, method, *arguments
            )
            self.assertIn('[powervm]volume_group_name', str(error))

    def test_localdisk_without_volume_group_has_nothing_to_remove(self):
        loaded = plugins.load_disk_driver(disk_context())

        loaded.unmap_deleted()
        loaded.forget_uploads()
        loaded.remove_stems(loaded.stems())
        loaded.remove(LPAR, delete=False)

        self.assertEqual((), loaded.attached(LPAR))
        self.assertFalse(loaded.has_rescue(LPAR))
        self.assertTrue(loaded.swap_fits(LPAR, None))
        self.assertFalse(loaded.swap_fits(LPAR, SWAP))
        loaded.fit_swap(LPAR, None)
        self.assertRaises(
            exception.ConfigurationError, loaded.fit_swap, LPAR, SWAP
        )

    def test_localdisk_with_volume_group_offers_disks(self):
        context = disk.Context(
            FakeAdapter(), None, options.Settings(volume_group='datavg')
        )

        loaded = plugins.load_disk_driver(context)

        self.assertIsInstance(loaded, localdisk.LocalDisk)
        self.assertIsNone(loaded.unavailable)

    def test_driver_that_is_unknown_or_incomplete_is_named(self):
        for name, *words in (
            (
                'nowhere',
                "[powervm]disk_driver = 'nowhere'",
                'example, localdisk',
            ),
            ('broken', "the driver 'broken'", 'there_is_no_such_driver'),
            ('unfinished', "the disk driver 'unfinished'", 'method remove'),
        ):
            error = self.assertRaises(
                exception.ConfigurationError,
                plugins.load_disk_driver,
                disk_context(disk_driver=name),
            )
            for word in words:
                self.assertIn(word, str(error))


class FakeAdapter:
    """An adapter that nothing is asked of."""

    class session:
        changes = None
