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

"""An LPAR with volumes of two types, each of which has its own driver.

Both drivers map physical volumes of the same Virtual I/O Server.
"""

import dataclasses
import uuid
from unittest import mock

from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import volumes as lpar_volumes
from tests import example_drivers
from tests.ops import base
from tests.ops import volumes

UDID = '01bG9jYWw='
V1 = volumes.volume('v1')
EXAMPLE = lpar_volumes.parse(
    {
        'driver_volume_type': example_drivers.VOLUME_TYPE,
        'serial': str(uuid.uuid5(uuid.NAMESPACE_OID, 'example')),
        'data': {'udid': UDID},
    }
)
#: What one driver has connected, and what the other one has.
ARRAY = {'vios1': {64: 'v1'}, 'vios2': {65: 'v1'}}
LOCAL = {'vios1': {66: 'hdisk7'}, 'vios2': {}}
NONE = {'vios1': {}, 'vios2': {}}
ALL = {'vios1': {64: 'v1', 66: 'hdisk7'}, 'vios2': {65: 'v1'}}


class TwoTypesTest(volumes.VolumesTestCase):
    def setUp(self):
        super().setUp()
        self.lpar_uuid = self.spawn().lpar_uuid
        self.attach(V1)

    def world(self):
        """Return a world whose first server has a free disk of its own."""
        made = super().world()
        server = made['systems'][0]['virtual_io_servers'][0]
        server['physical_volumes'] = [
            {'name': 'hdisk7', 'capacity': 5, 'udid': UDID}
        ]
        return made

    def volume_drivers(self, context):
        """Return both drivers."""
        self.example = example_drivers.ExampleVolumes(context)
        self.drivers = {
            **super().volume_drivers(context),
            EXAMPLE.kind: self.example,
        }
        return self.drivers

    def connectors(self, **options):
        """Return what Cinder gets to know for one more volume."""
        lpar = self.partitions.find(self.lpar_uuid)
        return self.volumes.connector(lpar, **options)

    def reboot_hard(self, *wanted):
        """Reboot the guest, which is to have these volumes only."""
        known = frozenset(volume.id for volume in wanted)
        self.run_plan(
            operations.HARD_REBOOT,
            self.describe(volumes=wanted, known_volumes=known),
        )

    def test_driver_tells_of_its_own_volumes_only(self):
        self.attach(EXAMPLE)

        self.assertEqual(ALL, self.connected())
        self.assertEqual(
            {
                V1.id: lpar_volumes.Connected(True, {0: 64, 1: 65}, V1.kind),
                EXAMPLE.id: lpar_volumes.Connected(
                    True, {0: 66}, EXAMPLE.kind
                ),
            },
            self.volumes.connected(self.lpar_uuid, [V1, EXAMPLE]),
        )
        for volume in (V1, EXAMPLE):
            driver = self.drivers[volume.kind]
            self.assertEqual(
                [volume.id], [*driver.connected(self.lpar_uuid, [])]
            )

    def test_volume_of_one_type_is_detached_beside_the_other(self):
        self.attach(EXAMPLE)
        self.detach(V1)
        self.assertEqual(LOCAL, self.connected())

        self.attach(V1)
        self.detach(EXAMPLE)
        self.assertEqual(ARRAY, self.connected())
        self.assert_lpar()

    def test_detachment_asks_both_drivers_about_an_unknown_type(self):
        for volume, left in ((EXAMPLE, ARRAY), (V1, LOCAL)):
            self.attach(V1)
            self.attach(EXAMPLE)
            self.detach(lpar_volumes.Volume(volume.id, ''))
            self.assertEqual(left, self.connected())

    def test_driver_removes_its_own_volumes_only(self):
        self.attach(EXAMPLE)
        self.drivers[V1.kind].remove(self.lpar_uuid)
        self.assertEqual(LOCAL, self.connected())

        self.attach(V1)
        self.example.remove(self.lpar_uuid)
        self.assertEqual(ARRAY, self.connected())

    def test_removed_lpar_leaves_no_volume_of_either_type(self):
        self.attach(EXAMPLE)
        self.removals.destroy(base.INSTANCE, volumes=[V1, EXAMPLE])
        self.assertEqual(NONE, self.connected())
        self.assertEqual(NONE, self.connected(None))
        self.assertEqual({'vios1': [], 'vios2': []}, self.hdisks())

    def test_hard_reboot_connects_and_disconnects_each_type(self):
        self.reboot_hard(V1, EXAMPLE)
        self.assertEqual(ALL, self.connected())
        self.reboot_hard(EXAMPLE)
        self.assertEqual(LOCAL, self.connected())
        self.reboot_hard()
        self.assertEqual(NONE, self.connected())

    def test_hard_reboot_has_its_own_driver_disconnect_a_volume(self):
        self.attach(EXAMPLE)
        with mock.patch.object(
            self.drivers[V1.kind],
            'disconnect',
            side_effect=AssertionError('asked about a volume of the other'),
        ):
            self.reboot_hard(V1)
        self.assertEqual(ARRAY, self.connected())

    def test_volumes_of_one_type_do_without_answers_about_the_other(self):
        self.detach(V1)
        self.example.is_silent = True
        with self.logged('WARNING') as logs:
            self.assertEqual({'wwpns', 'wwnns'}, {*self.connectors()})
        self.assertIn('volume of the type example to this', logs.output[0])
        self.attach(V1)
        self.assertEqual(ARRAY, self.connected())
        self.volumes.resize(V1, self.lpar_uuid, volumes.GB)
        self.detach(V1)
        self.assertEqual(NONE, self.connected())

    def test_removal_without_an_answer_leaves_volumes_of_both_types(self):
        self.attach(EXAMPLE)
        self.example.is_silent = True
        with self.assertRaises(exception.RestSilent):
            self.removals.destroy(base.INSTANCE, volumes=[V1, EXAMPLE])
        self.assertEqual(ALL, self.connected())

    def test_guest_leaves_without_volumes_of_any_type_or_runs_on(self):
        self.attach(EXAMPLE)
        wanted = self.describe(volumes=(V1, EXAMPLE))
        with mock.patch.object(
            self.example,
            'check_disconnection',
            side_effect=exception.VolumeHeld(volume='', reason='a test'),
        ):
            self.refused(exception.VolumeHeld, operations.DEPARTURE, wanted)
        busy = exception.RestBusy(action='a test', reason='it is one')
        with mock.patch.object(self.example, 'disconnect', side_effect=busy):
            self.failed(exception.RestBusy, operations.DEPARTURE, wanted)
        self.assertEqual(ALL, self.connected())
        self.assert_lpar()
        self.run_plan(operations.DEPARTURE, wanted)
        self.assertEqual(NONE, self.connected())

    def test_volume_arrives_only_where_its_type_has_a_driver(self):
        self.volumes.check_arrival([V1, EXAMPLE])
        unknown = dataclasses.replace(EXAMPLE, kind='another')
        with self.assertRaises(exception.VolumeRefused):
            self.volumes.check_arrival([V1, unknown])

    def test_lpar_without_room_for_one_type_can_get_the_other(self):
        both = {'wwpns', 'wwnns', 'example'}
        self.assertEqual(both, {*self.connectors()})
        every = frozenset(range(62, 1000))
        self.assertEqual({'example'}, {*self.connectors(ports=every)})

    def test_rebuild_is_refused_without_the_driver_of_its_volume(self):
        with mock.patch.object(
            self.drivers[V1.kind],
            '_check_reaching',
            side_effect=exception.VolumesImpossible(where='', reason='a test'),
        ):
            self.assertEqual({'example'}, {*self.connectors()})
            self.volumes.check_rebuild(self.lpar_uuid, [EXAMPLE], 128)
            with self.assertRaises(exception.VolumesImpossible):
                self.volumes.check_rebuild(self.lpar_uuid, [V1, EXAMPLE], 128)

    def test_volume_of_another_type_now_is_not_taken_for_connected(self):
        changed = dataclasses.replace(EXAMPLE, id=V1.id)
        found = self.volumes.connected(self.lpar_uuid, [changed])
        self.assertEqual({}, found)

    def test_refused_volume_of_one_type_leaves_the_other(self):
        broken = dataclasses.replace(EXAMPLE, data={})
        self.refused(
            exception.VolumeRefused,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(broken,)),
            'does not say its UDID',
        )
        self.assertEqual(ARRAY, self.connected())

    def test_disk_of_the_other_type_is_in_use(self):
        self.attach(EXAMPLE)
        with (
            mock.patch.object(
                self.drivers[V1.kind], '_discover', return_value=UDID
            ),
            self.assertRaisesRegex(
                exception.VolumeInUse, f'has it as volume example:{EXAMPLE.id}'
            ),
        ):
            self.volumes.find(volumes.volume('v2'), self.lpar_uuid)
