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

import itertools
import unittest

from os_brick import constants
from os_brick.initiator import linuxscsi

from nova_powervm import exception
from nova_powervm.lpar import volumes

PORT, OTHER_PORT = '10000090FA537101', '10000090FA537102'
TARGET, OTHER_TARGET = '50050768022121CA', '50050768022121CB'
INFO = {
    'driver_volume_type': 'fibre_channel',
    'serial': 'v1',
    'data': {
        'volume_id': 'not its id',
        'target_wwn': [TARGET.lower(), OTHER_TARGET],
        'target_lun': 3,
        'initiator_target_map': {
            '10:00:00:90:fa:53:71:01': [TARGET],
            OTHER_PORT: [OTHER_TARGET.lower(), 'unknown target'],
        },
    },
}


def volume(**data):
    return volumes.Volume('v1', volumes.FIBRE_CHANNEL, data)


def paths(fibre, *wwpns):
    return [(p.initiator, p.target, p.lun) for p in fibre.paths(wwpns)]


class ParseTest(unittest.TestCase):
    def test_serial_is_the_id(self):
        volume = volumes.parse(INFO, is_boot=True)

        self.assertEqual(
            ('v1', 'fibre_channel', True),
            (volume.id, volume.kind, volume.is_boot),
        )
        self.assertEqual('boot volume v1', str(volume))

    def test_recorded_udid_is_read(self):
        data = INFO['data'] | {volumes.UDID_KEY: '01ABC'}
        self.assertEqual('01ABC', volumes.parse(INFO | {'data': data}).udid)

    def test_text_has_no_secrets(self):
        data = {'auth_password': 'secret'}
        self.assertNotIn('secret', repr(volumes.parse(INFO | {'data': data})))

    def test_volume_without_id_is_refused(self):
        with self.assertRaisesRegex(exception.VolumeRefused, 'tell its id'):
            volumes.parse(INFO | {'serial': None})

    def test_promise_that_no_lpar_can_keep_is_named(self):
        for change, words in (
            ({'multiattach': True}, 'multiattach=True, but the driver'),
            ({'encrypted': True}, 'encrypted=True, but the host'),
            ({'access_mode': 'ro'}, 'access_mode=ro, but the guest'),
            ({'qos_specs': {'total_iops_sec': 9}}, 'qos_specs, but the'),
            ({'addressing_mode': 'SAM9'}, 'addressing_mode=SAM9, but only'),
        ):
            with self.subTest(change):
                self.assertIn(words, volumes.refusal({'data': change}))
                # Nova's words are beside those of Cinder.
                self.assertIn(words, volumes.refusal(change))

    def test_promises_that_cost_nothing_are_accepted(self):
        for change in (
            {},
            {'qos_specs': None, 'encrypted': False, 'access_mode': 'rw'},
            {'qos_specs': {}, 'multiattach': False, 'access_mode': ''},
            {'discard': True, 'enforce_multipath': True, 'cacheable': True},
            {'logical_block_size': '512', 'of_tomorrow': 'True'},
            {'addressing_mode': 'SAM2'},
            {'addressing_mode': None},
        ):
            with self.subTest(change):
                info = INFO | {'data': INFO['data'] | change}
                self.assertEqual('', volumes.refusal(info))

    def test_refused_volume_can_be_identified(self):
        volume = volumes.identify({'serial': 'v1', 'data': None})
        self.assertEqual(volumes.Volume('v1', ''), volume)


class FibreChannelTest(unittest.TestCase):
    def test_paths_are_those_that_cinder_has_zoned(self):
        fibre = volumes.fibre_channel(volumes.parse(INFO))

        self.assertEqual(
            [(PORT, TARGET, 3), (OTHER_PORT, OTHER_TARGET, 3)],
            paths(fibre, OTHER_PORT, PORT.lower(), '1000000000000000'),
        )
        self.assertFalse(fibre.names_others({PORT, OTHER_PORT}))
        self.assertTrue(fibre.names_others({PORT}))

    def test_without_zones_each_port_reaches_each_target(self):
        fibre = volumes.fibre_channel(
            volume(target_wwn=TARGET, target_lun='1')
        )

        self.assertEqual(
            [(PORT, TARGET, 1), (OTHER_PORT, TARGET, 1)],
            paths(fibre, PORT, OTHER_PORT),
        )
        self.assertTrue(fibre.names_others({PORT, OTHER_PORT}))

    def test_targets_may_have_different_unit_numbers(self):
        fibre = volumes.fibre_channel(
            volume(target_wwns=[TARGET, OTHER_TARGET], target_luns=[1, 2])
        )

        self.assertEqual(
            [(PORT, TARGET, 1), (PORT, OTHER_TARGET, 2)], paths(fibre, PORT)
        )

    def test_lists_and_single_values_say_the_same(self):
        wanted = [(PORT, TARGET, 7)]
        for data in (
            {'target_wwn': TARGET, 'target_lun': 7},
            {'target_wwn': [TARGET], 'target_lun': [7]},
            {'target_wwns': TARGET, 'target_luns': 7},
            {'target_wwns': (TARGET,), 'target_luns': ['7']},
            {'target_wwn': [], 'target_wwns': [TARGET], 'target_lun': '7'},
            {'target_wwn': TARGET, 'target_luns': [], 'target_lun': 7},
        ):
            for zones in (None, {}, {PORT: TARGET}, {PORT: [TARGET]}):
                with self.subTest(data=data, zones=zones):
                    fibre = volumes.fibre_channel(
                        volume(**data, initiator_target_map=zones)
                    )
                    self.assertEqual(wanted, paths(fibre, PORT))

    def test_unit_is_addressed_as_by_os_brick(self):
        modes = (None, *constants.SCSI_ADDRESSING_MODES)
        for mode, lun in itertools.product(modes, (0, 1, 255, 256, 300)):
            with self.subTest(mode=mode, lun=lun):
                fibre = volumes.fibre_channel(
                    volume(
                        target_wwn=TARGET, target_lun=lun, addressing_mode=mode
                    )
                )
                expected = linuxscsi.LinuxSCSI.lun_for_addressing(lun, mode)
                self.assertEqual({TARGET: expected}, fibre.luns)

    def test_unknown_mode_leaves_the_unit_as_it_is(self):
        fibre = volumes.fibre_channel(
            volume(target_wwn=TARGET, target_lun=300, addressing_mode='SAM9')
        )
        self.assertEqual({TARGET: 300}, fibre.luns)

    def test_unknown_form_is_refused(self):
        for data in (
            {},
            {'target_wwn': []},
            {'target_wwn': [TARGET], 'target_lun': 'x'},
            {'target_wwns': [TARGET, OTHER_TARGET], 'target_luns': [1, 2, 3]},
            {'target_wwn': [TARGET], 'initiator_target_map': [PORT]},
        ):
            with (
                self.subTest(data),
                self.assertRaisesRegex(exception.VolumeRefused, 'target_wwn'),
            ):
                volumes.fibre_channel(volume(**data))


class SlotsTest(unittest.TestCase):
    def test_volumes_come_after_the_disks(self):
        data = volume()
        taken = set()
        for number in range(2):
            taken.add(volumes.choose_slot(data, number, 66, taken))

        self.assertEqual({64, 65}, taken)
        self.assertEqual(63, volumes.choose_slot(data, 0, 66, taken))
        self.assertEqual(62, volumes.choose_slot(data, 0, 64, {63}))
        self.assertIsNone(volumes.choose_slot(data, 0, 64, {63, 62}))

    def test_boot_volume_takes_the_place_of_the_root_disk(self):
        boot = volumes.Volume('v1', '', is_boot=True)
        for number, slot in enumerate((48, 32, 64)):
            self.assertEqual(slot, volumes.choose_slot(boot, number, 128, ()))
        self.assertEqual(64, volumes.choose_slot(boot, 0, 128, {48}))
