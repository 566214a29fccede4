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

"""Volumes on a host with two Virtual I/O Servers."""

import dataclasses
import json
import types
from unittest import mock

from nova import objects
from pypowervm import const
from pypowervm.tasks import hdisk
from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import storage as pvm_storage
from pypowervm.wrappers import virtual_io_server

from emulator.tests import san
from nova_powervm import exception
from nova_powervm.lpar import operations
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.powervm.volume import volume_mappings
from tests.ops import base
from tests.ops import volumes

objects.register_all()

from nova_powervm.virt import instance_records  # noqa: E402
from nova_powervm.virt import instance_volumes  # noqa: E402
from nova_powervm.virt import system_metadata  # noqa: E402
from tests import proofs  # noqa: E402

#: The first two slots for volumes, one for each server.
BOTH = {'vios1': {64: 'v1'}, 'vios2': {65: 'v1'}}
V1, V2, V3 = map(volumes.volume, ('v1', 'v2', 'v3'))
BOOT = volumes.volume(is_boot=True)


def no_maps(array):
    """Have an array map nothing."""
    array['maps'] = []


def exchange(array):
    """Have an array map ``v2`` where ``v1`` was."""
    array['maps'] = [{'host': 'host1', 'volume': 'v2', 'lun': 0}]


def exchanged(number):
    """Return what has one volume's place lead to a disk of another uid."""

    def change(array):
        array['volumes'][number]['uid'] = changed(
            volumes.UIDS[f'v{number + 1}']
        )

    return change


def changed(wwpn):
    """Return a name of a port, or a uid, that differs in its last digit."""
    return f'{wwpn[:-1]}{(int(wwpn[-1], 16) + 8) % 16:X}'


class AttachTest(volumes.VolumesTestCase):
    def setUp(self):
        super().setUp()
        self.spawn()

    @proofs.proves('storage.block.backend.fibrechannel')
    def test_running_guest_gets_volume_by_both_servers(self):
        udids = self.attach(V1)

        self.assertEqual({V1.id: san.UDID}, udids)
        discovery = ['PUT VirtualIOServer.job', 'DELETE Job.delete']
        mapping = [
            'GET VirtualIOServer.read',
            'POST VirtualIOServer.update',
        ]
        self.assertEqual(
            [
                'GET LogicalPartition.read',
                'GET VirtualIOServer.feed',
                'GET VirtualIOServer.job_template',
                *discovery * 2,
                # Whose disks they are, and which slots are free.
                'GET VirtualIOServer.feed',
                'GET VirtualIOServer.feed',
                *mapping * 2,
            ],
            [
                f'{record["method"]} {record["label"]}'
                for record in self.control.journal()
            ],
        )
        self.assertEqual(BOTH, self.connected())
        self.assertEqual('r', self.mapped()['vios1'][0])
        # No path is missing.
        found = self.volumes.connected(self.describe().lpar_uuid, [V1])
        connected = lpar_volumes.Connected(True, {0: 64, 1: 65}, V1.kind)
        self.assertEqual({V1.id: connected}, found)

        with self.subTest('repeated'):
            self.attach(V1)
            self.assertEqual(
                ['PUT VirtualIOServer.job', 'DELETE Job.delete'] * 2,
                self.changes(),
                'looks at the place again, and no more',
            )
            self.attach(V1.with_udid(udids[V1.id]))

            self.assertEqual(BOTH, self.connected())
            self.assertEqual([], self.changes())

        with self.subTest('detached'):
            self.detach(V1)
            of_server = [
                'GET VirtualIOServer.read',
                'POST VirtualIOServer.update',
                # Whether anything else has the disk.
                'GET VirtualIOServer.read',
                'PUT VirtualIOServer.job',
                'DELETE Job.delete',
            ]
            self.assertEqual(
                [
                    'GET LogicalPartition.read',
                    'GET VirtualIOServer.feed',
                    *of_server * 2,
                ],
                [
                    name
                    for record in self.control.journal()
                    if (name := f'{record["method"]} {record["label"]}')
                    != 'GET VirtualIOServer.job_template'
                ],
            )

        with self.subTest('detached again'):
            self.attach(V1)
            known = V1.with_udid(san.UDID)
            self.detach(known)
            self.detach(known)

            self.assertEqual([], self.changes())

        with self.subTest('detached from an LPAR that is gone'):
            self.attach(V1)
            self.removals.destroy(base.INSTANCE)
            self.detach(V1)

            self.assert_no_volumes()

    def test_volumes_have_slots_of_their_own(self):
        self.attach(V1)
        self.attach(V2)

        self.assertEqual(
            {
                'vios1': {64: 'v1', 66: 'v2'},
                'vios2': {65: 'v1', 67: 'v2'},
            },
            self.connected(),
        )

        with self.subTest('one is detached'):
            self.detach(V1)

            self.assertEqual(
                {'vios1': {66: 'v2'}, 'vios2': {67: 'v2'}}, self.connected()
            )
            self.assertEqual(
                {'vios1': ['hdisk3'], 'vios2': ['hdisk2']}, self.hdisks()
            )
            self.assert_lpar()

    def test_port_and_volumes_take_no_slot_of_each_other(self):
        # The host would put the port at 66, where the next volume belongs.
        self.set_state(base.OFF)
        self.attach(V1)
        done = self.run_plan(
            operations.ATTACH_PORT, self.describe(ports=(base.PORT2,))
        )
        self.attach(V2)

        self.assertEqual({66: 'v2', 64: 'v1'}, self.connected()['vios1'])
        self.assertEqual({base.PORT2.mac: 16}, done.slots)
        self.assertEqual([2, 16], self.adapter_slots())

    def adapter_slots(self):
        """Return the virtual slots of the LPAR's adapters."""
        return [adapter['slot'] for adapter in self.lpar()['adapters']]

    def test_disk_that_cannot_be_forgotten_stays_with_a_warning(self):
        for fault in (
            {'method': 'PUT', 'match': 'RemoveDevice', 'status': 500},
            # The reading of the server's disks.
            {'method': 'GET', 'match': 'VirtualIOServer/.*Stor', 'drop': True},
        ):
            with self.subTest(fault):
                self.begin()
                self.spawn()
                self.attach(V1)
                self.control.add_fault(every=True, **fault)
                with self.logged('WARNING') as log:
                    self.detach(V1)
                self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())
                self.assertEqual([1, 1], [*map(len, self.hdisks().values())])
                self.assertEqual(2, str(log.output).count('may keep'))

    def test_unexpected_answer_keeps_a_disk_with_a_warning(self):
        self.attach(V1)
        with (
            mock.patch.object(
                hdisk, 'remove_hdisk', side_effect=ValueError('no number')
            ),
            self.logged('WARNING') as log,
        ):
            self.detach(V1)
        self.assertEqual(2, str(log.output).count('may keep'))

    def test_lpar_without_free_slot_is_refused_early(self):
        self.start_service(virtual_slots=64)
        self.removals.destroy(base.INSTANCE)
        self.spawn()
        lpar = self.partitions.find(self.describe().lpar_uuid)
        self.volumes.connector(lpar)
        self.attach(V1)

        self.assertEqual(
            {'vios1': {63: 'v1'}, 'vios2': {62: 'v1'}}, self.connected()
        )
        with self.assertRaisesRegex(
            exception.VolumesImpossible, '0 of 64 virtual slots left'
        ):
            self.volumes.connector(lpar)
        self.failed(
            exception.VolumesImpossible,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V2,)),
            'none of its 64 virtual slots',
        )
        self.assertEqual(['v1'], [*self.connected()['vios1'].values()])
        self.assertEqual(
            [1, 1], [len(names) for names in self.hdisks().values()]
        )

    def test_port_at_slot_for_volumes_leaves_no_room(self):
        self.start_service(virtual_slots=64)
        self.removals.destroy(base.INSTANCE)
        # As one that an earlier version has made.
        record = {base.PORT.mac: 63, 'gone@0': 62}
        wanted = self.describe(virtual_slots=record)
        self.run_plan(operations.SPAWN, wanted)
        self.failed(
            exception.RestRefused,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,), virtual_slots=record),
            'virtual slot 63',
        )
        connects = instance_volumes.InstanceVolumes(
            types.SimpleNamespace(
                volumes=self.volumes,
                partitions=self.partitions,
                nodename='host1',
            )
        )
        instance = types.SimpleNamespace(
            uuid=base.INSTANCE,
            system_metadata={
                system_metadata.virtual_slot(name).name: str(slot)
                for name, slot in record.items()
            },
        )
        with (
            mock.patch.object(
                instance_records, 'evacuated', return_value=frozenset()
            ),
            self.assertRaisesRegex(
                exception.VolumesImpossible, '1 of 64 virtual slots left'
            ),
        ):
            connects.connector(instance)

    def test_connector_has_ports_of_all_servers_if_one_answers(self):
        with (
            self.subTest('no name'),
            mock.patch.object(base_partition.PhysFCPort, 'wwpn', None),
            mock.patch.object(pvm_storage.PV, 'capacity', None),
            self.assertRaisesRegex(exception.VolumesImpossible, 'has a Fibre'),
        ):
            self.volumes.connector()

        with self.subTest('running guest without RMC'):
            self.set_state(base.RUNNING, rmc_state='inactive')

            for operation in (
                operations.ATTACH_VOLUME,
                operations.DETACH_VOLUME,
            ):
                self.refused(
                    exception.VolumesImpossible,
                    operation,
                    self.describe(volumes=(V1,)),
                    'Stop the server first',
                )

        every = sorted(wwpn.lower() for wwpn in volumes.BOTH)
        # REST has no names of nodes here.
        ports = {'wwpns': every, 'wwnns': every}

        self.assertEqual(ports, self.volumes.connector())
        self.stop_server()
        self.assertEqual(ports, self.volumes.connector())
        self.stop_server('vios1')
        with self.assertRaisesRegex(
            exception.VolumesImpossible, 'vios1, vios2 do not answer'
        ):
            self.volumes.connector()

    @proofs.proves('operation.extend-volume')
    def test_extended_volume_has_its_new_size_on_each_server(self):
        self.attach(V1)
        size = 2 * volumes.GB
        lpar_uuid = self.describe().lpar_uuid
        with self.assertRaisesRegex(
            exception.VolumeNotExtended, 'has 2 GB, .* see 1 GB of it'
        ):
            self.volumes.resize(V1, lpar_uuid, size)
        self.set_san('v1', size=size)
        self.volumes.resize(V1, lpar_uuid, size)
        with self.assertRaises(exception.VolumeMissing):
            self.volumes.resize(V2, lpar_uuid, size)

        with self.subTest('a server that runs has to see it'):
            self.control.set_partition('vios2', rmc_state='inactive')
            size = 3 * volumes.GB
            self.set_san('v1', size=size)
            with self.assertRaisesRegex(exception.RestError, 'vios2'):
                self.volumes.resize(V1, lpar_uuid, size)

        with self.subTest('one that is off has not'):
            self.stop_server()
            self.volumes.resize(V1, lpar_uuid, size)
            self.stop_server('vios1')
            with self.assertRaises(exception.RestError):
                self.volumes.resize(V1, lpar_uuid, size)

    def test_volume_that_cinder_maps_to_other_ports_is_elsewhere(self):
        there = volumes.volume(
            'v2', initiator_target_map={'10000090FFFFFFF1': [*san.TARGETS]}
        )
        # A driver of Cinder that names no ports may have mapped it here.
        unknown = volumes.volume('v3', initiator_target_map={})
        self.assertEqual(
            {there.id}, self.volumes.elsewhere([V1, there, unknown])
        )
        self.stop_server('vios2')
        self.assertEqual({there.id}, self.volumes.elsewhere([V1, there]))


class NotFoundTest(volumes.VolumesTestCase):
    def setUp(self):
        super().setUp()
        self.spawn()

    def refuse(self, error, *words, volume=V1):
        """Assert that an attachment fails and leaves nothing."""
        self.failed(
            error,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(volume,)),
            *words,
        )

    @proofs.proves('operation.attach-volume')
    def test_volume_is_refused_if_it_is_not_found_as_described(self):
        def target(array):
            for port in array['ports']:
                port['wwpn'] = changed(port['wwpn'])

        def lun(array):
            array['maps'][0]['lun'] = 7

        def initiator(array):
            array['hosts'][0]['wwpns'] = [*map(changed, volumes.BOTH)]

        def other(array):
            array['hosts'] = [
                {'name': name, 'wwpns': [*san.WWPNS[name]]}
                for name in ('vios1', 'vios2')
            ]
            array['maps'] = [
                {'host': 'vios1', 'volume': 'v1', 'lun': 0},
                {'host': 'vios2', 'volume': 'v2', 'lun': 0},
            ]

        for change in (target, lun, initiator):
            with self.subTest(change.__name__):
                self.change_san(change)
                self.refuse(
                    exception.VolumeMissing,
                    'found by 0 Virtual I/O Server(s) instead of 1',
                    'vios1 finds no disk (status 6) from its ports '
                    '10000090FA537101, 10000090FA537102 at 50050768022121CA, '
                    '50050768022121CB, LUN 0',
                )
                self.assert_no_volumes()

        with self.subTest('paths to another volume'):
            self.change_san(other)
            self.refuse(exception.VolumeRefused, 'find different disks')
            self.assert_no_volumes()

        with self.subTest('reserve policy'):
            self.set_san('v1', reserve_policy='SinglePath')
            self.refuse(
                exception.VolumeRefused,
                'reserve policy SinglePath',
                'rules -o modify',
            )
            self.assert_no_volumes()

        with self.subTest('ports elsewhere'):
            self.set_san('v1', 'v2', 'v3')
            elsewhere = volumes.volume(
                initiator_target_map={'10000090FA999901': [*san.TARGETS]}
            )
            self.refuse(
                exception.VolumeMissing,
                'mapped it to none of the ports of vios1',
                volume=elsewhere,
            )

        with self.subTest('kind'):
            self.refuse(
                exception.VolumeRefused,
                "its type is 'iscsi', and this host connects volumes of the "
                'types: fibre_channel',
                volume=lpar_volumes.Volume('v1', 'iscsi'),
            )

    def test_volume_with_some_of_its_paths_is_connected(self):
        def one_target(array):
            array['ports'][1]['wwpn'] = changed(array['ports'][1]['wwpn'])

        self.change_san(one_target)
        with self.logged('INFO') as logs:
            self.attach(V1)
        self.assertEqual(BOTH, self.connected())
        self.assertIn('by some of the 2 paths', ''.join(logs.output))


class OthersTest(volumes.VolumesTestCase):
    """Somebody else has the disk, or had one that looks the same."""

    def setUp(self):
        super().setUp()
        self.spawn()

    def anew(self, *cases):
        """Yield cases; begin anew for each but the first."""
        for number, case in enumerate(cases):
            if number:
                self.begin()
                self.spawn()
            yield case

    def map_by_hand(self, name='database', vios='vios1', tag=None):
        """Map volume v1 to a partition, as an administrator does."""
        server = self.server(vios, const.XAG.VIO_SMAP)
        self.found = self.volumes.find(V1, self.describe().lpar_uuid)
        disk = pvm_storage.PV.bld(
            self.adapter, self.hdisks()[vios][0], tag=tag
        )
        self.control.set_partition(name, rmc_state='active')
        scsi_mapper.add_vscsi_mapping(
            None, server.uuid, self.lpar(name)['uuid'], disk
        )

    def server(self, vios, *groups):
        """Return a Virtual I/O Server as pypowervm reads it."""
        found = virtual_io_server.VIOS.get(self.adapter, xag=[*groups])
        return next(one for one in found if one.name == vios)

    @proofs.proves('operation.attach-volume')
    def test_disk_of_another_lpar_is_refused(self):
        for vios, name in self.anew(('vios1', 'hdisk2'), ('vios2', 'hdisk1')):
            with self.subTest(vios):
                self.map_by_hand(vios=vios)
                self.failed(
                    exception.VolumeInUse,
                    operations.ATTACH_VOLUME,
                    self.describe(volumes=(V1,)),
                    f'Volume {V1.id} is {name} of {vios}, which is in use',
                    self.lpar('database')['uuid'].upper(),
                )
                # The disks stay that were there, and nothing of ours.
                self.assertEqual([], [*self.connected()['vios1']])
                self.assertEqual([1, 1], [*map(len, self.hdisks().values())])

    def test_disk_of_a_volume_group_is_refused(self):
        for vios in self.anew('vios1', 'vios2'):
            with self.subTest(vios):
                self.volumes.find(V1, self.describe().lpar_uuid)
                (name,) = self.hdisks()[vios]
                disk = pvm_storage.PV.bld(self.adapter, name)
                pvm_storage.VG.bld(self.adapter, 'data', [disk]).create(
                    parent=self.server(vios)
                )
                self.failed(
                    exception.VolumeInUse,
                    operations.ATTACH_VOLUME,
                    self.describe(volumes=(V1,)),
                    f'Volume {V1.id} is {name} of {vios}, which is in use',
                    'a volume group or a pool has it',
                )
                self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())
                self.assertEqual([name], self.hdisks()[vios])

    def test_only_new_disks_of_one_in_use_are_forgotten(self):
        self.map_by_hand()
        self.volumes.forget(self.found)
        self.failed(
            exception.VolumeInUse,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,)),
        )
        self.assertEqual({'vios1': ['hdisk2'], 'vios2': []}, self.hdisks())

    def test_refused_attachment_leaves_the_disk_of_an_administrator(self):
        self.volumes.find(V2, self.describe().lpar_uuid)
        before = self.hdisks()
        self.change_san(exchange)
        self.failed(
            exception.VolumeRefused,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1.with_udid(san.UDID),)),
        )
        self.assertEqual(before, self.hdisks())

    def test_disk_that_another_lpar_has_by_the_other_server_is_refused(self):
        self.map_by_hand(vios='vios2')
        self.failed(
            exception.VolumeInUse,
            operations.ATTACH_VOLUME,
            self.describe(
                volumes=(
                    volumes.volume(
                        initiator_target_map={
                            one: [*san.TARGETS] for one in san.WWPNS['vios1']
                        }
                    ),
                )
            ),
            f'Volume {V1.id} is hdisk1 of vios2, which is in use',
            self.lpar('database')['uuid'].upper(),
        )
        self.assertEqual([], [*self.connected()['vios1']])

    def test_path_that_an_administrator_has_added_goes_with_the_volume(self):
        self.stop_server()
        self.attach(V1)
        self.start_server()
        self.map_by_hand(base.NAME, vios='vios2', tag='data')
        self.detach(V1)
        self.assert_no_volumes()

    def test_detachment_leaves_what_others_have(self):
        self.attach(V1)
        self.attach(V2)
        self.detach(dataclasses.replace(V2, id='other'))

        self.assertEqual(2, len(self.connected()['vios1']))

        self.detach(V1)
        with self.subTest('without a trace'):
            self.change_san(no_maps)
            self.detach(V1)
            self.assertEqual(
                [['v2']] * 2,
                [[*has.values()] for has in self.connected().values()],
            )

    def test_volume_without_tag_is_known_by_its_udid(self):
        self.map_by_hand(base.NAME)
        known = V1.with_udid(san.UDID)
        found = self.volumes.connected(self.describe().lpar_uuid, [known])
        connected = lpar_volumes.Connected(False, {0: 48}, V1.kind)
        self.assertEqual({V1.id: connected}, found)
        self.detach(known)
        self.assert_no_volumes()

        with self.subTest('discovered'):
            self.map_by_hand(base.NAME)
            self.detach(V1)
            self.assert_no_volumes()

        self.map_by_hand(base.NAME)
        with self.subTest('nothing tells it'):
            self.map_by_hand(base.NAME)
            with mock.patch.object(pvm_storage.PV, 'udid', None):
                for row in (operations.DETACH_VOLUME, operations.DEPARTURE):
                    self.refused(
                        exception.VolumeHeld,
                        row,
                        self.describe(volumes=(V1.with_udid(san.UDID),)),
                        'vios1 maps hdisk2 to the LPAR without a tag and UDID',
                    )

        with self.subTest('not to be told from another'):
            self.change_san(no_maps)
            self.failed(
                exception.VolumeHeld,
                operations.DETACH_VOLUME,
                self.describe(volumes=(V1,)),
                'vios1 maps hdisk2 to the LPAR without a tag',
                'vios1 finds no disk',
            )
            self.assertEqual(['v1'], [*self.connected()['vios1'].values()])

        with self.subTest('the other has a UDID'):
            self.detach(V2.with_udid(volumes.UDIDS['v2']))
            self.assertEqual(['v1'], [*self.connected()['vios1'].values()])

        self.set_san('v1', 'v2', 'v3')
        with self.subTest('hard reboot'):
            self.run_plan(
                operations.HARD_REBOOT,
                self.describe(volumes=(V1,), known_volumes=frozenset({V1.id})),
            )
            self.assertEqual(
                [['v1']] * 2,
                [[*found.values()] for found in self.connected().values()],
            )

    def test_tag_tells_a_volume_beside_one_that_nothing_tells(self):
        self.map_by_hand(base.NAME)
        self.attach(V2)
        with mock.patch.object(pvm_storage.PV, 'udid', None):
            self.failed(
                exception.VolumeHeld,
                operations.DETACH_VOLUME,
                self.describe(volumes=(V1.with_udid(san.UDID),)),
            )
            self.detach(V2.with_udid(volumes.UDIDS['v2']))
        self.assertEqual(
            {'vios1': ['v1'], 'vios2': []},
            {vios: [*has.values()] for vios, has in self.connected().items()},
        )

        with self.subTest('no place leads to it'):
            self.attach(V2)
            self.change_san(no_maps)
            self.detach(V2)
            self.assertEqual(
                {'vios1': ['v1'], 'vios2': []},
                {
                    vios: [*has.values()]
                    for vios, has in self.connected().items()
                },
            )

    def test_hard_reboot_leaves_disks_that_an_administrator_has_mapped(self):
        for tag in self.anew(None, 'oracle-data'):
            with self.subTest(tag=tag):
                self.map_by_hand(base.NAME, tag=tag)
                self.run_plan(
                    operations.HARD_REBOOT,
                    self.describe(known_volumes=frozenset()),
                )
                self.assertEqual(['v1'], [*self.connected()['vios1'].values()])

    def test_tag_on_one_server_tells_the_volume_on_the_other(self):
        for operation in self.anew(
            operations.DETACH_VOLUME, operations.HARD_REBOOT
        ):
            with self.subTest(operation.name):
                self.stop_server()
                self.attach(V1)
                self.start_server()
                self.map_by_hand(base.NAME, vios='vios2')
                self.assertEqual(
                    [1, 1], [len(has) for has in self.connected().values()]
                )
                wanted = (
                    {'volumes': (V1,)}
                    if operation is operations.DETACH_VOLUME
                    else {'known_volumes': frozenset()}
                )
                self.run_plan(operation, self.describe(**wanted))
                self.assert_no_volumes()

    def test_deletion_leaves_servers_the_disk_of_an_administrator(self):
        self.map_by_hand(base.NAME, tag='oracle-data')
        self.attach(V2)
        with self.logged('WARNING') as logs:
            self.removals.destroy(base.INSTANCE)
        (line,) = logs.output
        self.assertIn('hdisk2 of vios1 is not mapped to LPAR', line)
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())
        self.assertEqual(
            [1, 1], [len(disks) for disks in self.hdisks().values()]
        )

    def test_attachment_looks_at_the_disk_of_a_mapping_that_is_left(self):
        self.attach(V1)
        self.change_san(exchange)
        self.failed(
            exception.VolumeRefused,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,)),
            f'vios1 maps hdisk2, with the UDID {san.UDID}, to the LPAR',
            f'leads to another disk, with {volumes.UDIDS["v2"]}',
            'reboot the server hard',
        )
        self.assertEqual(BOTH, self.connected())
        self.run_plan(
            operations.HARD_REBOOT, self.describe(known_volumes=frozenset())
        )
        self.assert_no_volumes()

    def test_place_that_leads_to_another_disk_is_refused(self):
        self.change_san(exchange)
        self.failed(
            exception.VolumeRefused,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1.with_udid(san.UDID),)),
            'leads to another disk now',
            f'instead of {san.UDID}',
        )
        self.assert_no_volumes()

    def test_uid_that_the_array_uses_again_is_the_new_volume(self):
        self.attach(V1)
        self.detach(V1)

        def renamed(array):
            array['volumes'][0]['name'] = 'new'
            array['maps'][0]['volume'] = 'new'

        self.change_san(renamed)
        self.attach(dataclasses.replace(V1, id='new'))
        self.assertEqual(BOTH, self.connected())

    def test_uid_of_a_volume_that_is_still_connected_is_refused(self):
        self.attach(V1)
        self.failed(
            exception.VolumeInUse,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(dataclasses.replace(V1, id='new'),)),
            f'has it as volume {V1.id}',
        )
        self.assertEqual(BOTH, self.connected())

    def test_mapping_of_a_deleted_lpar_is_the_volume_s(self):
        self.attach(V1)
        self.set_state(base.OFF)
        self.partitions.delete(self.describe().lpar_uuid)
        self.removals.destroy(base.INSTANCE)
        self.spawn()
        self.attach(V1)
        self.assertEqual(BOTH, self.connected())

        self.set_state(base.OFF)
        self.partitions.delete(self.describe().lpar_uuid)
        self.removals.destroy(base.INSTANCE, volumes=[V1])
        self.assert_no_volumes()

    def test_untagged_mapping_of_a_deleted_lpar_goes_with_the_volume(self):
        self.map_by_hand(base.NAME)
        self.set_state(base.OFF)
        self.partitions.delete(self.describe().lpar_uuid)
        known = V1.with_udid(san.UDID)
        self.spawn()
        # Without a tag, it can be open to any partition.
        self.failed(
            exception.VolumeInUse,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(known,)),
            'it is mapped to a partition that is gone',
        )
        self.detach(known)
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected(None))

    def test_mapping_that_a_deleted_lpar_has_left_of_another_stays(self):
        self.attach(V1, V2)
        self.set_state(base.OFF)
        self.partitions.delete(self.describe().lpar_uuid)
        self.removals.destroy(base.INSTANCE)
        self.spawn()
        self.attach(V1)
        self.assertEqual(
            [['v2']] * 2,
            [[*has.values()] for has in self.connected(None).values()],
        )


class ServerDownTest(volumes.VolumesTestCase):
    def setUp(self):
        super().setUp()
        self.spawn()

    @proofs.proves('storage.block.backend.fibrechannel')
    def test_missing_path_is_added_by_a_hard_reboot(self):
        self.stop_server()
        with self.logged('WARNING') as logs:
            self.attach(V1)
        self.assertIn('vios2 does not answer', logs.output[0])
        self.assertEqual({'vios1': {64: 'v1'}, 'vios2': {}}, self.connected())
        self.start_server()
        self.run_plan(
            operations.HARD_REBOOT,
            self.describe(volumes=(V1,), known_volumes=frozenset({V1.id})),
        )

        self.assertEqual(BOTH, self.connected())
        self.assert_lpar()

    def test_second_path_can_be_required(self):
        self.start_service(vios_paths_required=2)
        self.stop_server()
        self.failed(
            exception.VolumeMissing,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,)),
            'found by 1 Virtual I/O Server(s) instead of 2',
            'vios2 does not answer.',
        )
        self.assert_no_volumes()

    def test_second_path_is_not_required_of_a_volume_that_has_one(self):
        self.stop_server()
        self.attach(V1)
        self.start_service(vios_paths_required=2)
        self.run_plan(operations.ATTACH_VOLUME, self.describe(volumes=(V1,)))

        self.assertEqual({'vios1': {64: 'v1'}, 'vios2': {}}, self.connected())

    def test_volume_without_a_path_is_refused(self):
        for name in ('vios1', 'vios2'):
            self.stop_server(name)
        self.failed(
            exception.VolumeMissing,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,)),
            'found by 0',
        )

    @proofs.proves('storage.block.backend.fibrechannel')
    def test_volume_is_not_detached_or_deleted_while_a_path_is_silent(self):
        self.attach(V1)
        self.stop_server()
        self.refused(
            exception.VolumeHeld,
            operations.DETACH_VOLUME,
            self.describe(volumes=(V1,)),
            f'Volume {V1.id} stays connected',
            'vios2 does not answer, and connects it',
        )
        # Nova has given the ports of a deleted server away.
        with self.assertRaises(exception.VolumeHeld):
            self.removals.destroy(base.INSTANCE)
        self.assertEqual(base.OFF, self.lpar()['state'])
        self.assertEqual(BOTH, self.connected())
        self.start_server()
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()
        self.assert_no_volumes()

    def test_rebuild_that_would_be_stuck_is_refused_before_it_begins(self):
        self.attach(V1)
        self.stop_server()
        uuid = self.describe().lpar_uuid
        with self.assertRaisesRegex(exception.VolumeHeld, 'vios2 does not'):
            self.volumes.check_rebuild(uuid, [BOOT], 128)
        self.start_server()
        self.volumes.check_rebuild(uuid, [BOOT], 128)

    def test_killed_evacuation_leaves_no_disk_that_it_has_found(self):
        lpar_uuid = self.describe().lpar_uuid
        found = self.volumes.find(V1, lpar_uuid).volume
        self.assertEqual([1, 1], [len(own) for own in self.hdisks().values()])
        self.removals.note_leftover(lpar_uuid, [found])
        self.removals.remove_leftovers(lambda: ())
        self.assertEqual({'vios1': [], 'vios2': []}, self.hdisks())

    def test_guest_does_not_leave_while_a_path_is_silent(self):
        self.attach(V1)
        self.stop_server()
        self.refused(
            exception.VolumeHeld,
            operations.DEPARTURE,
            self.describe(volumes=(V1,)),
            'vios2 does not answer',
        )
        self.assert_lpar()
        # Nor does the other server connect it for a server to come.
        self.volumes.check_arrival([V1])
        self.stop_server('vios1')
        with self.assertRaises(exception.VolumesImpossible):
            self.volumes.check_arrival([V1])

    def test_volumes_arrive_where_each_server_has_a_virtual_slot(self):
        """The host that they come from may have fewer servers."""
        lpar_uuid = self.describe().lpar_uuid
        # Slots 62 to 66, and that of a root disk for the boot volume.
        for wanted in ([V1, V2], [BOOT, V2, V3]):
            self.volumes.check_arrival(wanted, 67)
            self.volumes.check_rebuild(lpar_uuid, wanted, 67)
        message = 'a new LPAR has 5 of 67 virtual slots left .* and needs 6'
        with self.assertRaisesRegex(exception.VolumesImpossible, message):
            self.volumes.check_arrival([V1, V2, V3], 67)
        with self.assertRaisesRegex(exception.VolumesImpossible, message):
            self.volumes.check_rebuild(lpar_uuid, [V1, V2, V3], 67)

    def test_server_without_a_path_may_be_silent(self):
        self.stop_server()
        self.attach(V1)
        self.run_plan(
            operations.DEPARTURE, self.describe(volumes=(V1,), ports=None)
        )
        self.assert_no_volumes()
        self.attach(V1)
        self.detach(V1)
        self.assert_no_volumes()

        with self.subTest('without a trace'):
            self.detach(V1)
            job = ['PUT VirtualIOServer.job', 'DELETE Job.delete']
            # The discovery, and the removal of what it has found.
            self.assertEqual(job * 2, self.changes())
            self.assert_no_volumes()


class SickServerTest(volumes.VolumesTestCase):
    """A server runs, but the host cannot read its storage."""

    def setUp(self):
        super().setUp()
        self.spawn()

    def test_volume_gets_path_of_the_other_server(self):
        self.sicken('vios2')

        with self.logged('WARNING') as logs:
            self.attach(V1)

        self.assertIn('vios2 does not report its storage', logs.output[0])
        self.assertIn('Data cannot be retrieved', logs.output[0])
        self.assertEqual({'vios1': {64: 'v1'}, 'vios2': {}}, self.connected())

    def test_path_that_it_may_have_is_kept(self):
        self.attach(V1)
        self.sicken('vios2')

        self.refused(
            exception.VolumeHeld,
            operations.DETACH_VOLUME,
            self.describe(volumes=(V1,)),
            'vios2 does not answer, and may connect it',
        )
        with self.subTest('extended'):
            self.set_san('v1', size=2 * volumes.GB)
            self.forget()

            self.volumes.resize(V1, self.describe().lpar_uuid, 2 * volumes.GB)

            self.assertEqual(['LUARecovery'] * 2, self.jobs)

        self.control.clear_faults()
        self.detach(V1)
        self.assert_no_volumes()

    def test_busy_server_is_waited_for(self):
        self.control.add_fault(
            match=r'/VirtualIOServer\?group=Vios',
            status=500,
            message='HSCL3205 The VIOS is busy.',
        )

        self.attach(V1)

        self.assertEqual(BOTH, self.connected())

    def test_host_without_a_healthy_server_answers_with_its_error(self):
        self.sicken('vios1', 'vios2')

        with self.assertRaisesRegex(exception.RestError, 'Data cannot be'):
            self.removals.destroy(base.INSTANCE)


class HiddenServerTest(volumes.VolumesTestCase):
    """A server that is off shows no disks, or nothing at all."""

    has_own_disk = False

    def setUp(self):
        super().setUp()
        self.spawn()

    def test_second_path_can_be_required(self):
        self.start_service(vios_paths_required=2)
        self.hide_server()
        self.failed(
            exception.VolumeMissing,
            operations.ATTACH_VOLUME,
            self.describe(volumes=(V1,)),
            'found by 1 Virtual I/O Server(s) instead of 2',
            'vios2 does not answer, and shows no ports.',
        )
        self.assert_no_volumes()

    def test_server_that_shows_only_ports_may_have_a_path(self):
        self.stop_server()
        self.attach(V1)
        self.refused(
            exception.VolumeHeld,
            operations.DETACH_VOLUME,
            self.describe(volumes=(V1,)),
            'vios2 does not answer, and may connect it',
        )

    def test_server_is_evacuated_to_host_with_a_hidden_server(self):
        self.removals.destroy(base.INSTANCE)
        self.hide_server()
        boot = volumes.volume(
            is_boot=True,
            initiator_target_map={'10000090FFFFFFF1': [*san.TARGETS]},
        )
        self.volumes.check_arrival([boot])
        self.lpars.check(
            operations.SPAWN, self.describe(root=None, volumes=(boot,))
        )

    def test_server_that_shows_nothing_may_have_a_path(self):
        self.hide_server()
        self.refused(
            exception.VolumeHeld,
            operations.DETACH_VOLUME,
            self.describe(volumes=(V1,)),
            'vios2 does not answer, and may connect it',
        )

        with self.subTest('ports of another host, or its own'):
            there = volumes.volume(
                initiator_target_map={'10000090FFFFFFF1': [*san.TARGETS]}
            )
            self.assertEqual(set(), self.volumes.elsewhere([there]))

        with self.subTest('unnamed ports'):
            self.refused(
                exception.VolumeHeld,
                operations.DETACH_VOLUME,
                self.describe(
                    volumes=(volumes.volume(initiator_target_map=None),)
                ),
                'vios2 does not answer, and may connect it',
            )

        with self.subTest('no path of others'):
            ports = [*san.WWPNS['vios1']]
            known = volumes.volume(
                initiator_target_map={one: [*san.TARGETS] for one in ports}
            )
            self.attach(known)
            self.detach(known)
            self.assert_no_volumes()


class FirstServerDownTest(volumes.VolumesTestCase):
    """The server that is off comes first in the order of the names."""

    has_own_disk = False

    def world(self):
        return json.loads(json.dumps(super().world()).replace('vios2', 'v'))

    def test_boot_volume_has_the_slot_of_the_second_server(self):
        self.hide_server('v')
        with self.logged('WARNING') as logs:
            self.spawn(root=None, volumes=(BOOT,))

        self.assertEqual({'v': {}, 'vios1': {32: 'v1'}}, self.connected())
        self.assertIn('v does not answer, and shows no ports', logs.output[0])


class NetworkServerTest(volumes.VolumesTestCase):
    """A server without ports comes first in the order of the names."""

    has_own_disk = False

    def world(self):
        made = json.loads(json.dumps(super().world()).replace('vios2', 'v'))
        (system,) = made['systems']
        (adapter,) = (s for s in system['slots'] if s.get('owner') == 'v')
        del adapter['fibre_channel_ports']
        adapter |= {
            'description': '2-Port 100/25GbE Adapter',
            'class': '0200',
        }
        return made

    def test_place_of_a_volume_does_not_depend_on_it(self):
        self.spawn(root=None, volumes=(BOOT,))
        expected = {'v': {}, 'vios1': {48: 'v1'}}
        self.assertEqual(expected, self.connected())
        self.removals.destroy(base.INSTANCE)
        self.stop_server('v')
        self.start_service()
        wanted = self.spawn(root=None, volumes=(BOOT,))

        self.assertEqual(expected, self.connected())
        self.assertEqual(
            {f'{BOOT.id}@0': 48, base.PORT.mac: 2},
            self.lpars.read_virtual_slots(wanted.lpar_uuid, [BOOT]),
        )


class LifeTest(volumes.VolumesTestCase):
    """Volumes beside the disks of a server, and in place of its root."""

    def test_boot_volume_is_in_the_place_of_a_root_disk(self):
        self.spawn(root=None, volumes=(BOOT, V2), slots=(base.slot(base.GPU),))

        self.assertEqual(
            {
                'vios1': {48: 'v1', 64: 'v2'},
                'vios2': {32: 'v1', 65: 'v2'},
            },
            self.connected(),
        )
        self.assert_lpar(slots=[base.GPU], disks='')

    def test_new_lpar_has_the_virtual_slots_on_record(self):
        # One of an earlier version can have a port among the volumes.
        record = {base.PORT.mac: 65, base.PORT2.mac: 3} | {
            f'{volume.id}@{number}': slot
            for number, slots in enumerate(((48, 67), (32, 69)))
            for volume, slot in zip((BOOT, V2), slots, strict=True)
        }
        wanted = self.describe(
            root=None,
            ports=(base.PORT, base.PORT2),
            volumes=(V3, V2, BOOT),
            virtual_slots=record,
        )
        done = self.run_plan(operations.SPAWN, wanted)

        self.assertEqual(
            {
                'vios1': {48: 'v1', 64: 'v3', 67: 'v2'},
                'vios2': {32: 'v1', 66: 'v3', 69: 'v2'},
            },
            self.connected(),
        )
        self.assertEqual(
            [(base.PORT2.mac, 3), (base.PORT.mac, 65)],
            sorted(
                ((a['mac'], a['slot']) for a in self.lpar()['adapters']),
                key=lambda pair: pair[1],
            ),
        )
        record |= {f'{V3.id}@0': 64, f'{V3.id}@1': 66}
        self.assertEqual(record, done.slots)
        self.assertEqual(
            record, self.lpars.read_virtual_slots(wanted.lpar_uuid, [V2])
        )

    def test_server_without_a_root_disk_starts_from_its_volume(self):
        self.spawn(root=None, volumes=(BOOT,))
        for operation in (operations.HARD_REBOOT, operations.START):
            with self.subTest(operation.name):
                self.set_state(base.OFF)
                self.run_plan(
                    operation, self.describe(root=None, volumes=(BOOT,))
                )
                self.assert_lpar(disks='')

    def test_boot_volume_has_config_drive_and_blank_disks_beside_it(self):
        self.spawn(
            root=None, volumes=(BOOT,), config_drive=True, blanks=(base.SWAP,)
        )

        self.assertEqual('si', ''.join(self.mapped()['vios1']))
        self.assertEqual({48: 'v1'}, self.connected()['vios1'])

    def test_volume_that_is_not_found_burns_no_device(self):
        self.set_san('v1')
        self.failed(
            exception.VolumeMissing,
            operations.SPAWN,
            self.describe(
                volumes=(BOOT, V2),
                root=None,
                slots=(base.slot(base.GPU, one_time_use=True),),
            ),
        )
        self.assertEqual(set(), self.burned())
        self.assert_nothing_left()
        self.assert_no_volumes()

    def test_failed_build_leaves_no_volume(self):
        self.control.add_fault(
            method='PUT', match='LogicalPartition.create', status=500
        )
        self.failed(
            exception.RestError,
            operations.SPAWN,
            self.describe(volumes=(V1,)),
        )
        self.control.clear_faults()
        self.assert_nothing_left()
        self.assert_no_volumes()

    def test_deletion_takes_volumes_and_disks(self):
        self.spawn(volumes=(V1, V2))
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()
        self.assert_no_volumes()

    def test_kept_disks_keep_no_volumes(self):
        self.spawn(volumes=(V1,))
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        self.assert_no_volumes()
        self.assertEqual(['r'], [*self.stored()])

    def test_hard_reboot_keeps_known_volumes_and_drops_others(self):
        self.spawn(volumes=(V1, V2, V3))
        done = self.run_plan(
            operations.HARD_REBOOT,
            self.describe(
                volumes=(V1,), known_volumes=frozenset({V1.id, V3.id})
            ),
        )
        self.assertEqual(
            [['v1', 'v3']] * 2,
            [sorted(found.values()) for found in self.connected().values()],
        )
        self.assert_lpar()
        self.assertEqual({V2.id}, done.removed)
        self.assertNotIn(f'{V2.id}@0', done.slots)

    def test_hard_reboot_removes_what_a_failed_attachment_left(self):
        self.spawn()
        for nth in (2, 3):  # Vios2 is not told, and vios1 not again.
            self.control.add_fault(
                method='POST',
                match='VirtualIOServer.update',
                nth=nth,
                status=500,
            )
        with self.logged('ERROR') as logs:
            self.failed(
                exception.RestError,
                operations.ATTACH_VOLUME,
                self.describe(volumes=(V1,)),
            )
        self.assertIn(
            'may be connected to LPAR vm1 by vios1',
            logs.output[0],
        )
        self.control.clear_faults()
        self.set_san()
        self.run_plan(
            operations.HARD_REBOOT, self.describe(known_volumes=frozenset())
        )
        self.assert_no_volumes()

    def test_mapping_that_was_not_answered_may_be_made_later(self):
        self.spawn()
        self.control.add_fault(
            method='POST',
            match='VirtualIOServer.update',
            every=True,
            drop=True,
        )
        with self.logged('ERROR') as logs:
            self.failed(
                exception.RestUnreachable,
                operations.ATTACH_VOLUME,
                self.describe(volumes=(V1,)),
            )
        (line,) = logs.output
        self.assertIn('may be connected to LPAR vm1 by vios1', line)
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())

    def test_only_the_server_that_did_not_answer_is_named(self):
        self.spawn()
        for nth in (2, 3, 4):  # The mapping by vios2, and its two repetitions.
            self.control.add_fault(
                method='POST',
                match='VirtualIOServer.update',
                nth=nth,
                drop=True,
            )
        with self.logged('ERROR') as logs:
            self.failed(
                exception.RestUnreachable,
                operations.ATTACH_VOLUME,
                self.describe(volumes=(V1,)),
            )
        (line,) = logs.output
        self.assertIn('may be connected to LPAR vm1 by vios2', line)
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())

    def test_unexpected_error_keeps_no_other_server_connected(self):
        self.spawn()
        mappings = volume_mappings.VolumeMappings
        unmap = mappings.unmap

        def refuse_first(self, server, is_doomed):
            if server.name == 'vios1':
                raise ValueError('an answer that pypowervm does not expect')
            unmap(self, server, is_doomed)

        with (
            mock.patch.object(mappings, 'unmap', refuse_first),
            mock.patch.object(
                volume_mappings, '_maps', side_effect=[0, 1, 0, 0]
            ),
            self.logged('ERROR') as logs,
        ):
            self.failed(
                exception.RestError,
                operations.ATTACH_VOLUME,
                self.describe(volumes=(V1,)),
                'does not show the mapping afterwards',
            )
        self.assertIn('by vios1', logs.output[0])
        self.assertEqual({'vios1': {64: 'v1'}, 'vios2': {}}, self.connected())

    def test_hard_reboot_goes_on_if_a_volume_of_nobody_stays(self):
        self.spawn(volumes=(V1,))
        self.stop_server()
        with self.logged('ERROR') as logs:
            self.run_plan(
                operations.HARD_REBOOT,
                self.describe(known_volumes=frozenset()),
            )
        self.assertIn('stays connected', logs.output[0])
        self.assert_lpar()

    def test_hard_reboot_without_its_volume_leaves_the_guest(self):
        self.spawn()
        self.set_san()
        self.failed(
            exception.VolumeMissing,
            operations.HARD_REBOOT,
            self.describe(volumes=(V1,), known_volumes=frozenset({V1.id})),
        )
        self.assertNotIn('off hard', self.jobs)
        self.assert_lpar()

    def test_disk_driver_leaves_volumes_alone(self):
        lpar_uuid = self.spawn(volumes=(V1,)).lpar_uuid
        self.assertEqual(
            [f'{storage.stem(lpar_uuid)}r'], [*self.disks.attached(lpar_uuid)]
        )
        self.set_state(base.OFF)
        self.disks.remove(lpar_uuid)
        self.assertEqual(BOTH, self.connected())
        self.assertEqual('', self.mapped_disks())

    def test_volume_is_forgotten_if_the_guest_is_not_stopped(self):
        self.spawn()
        self.control.add_fault(
            method='PUT', match='LogicalPartition.job', status=500
        )
        self.failed(
            exception.RestError,
            operations.HARD_REBOOT,
            self.describe(volumes=(V1,)),
        )
        self.control.clear_faults()
        self.assert_no_volumes()
        self.assert_lpar()

    def test_rescue_leaves_volumes_where_they_are(self):
        wanted = self.spawn(volumes=(V1,), config_drive=True)
        before = self.connected()
        self.run_plan(operations.RESCUE, wanted)
        self.assertEqual(before, self.connected())
        self.assert_lpar(disks='zrj')
        self.run_plan(operations.UNRESCUE, wanted)
        self.assertEqual(before, self.connected())
        self.assert_lpar(disks='ri')


class MoveTest(volumes.VolumesTestCase):
    """Servers with volumes leave a host without a pool, and arrive there."""

    def spawn_backed(self):
        """Spawn an instance that has nothing but volumes and a config drive.

        Describe it with its virtual slots, as after its departure.
        """
        wanted = self.spawn(
            root=None,
            volumes=(BOOT, V2),
            config_drive=True,
            slots=(base.slot(base.GPU, one_time_use=True),),
        )
        self.before = self.connected()
        return dataclasses.replace(
            wanted,
            virtual_slots=self.lpars.read_virtual_slots(
                wanted.lpar_uuid, wanted.volumes
            ),
        )

    def assert_here(self):
        """Assert that the instance is as it was."""
        self.assert_lpar(slots=[base.GPU], disks='i')
        self.assertEqual(self.before, self.connected())

    def test_guest_stays_off_if_its_volumes_do_not_come_back(self):
        wanted = self.spawn_backed()
        for nth in (2, 3):  # Vios2 keeps v1, and vios1 does not get it again.
            self.control.add_fault(
                method='POST',
                match='VirtualIOServer.update',
                nth=nth,
                status=500,
            )
        self.failed(exception.GuestStaysOff, operations.DEPARTURE, wanted)
        self.control.clear_faults()
        self.assertEqual(base.OFF, self.lpar()['state'])
        self.run_plan(operations.HARD_REBOOT, wanted)
        self.assert_here()

    def test_guest_stays_off_after_an_error_that_nobody_expects(self):
        wanted = self.spawn_backed()
        self.control.add_fault(
            method='POST', match='VirtualIOServer.update', nth=2, status=500
        )
        with mock.patch.object(
            self.volumes, 'find', side_effect=ValueError('a bug')
        ):
            self.failed(
                exception.GuestStaysOff, operations.DEPARTURE, wanted, 'a bug'
            )

    def test_lpar_is_made_around_volumes_and_goes_with_its_config_drive(self):
        wanted = self.spawn_backed()
        wanted = dataclasses.replace(
            wanted,
            volumes=(
                BOOT.with_udid(volumes.UDIDS['v1']),
                V2.with_udid(volumes.UDIDS['v2']),
            ),
        )
        self.run_plan(operations.DEPARTURE, wanted)
        self.assert_no_volumes()
        for row in (
            operations.HARD_REBOOT,
            operations.RETURN,
            operations.ARRIVAL,
        ):
            with self.subTest(row.name):
                self.removals.destroy(base.INSTANCE)
                # As an operator releases it.
                self.placement.burned.clear()
                for number in (0, 1):
                    self.change_san(exchanged(number))
                    self.failed(
                        exception.VolumeRefused,
                        row,
                        wanted,
                        f'{wanted.volumes[number].id} cannot be connected',
                        'leads to another disk now',
                    )
                    self.assert_nothing_left()
                    self.assert_no_volumes()
                    self.assertEqual(set(), self.burned())
                self.set_san('v1', 'v2')
                self.run_plan(row, wanted)
                self.assert_here()
                self.assertEqual({base.GPU}, self.burned())

    def test_failed_arrival_leaves_no_volume_and_can_be_repeated(self):
        wanted = self.spawn_backed()
        self.removals.destroy(base.INSTANCE)
        wanted = dataclasses.replace(wanted, blanks=(base.SWAP,))
        self.control.add_fault(
            method='PUT', match='LogicalPartition.create', status=500
        )
        self.failed(exception.RestError, operations.ARRIVAL, wanted)
        self.control.clear_faults()
        self.assertIsNone(self.lpar())
        self.assert_no_volumes()
        self.run_plan(operations.HARD_REBOOT, wanted)
        self.assert_lpar(slots=[base.GPU], disks='si')
        self.assertEqual(self.before, self.connected())
        self.removals.destroy(base.INSTANCE)
        self.assert_nothing_left()


class PoolMoveTest(volumes.VolumesTestCase):
    """A server has an ephemeral disk in a pool beside its boot volume."""

    disk_driver = 'ssp'

    def test_disk_in_the_pool_arrives_with_the_boot_volume(self):
        wanted = self.spawn(
            root=None, volumes=(BOOT,), blanks=(base.EPHEMERAL,)
        )
        before, stored = self.connected(), self.stored()
        self.assertEqual(['0'], [*stored])
        self.removals.destroy(base.INSTANCE, delete_disks=False)
        for row in (operations.ARRIVAL, operations.HARD_REBOOT):
            with self.subTest(row.name):
                self.run_plan(row, wanted)
                self.assertEqual(before, self.connected())
                self.assertEqual(stored, self.stored())
                self.removals.destroy(base.INSTANCE, delete_disks=False)
