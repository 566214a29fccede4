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

"""Fibre Channel ports of Virtual I/O Servers, and disks of arrays."""

import base64
import copy
import hashlib
import unittest

from lxml import etree
from pypowervm import exceptions
from pypowervm.tasks import hdisk
from pypowervm.tasks import power
from pypowervm.wrappers import event

from powervm_emulator import client as client_module
from powervm_emulator import fixture
from powervm_emulator.core import errors
from powervm_emulator.core import san as san_module
from powervm_emulator.nouns.partition import operating_system

from . import base
from . import san

NOTHING = ('6', None, None)
FOUND = ('3', 'hdisk0', san.UDID)
IN_USE = ('1', 'hdisk0', san.UDID)
OTHER_UID = san.UID[:-1] + '5'


def changed(text):
    """Return a worldwide port name that differs in its last digit."""
    return text[:-1] + f'{(int(text[-1], 16) + 8) % 16:X}'


class PortsTest(san.SanTestCase):
    def test_server_shows_ports_of_its_slots(self):
        ports = self.vios('vios2').pfc_ports
        self.assertEqual(
            [
                ('fcs3', 'U78D2.001.EMU0001-P1-C2-T1', san.WWPNS['vios2'][0]),
                ('fcs4', 'U78D2.001.EMU0001-P1-C2-T2', san.WWPNS['vios2'][1]),
                ('fcs5', 'U78D2.001.EMU0001-P1-C2-T3', san.WWPNS['vios2'][2]),
            ],
            [(port.name, port.loc_code, port.wwpn) for port in ports],
        )
        self.assertEqual(
            [64, 64, 0], [port.npiv_total_ports for port in ports]
        )

    def test_described_port_has_its_name_location_and_npiv(self):
        world = san.world()
        world['systems'][0]['slots'][0]['fibre_channel_ports'] = [
            {
                'wwpn': '10:00:00:90:fa:53:71:01',
                'name': 'fcs7',
                'location': 'U1-P1-C1-T1',
                'fabric': 'left',
                'npiv': False,
            }
        ]
        self.control.load_world(world)
        (port,) = self.vios().pfc_ports
        self.assertEqual(
            ('fcs7', 'U1-P1-C1-T1', san.WWPNS['vios1'][0], 0),
            (port.name, port.loc_code, port.wwpn, port.npiv_total_ports),
        )
        self.assertEqual(FOUND, self.look())

    def test_system_does_not_show_ports(self):
        body = self.adapter.read('ManagedSystem').body
        self.assertNotIn('FibreChannelPort', body)
        self.assertIn('FC5052', body)

    def test_changed_server_keeps_its_ports(self):
        self.vios().update()
        self.assertEqual(3, len(self.vios().pfc_ports))

    def test_pulled_card_has_no_ports(self):
        self.control.pull('21010001')
        self.assertEqual([], self.vios().pfc_ports)
        self.assertEqual(NOTHING, self.look())

    def test_unplugged_cable_leaves_no_path(self):
        self.look()
        card = copy.deepcopy(self.world['systems'][0]['slots'][0])
        del card['drc_index'], card['owner'], card['drc_name']
        for port in card['fibre_channel_ports']:
            port.pop('fabric', None)
        self.control.plug('21010001', card)
        self.assertEqual(3, len(self.vios().pfc_ports))
        self.assertEqual(NOTHING, self.look())
        self.assertTrue(self.shown()[0]['stale'])

    def test_ports_follow_owner_of_slot(self):
        self.control.set_owner('21010001', 'vios2')
        self.assertEqual(NOTHING, self.look())
        self.assertEqual(
            FOUND, self.look('vios2', initiators=san.WWPNS['vios1'][:1])
        )

    def test_world_refuses_second_port_of_a_name(self):
        world = san.world()
        slots = world['systems'][0]['slots']
        slots[1]['fibre_channel_ports'] = slots[0]['fibre_channel_ports']
        before = self.control.state()
        with self.assertRaisesRegex(errors.WorldError, 'FA537101 is in'):
            self.control.load_world(world)
        self.assertEqual(before, self.control.state())

    def test_world_refuses_what_no_adapter_with_ports_has(self):
        for keys, message in (
            ({'sriov': True}, 'sriov: none beside'),
            ({'assignable': True}, 'assignable: none beside'),
        ):
            world = san.world()
            world['systems'][0]['slots'][0] |= keys
            with (
                self.subTest(keys),
                self.assertRaisesRegex(errors.WorldError, message),
            ):
                self.control.load_world(world)
        del world['systems'][0]['slots'][1]['description']
        with self.assertRaisesRegex(errors.WorldError, 'without description'):
            self.control.load_world(world)


class DiscoveryTest(san.SanTestCase):
    def test_disk_is_found_by_its_path(self):
        self.assertEqual({}, self.volumes())
        self.assertEqual(FOUND, self.look())
        (disk,) = self.volumes().values()
        self.assertEqual(
            (san.UDID, 1024, True, True, 'MPIO IBM 2076 FC Disk', 'active'),
            (
                disk.udid,
                disk.capacity,
                disk.is_fc_backed,
                disk.avail_for_use,
                disk.description,
                disk.state,
            ),
        )
        self.assertEqual(
            'U78D2.001.EMU0001-P1-C1-T1-W50050768022121CA-L0', disk.loc_code
        )

    def test_disk_has_unique_id_of_captured_ones(self):
        self.look()
        element = self.volumes()['hdisk0'].element
        self.assertEqual(
            f'33213{san.UID}04214503IBMfcp',
            element.findtext('VolumeUniqueID'),
        )

    def test_disk_has_reserve_policy_of_its_discovery(self):
        self.look('vios2')
        self.array['volumes'][0]['reserve_policy'] = 'SinglePath'
        self.set_san()
        self.look()
        for vios, policy in (('vios1', 'SinglePath'), ('vios2', 'NoReserve')):
            element = self.volumes(vios)['hdisk0'].element
            self.assertEqual(policy, element.findtext('ReservePolicy'))

    def test_array_writes_names_in_any_form(self):
        port = self.array['ports'][0]
        port['wwpn'] = ':'.join(
            port['wwpn'][at : at + 2].lower() for at in range(0, 16, 2)
        )
        host = self.array['hosts'][0]
        host['wwpns'] = [wwpn.lower() for wwpn in host['wwpns']]
        self.set_san()
        self.assertEqual(FOUND, self.look())

    def test_array_that_differs_shows_no_disk(self):
        def other_target(array):
            array['ports'][0]['wwpn'] = changed(san.TARGETS[0])

        def other_fabric(array):
            array['ports'][0]['fabric'] = 'right'

        def other_initiator(array):
            array['hosts'][0]['wwpns'] = [changed(san.WWPNS['vios1'][0])]

        def other_lun(array):
            array['maps'][0]['lun'] = 1

        def no_map(array):
            array['maps'] = []

        for change in (
            *(other_target, other_fabric, other_initiator),
            *(other_lun, no_map),
        ):
            with self.subTest(change.__name__):
                self.array = san.array()
                change(self.array)
                self.set_san()
                self.assertEqual(NOTHING, self.look())
                self.assertEqual({}, self.volumes())

    def test_request_that_differs_finds_no_disk(self):
        first, right, unlinked = san.WWPNS['vios1']
        foreign = san.WWPNS['vios2'][0]
        for path in (
            {'initiators': [changed(first)]},
            {'initiators': [right]},
            {'initiators': [unlinked]},
            {'initiators': [foreign]},
            {'target': changed(san.TARGETS[0])},
            {'target': san.TARGETS[1]},
            {'lun': 1},
        ):
            with self.subTest(path):
                self.assertEqual(NOTHING, self.look(**path))
        self.assertEqual({}, self.volumes())

    def test_long_unit_number_is_found(self):
        self.array['maps'][0]['lun'] = 1074872357
        self.set_san()
        self.assertEqual(FOUND, self.look(lun=1074872357))
        disk = self.volumes()['hdisk0']
        self.assertTrue(disk.loc_code.endswith('-L4011402500000000'))

    def test_wrong_path_beside_right_one_is_told(self):
        initiators = san.WWPNS['vios1'][:2]
        self.assertEqual(
            ('8', 'hdisk0', san.UDID), self.look(initiators=initiators)
        )

    def test_paths_to_different_disks_find_none(self):
        self.array['volumes'] += [
            {'name': 'v2', 'uid': OTHER_UID, 'size': san.GB}
        ]
        self.array['hosts'] += [
            {'name': 'host2', 'wwpns': [san.WWPNS['vios1'][0]]}
        ]
        self.array['maps'] += [{'host': 'host2', 'volume': 'v2', 'lun': 0}]
        self.set_san()
        self.assertEqual(('2', None, None), self.look())
        self.assertEqual({}, self.volumes())

    def test_servers_find_disk_by_themselves(self):
        self.look()
        self.assertEqual({}, self.volumes('vios2'))
        self.array['volumes'] += [
            {'name': 'v2', 'uid': OTHER_UID, 'size': san.GB}
        ]
        self.array['maps'] += [{'host': 'host1', 'volume': 'v2', 'lun': 1}]
        self.set_san()
        self.look('vios2', lun=1)
        self.assertEqual('hdisk1', self.look('vios2')[1])
        self.assertEqual(['hdisk0'], list(self.volumes()))

    def test_guest_boots_from_volume(self):
        client = self.create('vm1')
        self.file(operating_system.AIX_RECORD)
        self.look()
        self.map(client)

        power.power_on(client, None)

        self.assertIn('AIX', self.read(client.uuid).operating_system)

    def test_mapped_disk_is_in_use(self):
        client = self.create('vm1')
        self.look()
        self.map(client)
        self.assertEqual(IN_USE, self.look())
        self.unmap(client)
        self.assertEqual(FOUND, self.look())

    def test_larger_volume_is_seen_after_discovery_only(self):
        self.look()
        self.map(self.create('vm1'), tag='volume-1')
        self.array['volumes'][0]['size'] = 2 * san.GB
        self.set_san()
        self.assertEqual(1024, self.volumes()['hdisk0'].capacity)
        self.look()
        self.assertEqual(2048, self.volumes()['hdisk0'].capacity)
        (mapping,) = self.vios().scsi_mappings
        self.assertEqual(2048, mapping.backing_storage.capacity)
        self.assertEqual('volume-1', mapping.backing_storage.tag)

    def test_server_changes_with_its_disks_only(self):
        self.emulator._application._emulation.event_wait = 0
        event.Event.get(self.adapter, 'me')
        self.look()
        self.assertEqual(['MODIFY_URI'], self.event_types())
        self.look()
        self.assertEqual([], self.event_types())
        self.array['volumes'][0]['size'] += san.GB
        self.set_san()
        self.assertEqual([], self.event_types())
        self.look()
        self.assertEqual(['MODIFY_URI'], self.event_types())
        self.remove()
        self.assertEqual(['MODIFY_URI'], self.event_types())

    def event_types(self):
        return [one.etype for one in event.Event.get(self.adapter, 'me')]

    def test_job_fails_if_server_does_not_answer(self):
        for changes in ({'state': 'not activated'}, {'rmc_state': 'inactive'}):
            self.control.reset()
            self.control.set_partition('vios1', **changes)
            with self.subTest(changes):
                for work in (self.look, self.remove):
                    with self.assertRaisesRegex(
                        exceptions.JobRequestFailed, 'vios1 does not answer'
                    ):
                        work()
                self.assertEqual(FOUND, self.look('vios2'))

    def test_job_fails_if_server_stops_meanwhile(self):
        self.look()
        self.control.set_job_mode('manual')
        uuid = self.vios().uuid
        for operation in ('LUARecovery', 'RemoveDevice'):
            with self.subTest(operation):
                self.control.set_partition(
                    'vios1', state='running', rmc_state='active'
                )
                path = ('VirtualIOServer', uuid)
                request = self.adapter.read(
                    *path, suffix_type='do', suffix_parm=operation
                )
                self.adapter.create_job(request.entry.element, *path)
                self.control.advance_jobs()
                self.control.set_partition('vios1', state='not activated')
                (ended,) = self.control.advance_jobs()
                self.assertIn('does not answer', ended['message'])

    def test_job_fails_without_paths_in_its_form(self):
        for document, message in (
            ('', 'inputXML: The body is not well-formed'),
            ('<XML_LIST/>', 'no deviceList'),
            (
                '<L><deviceList><device><itlList><itl><lua>x</lua></itl>'
                '</itlList></device></deviceList></L>',
                "'x' is no address",
            ),
        ):
            with (
                self.subTest(document),
                self.assertRaisesRegex(exceptions.JobRequestFailed, message),
            ):
                self.run_job(document)

    def test_failed_job_has_found_nothing(self):
        first = san.WWPNS['vios1'][0]
        device = (
            f'<device><itlList><itl><Iwwpn>{first}</Iwwpn>'
            f'<Twwpn>{san.TARGETS[0]}</Twwpn><lua>%s</lua>'
            '</itl></itlList></device>'
        )
        document = '<L><deviceList>%s</deviceList></L>'
        with self.assertRaises(exceptions.JobRequestFailed):
            self.run_job(document % (device % '0' + device % 'x'))
        self.assertEqual({}, self.volumes())
        self.run_job(document % (device % '0'))
        self.assertEqual(['hdisk0'], list(self.volumes()))

    def run_job(self, document):
        """Run LUARecovery with any document; return its results."""
        return self.run_operation('LUARecovery', inputXML=document)

    def test_answer_has_the_form_that_pypowervm_expects(self):
        itls = hdisk.build_itls(san.WWPNS['vios1'][:2], san.TARGETS[:1], 0)
        document = hdisk._fc._lua_recovery_xml(itls, self.adapter)
        self.assertEqual(
            {
                'OutputXML': (
                    '<luaResult><version>2.0</version><deviceList><device>'
                    '<deviceTag>1</deviceTag><status>8</status><msg><msgLen>'
                    '30</msgLen><msgText>1 of 2 paths lead to the disk.'
                    '</msgText></msg><pvName>hdisk0</pvName><uniqueID>33213'
                    f'{san.UID}04214503IBMfcp</uniqueID><udid>{san.UDID}'
                    '</udid></device></deviceList></luaResult>'
                )
            },
            self.run_job(document),
        )

    def test_reset_forgets_disks_and_leaves_the_arrays(self):
        self.look()
        self.control.reset()
        self.assertEqual({}, self.volumes())
        self.assertEqual(FOUND, self.look())


class PortContentsTest(san.SanTestCase):
    def setUp(self):
        super().setUp()
        self.left, self.right, self.unlinked = san.WWPNS['vios1']
        self.nothing = {wwpn: [] for wwpn in san.WWPNS['vios1']}
        self.found = self.nothing | {
            self.left: ['hdisk0'],
            self.right: ['hdisk0'],
        }

    def copies(self):
        """Return the content of all elements of the disk of a server."""
        return [
            [(child.tag, child.text) for child in one]
            for one in self.vios().element.element.iter('{*}PhysicalVolume')
            if one.findtext('{*}VolumeName') == 'hdisk0'
        ]

    def test_ports_list_disk_that_they_reach(self):
        self.assertEqual(self.nothing, self.behind())
        self.look()
        self.assertEqual(self.found, self.behind())
        self.look('vios2')
        self.array['ports'].pop()
        self.set_san()
        self.assertEqual(self.found, self.behind())
        self.look()
        self.assertEqual(self.nothing | {self.left: ['hdisk0']}, self.behind())

    def test_removed_disk_is_behind_no_port(self):
        self.look()
        self.remove()
        self.assertEqual(self.nothing, self.behind())

    def test_changed_server_keeps_disks_behind_its_ports(self):
        self.look()
        self.vios().update()
        self.assertEqual(self.found, self.behind())

    def test_disk_says_everywhere_the_same(self):
        self.look()
        client = self.create('vm1')
        self.map(client)
        self.array['volumes'][0]['size'] *= 2
        self.set_san()
        self.look()
        # With the mapping, whose storage says a little more.
        first, *others, mapped = self.copies()
        self.assertEqual([first] * 2, others)
        self.assertLessEqual(set(first), set(mapped))
        self.assertIn('false', dict(first).values())
        self.unmap(client)
        first, *others = self.copies()
        self.assertEqual([first] * 2, others)


class FreeDisksTest(san.SanTestCase):
    def free(self, **parameters):
        """Ask a server for its free disks; return them by name."""
        results = self.run_operation('GetFreePhysicalVolumes', **parameters)
        self.assertEqual(['result'], list(results))
        collection = etree.fromstring(results['result'])
        self.assertEqual(
            'PhysicalVolume_Collection', etree.QName(collection).localname
        )
        return {
            one.findtext('{*}VolumeName'): one
            for one in collection.iterfind('{*}PhysicalVolume')
        }

    def test_server_names_its_free_disks(self):
        self.world = san.world()
        (server, _) = self.world['systems'][0]['virtual_io_servers']
        server['physical_volumes'] = [{'name': 'hdisk7', 'capacity': 20}]
        server['volume_groups'] = [{'name': 'rootvg', 'capacity': 50}]
        self.control.load_world(self.world)
        self.assertEqual(['hdisk7'], list(self.free()))
        self.assertEqual({'hdisk0', 'hdisk7'}, set(self.volumes()))
        self.assertEqual({}, self.free(FibreChannelBackedOnly='true'))
        self.look()
        self.assertEqual({'hdisk1', 'hdisk7'}, set(self.free()))
        (disk,) = self.free(FibreChannelBackedOnly='true').values()
        self.assertEqual(
            (san.UDID, '1024', 'true'),
            tuple(
                disk.findtext('{*}' + name)
                for name in (
                    'UniqueDeviceID',
                    'VolumeCapacity',
                    'AvailableForUsage',
                )
            ),
        )
        self.map(self.create('vm1'), 'hdisk1')
        self.assertEqual(['hdisk7'], list(self.free()))

    def test_job_fails_if_server_does_not_answer(self):
        self.control.set_partition('vios1', rmc_state='inactive')
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, 'vios1 does not answer'
        ):
            self.free()


class RemovalTest(san.SanTestCase):
    def setUp(self):
        super().setUp()
        self.look()

    def test_removed_disk_can_be_found_again(self):
        self.remove()
        self.assertEqual({}, self.volumes())
        self.assertEqual(FOUND, self.look())

    def test_number_of_removed_disk_is_used_again(self):
        self.remove()
        self.array = san.array(name='v2', uid=OTHER_UID)
        self.set_san()
        status, name, udid = self.look()
        self.assertEqual(('3', 'hdisk0'), (status, name))
        self.assertNotEqual(san.UDID, udid)

    def test_disk_in_use_is_not_removed(self):
        client = self.create('vm1')
        self.map(client)
        with self.assertRaisesRegex(exceptions.JobRequestFailed, 'is busy'):
            self.remove()
        client.delete()
        with self.assertRaisesRegex(exceptions.JobRequestFailed, 'is busy'):
            self.remove()
        self.assertIn('hdisk0', self.volumes())

    def test_unknown_device_is_refused(self):
        with self.assertRaisesRegex(
            exceptions.JobRequestFailed, "vios1 has no device 'hdisk9'"
        ):
            self.remove('hdisk9')


class StaleTest(san.SanTestCase):
    def setUp(self):
        super().setUp()
        self.look()
        self.client = self.create('vm1')

    def other_fabric(self):
        for port in self.array['ports']:
            port['fabric'] = 'elsewhere'
        self.set_san()

    def unmap_at_the_array(self):
        self.array['maps'] = []
        self.set_san()

    def test_disk_stays_when_the_array_unmaps_it(self):
        self.assertFalse(self.shown()[0]['stale'])
        for change in (self.other_fabric, self.unmap_at_the_array):
            change()
            self.assertTrue(self.shown()[0]['stale'])
            self.assertEqual(['hdisk0'], list(self.volumes()))
        self.assertEqual(
            [
                {
                    'name': 'hdisk0',
                    'udid': san.UDID,
                    'capacity': 1024,
                    'available': True,
                    'stale': True,
                }
            ],
            self.shown(),
        )
        self.assertEqual(NOTHING, self.look())

    def test_stale_disk_is_not_mapped(self):
        self.unmap_at_the_array()
        self.assert_refused(
            500, 'hdisk0 of vios1 cannot be opened', self.map, self.client
        )

    def test_stale_disk_is_released_and_removed(self):
        self.map(self.client)
        self.unmap_at_the_array()
        self.unmap(self.client)
        self.remove()
        self.assertEqual({}, self.volumes())

    def test_stale_disk_reaches_next_volume_with_its_uid(self):
        self.file(b'mine')
        self.array = san.array(name='v2')
        self.file(b'of another')
        self.assertEqual(b'of another', self.control.contents(san.UDID))


class MappingTest(san.SanTestCase):
    def setUp(self):
        super().setUp()
        self.client, self.other = self.create('vm1'), self.create('vm2')
        self.look()
        self.look('vios2')

    def test_mapping_keeps_tag_of_client(self):
        self.map(self.client, tag='volume-1', udid=san.UDID)
        (mapping,) = self.vios().scsi_mappings
        self.assertEqual(
            ('volume-1', 'hdisk0', san.UDID),
            (
                mapping.backing_storage.tag,
                mapping.backing_storage.name,
                mapping.backing_storage.udid,
            ),
        )
        self.vios().update()
        (mapping,) = self.vios().scsi_mappings
        self.assertEqual('volume-1', mapping.backing_storage.tag)
        self.assertIsNone(self.volumes()['hdisk0'].tag)

    def test_servers_map_disk_to_one_client(self):
        for vios in ('vios1', 'vios2'):
            self.map(self.client, vios=vios)
            self.assertFalse(self.volumes(vios)['hdisk0'].avail_for_use)

    def test_second_client_and_unknown_disk_are_refused(self):
        self.map(self.client)
        self.assert_refused(500, 'mapped to', self.map, self.other)
        self.assert_refused(
            500, 'no PhysicalVolume', self.map, self.other, 'hdisk9'
        )

    def test_running_client_needs_rmc(self):
        self.control.set_partition('vm1', state='running')
        self.assert_refused(500, 'RMC', self.map, self.client)
        self.control.set_partition('vm1', rmc_state='active')
        self.map(self.client)

    def test_stopped_server_neither_maps_nor_releases(self):
        self.map(self.client)
        for vios in ('vios1', 'vios2'):
            self.control.set_partition(vios, state='not activated')
        self.vios().update()
        self.assert_refused(500, 'vios1 can neither', self.unmap, self.client)
        self.assert_refused(
            500, 'cannot be opened', self.map, self.client, vios='vios2'
        )
        self.assertEqual(1, len(self.vios().scsi_mappings))
        self.control.set_partition(
            'vios1', state='running', rmc_state='active'
        )
        self.unmap(self.client)


class ContentsTest(san.SanTestCase):
    def write(self, data, offset=0, **options):
        sent = base64.b64encode(data).decode()
        return self.control.write_disk(san.UDID, sent, offset, **options)

    def test_disk_has_bytes_of_file(self):
        path = self.file(b'image')
        self.look()
        self.look('vios2')
        for vios in (None, 'vios1', 'vios2'):
            self.assertEqual(b'image', self.control.contents(san.UDID, vios))
        written = self.write(b'IM', vios='vios2')
        self.assertEqual(b'IMage', path.read_bytes())
        self.assertEqual(
            {'size': 5, 'sha256': hashlib.sha256(b'IMage').hexdigest()},
            written,
        )

    def test_disk_that_is_not_reached_has_no_bytes(self):
        self.file(b'image')
        for vios in (None, 'vios1'):
            with self.assertRaisesRegex(errors.ControlError, '0 contents'):
                self.control.contents(san.UDID, vios)
        with self.assertRaisesRegex(errors.ControlError, 'no disk has'):
            self.write(b'x')
        self.look()
        self.assertEqual(b'image', self.control.contents(san.UDID))
        self.control.set_partition('vios1', state='not activated')
        with self.assertRaisesRegex(errors.ControlError, '0 contents'):
            self.control.contents(san.UDID)

    def test_volume_without_usable_file_is_refused(self):
        self.look()
        with self.assertRaisesRegex(errors.ControlError, "'v1' has no file"):
            self.control.contents(san.UDID)
        path = self.file()
        path.unlink()
        for work in (self.control.contents, self.write):
            with self.assertRaisesRegex(
                errors.ControlError, f'{path} of .*No such file'
            ):
                work(san.UDID if work != self.write else b'x')

    def test_write_beyond_end_is_refused(self):
        path = self.file(b'image')
        self.look()
        with self.assertRaisesRegex(errors.ControlError, 'are not within'):
            self.write(b'ab', san.GB - 1)
        self.assertEqual(b'image', path.read_bytes())


class SetSanTest(san.SanTestCase):
    def refuse(self, message, **keys):
        """Assert that the array with other keys is refused."""
        array = copy.deepcopy(self.array) | keys
        with self.assertRaisesRegex(errors.ControlError, message):
            self.control.set_san([array])

    def test_contradictions_are_refused_and_change_nothing(self):
        (host,), (one,) = self.array['hosts'], self.array['maps']
        (volume,) = self.array['volumes']
        other = volume | {'name': 'v2', 'uid': san.UID.lower()}
        self.refuse(r"ports\[0\]: 'wwpn' is a required", ports=[{}])
        self.refuse(r'arrays\[0\].ports\[0\].wwpn', ports=[{'wwpn': '1'}])
        self.refuse('target port .* once', ports=self.array['ports'] * 2)
        self.refuse('the host host1 is there', hosts=[host, host])
        self.refuse('the volume v1 is there', volumes=[volume, volume])
        self.refuse('the uid .* more than once', volumes=[volume, other])
        self.refuse("unknown host 'host9'", maps=[one | {'host': 'host9'}])
        self.refuse("unknown volume 'v9'", maps=[one | {'volume': 'v9'}])
        self.refuse('the LUN 0 of host1 is there', maps=[one, one])
        self.refuse('more', more=1)
        with self.assertRaisesRegex(errors.ControlError, 'the array svc is'):
            self.control.set_san([self.array, self.array | {'ports': []}])
        self.assertEqual(FOUND, self.look())

    def test_later_change_of_argument_has_no_effect(self):
        self.array['maps'][0]['lun'] = 7
        known = self.emulator._application._emulation.host.site.san.described
        self.assertEqual(0, known[0]['maps'][0]['lun'])
        self.assertEqual(FOUND, self.look())

    def test_verb_is_served_over_http(self):
        remote = client_module.Client(self.emulator.url)
        remote.set_san([])
        self.assertEqual(NOTHING, self.look())
        with self.assertRaisesRegex(errors.ControlError, 'is not of type'):
            remote.set_san([1])


class SiteTest(unittest.TestCase):
    def start(self, *worlds):
        base.quieten(self)
        site = fixture.Site(worlds)
        self.addCleanup(site.stop)
        site.start()
        return site.emulators

    def second_world(self):
        world = san.world()
        (system,) = world['systems']
        system['serial'] = 'EMU0002'
        for slot in system['slots']:
            for port in slot['fibre_channel_ports']:
                port['wwpn'] = port['wwpn'].replace('90FA', '90FB')
        return world

    def test_hosts_of_site_have_one_san(self):
        first, second = self.start(san.world(), self.second_world())
        array = san.array()
        array['hosts'][0]['wwpns'] = ['10000090FB537201']
        first.control.set_san([array])
        helper = san.SanTestCase()
        helper.adapter = base.adapter_for(second)
        self.addCleanup(base.forget, helper.adapter.session)
        found = helper.look('vios2', initiators=['10000090FB537201'])
        self.assertEqual(FOUND, found)

    def test_hosts_with_one_port_are_refused(self):
        world = self.second_world()
        world['systems'][0]['slots'] = san.world()['systems'][0]['slots']
        with self.assertRaisesRegex(
            errors.WorldError, 'port 10000090FA537101 is in .host1. and in'
        ):
            fixture.Site([san.world(), world])


class AddressTest(unittest.TestCase):
    def test_address_is_that_of_pypowervm(self):
        for lun in (0, 1, 255, 256, 0x40000000, 0xFFFFFFFF):
            with self.subTest(lun):
                wanted = int(hdisk.normalize_lun(lun), 16)
                self.assertEqual(wanted, san_module.lua(lun))
