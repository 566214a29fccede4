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


"""Ports of a Virtual I/O Server, and which disks it may forget."""

import dataclasses
import unittest
from unittest import mock

from pypowervm.tests.test_utils import pvmhttp
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm.lpar import volumes
from nova_powervm.powervm.volume import holders
from nova_powervm.powervm.volume import volume_mappings

DISK = volume_mappings.Disk('hdisk1', 'udid', 1, True, True, 'NoReserve')
SERVER = volume_mappings.Server(
    'uuid', 'vios1', True, False, {}, (DISK,), (), {}
)


class UnusedTest(unittest.TestCase):
    def unused(self, udids, mapped=(), **changes):
        """Return the disks that may be forgotten, one being changed."""
        disk = dataclasses.replace(DISK, **changes)
        server = dataclasses.replace(SERVER, disks=(disk,), mapped=mapped)
        return server.unused(holders.disks_of(udids))

    def test_disk_of_volume_is_unused(self):
        self.assertEqual([DISK], self.unused({'udid'}))

    def test_disk_that_may_be_of_others_is_left(self):
        mapped = volume_mappings.Mapped('', 'udid', 'hdisk1', '')
        for given in (
            {'udids': {'other'}},
            {'udids': {'', 'udid'}, 'udid': ''},
            {'udids': {'udid'}, 'mapped': (mapped,)},
            {'udids': {'udid'}, 'is_free': False},
            {'udids': {'udid'}, 'is_fibre_channel': False},
        ):
            with self.subTest(given):
                self.assertEqual([], self.unused(**given))


class TagTest(unittest.TestCase):
    """A tag tells the id and the type of a volume, or neither."""

    ID = 'd46154fd-1921-4ee7-a01c-5a30816cca6d'

    def read(self, tag):
        """Return what a tag tells."""
        mapped = volume_mappings.Mapped('', 'udid', 'hdisk1', tag)
        return mapped.kind, mapped.volume_id

    def test_tag_tells_volume_of_each_type(self):
        for kind, tag in (
            (volumes.FIBRE_CHANNEL, self.ID),
            ('example', f'example:{self.ID}'),
        ):
            with self.subTest(kind):
                volume = volumes.Volume(self.ID, kind)
                self.assertEqual(tag, volume_mappings.tag_of(volume))
                self.assertEqual((kind, self.ID), self.read(tag))

    def test_tag_of_an_administrator_tells_no_volume(self):
        for tag in ('', 'oracle-data', 'oracle:data', f'{self.ID}:data'):
            with self.subTest(tag):
                self.assertEqual(('', ''), self.read(tag))


class MayHavePortsTest(unittest.TestCase):
    def test_captured_adapters_tell_whether_there_may_be_ports(self):
        # None of these shows ports; the last two are off, and show no slots.
        for name, expected in (
            ('fake_vios_feed3.txt', [True, True]),
            ('fake_vios_hosting_vios_feed.txt', [False, True, True]),
        ):
            feed = pvmhttp.load_pvm_resp(name).response
            servers = virtual_io_server.VIOS.wrap(feed)
            with self.subTest(name):
                self.assertEqual(
                    expected,
                    [
                        volume_mappings.may_have_ports(one.io_config.io_slots)
                        for one in servers
                    ],
                )
                self.assertFalse(any(one.pfc_ports for one in servers))

    def test_card_that_was_not_read_may_have_ports(self):
        # The second is captured in fake_vios_mappings.txt, with a card in it.
        for pci_class, description, expected in (
            (0xFFFF, 'Unknown', True),
            (0, 'Unknown', True),
            (None, 'Unknown', True),
            (0xFFFF, 'Empty slot', False),
            (0x0200, '4-Port Gigabit Ethernet Adapter', False),
        ):
            slot = mock.Mock(pci_class=pci_class, description=description)
            with self.subTest(pci_class=pci_class, description=description):
                self.assertEqual(
                    expected, volume_mappings.may_have_ports([slot])
                )


class NodeNameTest(unittest.TestCase):
    def port(self):
        """Return a recorded port, the only kind with the name of a node."""
        feed = pvmhttp.load_pvm_resp('vfc_client_adapter_feed.txt').response
        adapter = storage.VFCClientAdapter.wrap(feed)[0]
        return base_partition.PhysFCPort.wrap(
            adapter.element.find('ServerAdapter/PhysicalPort')
        )

    def test_node_has_the_name_that_rest_has(self):
        self.assertEqual(
            '20000024ff64eb60', volume_mappings.node_name(self.port())
        )

    def test_node_without_a_name_has_that_of_the_port(self):
        port = self.port()
        port.element.remove(port.element.find('WWNN'))
        self.assertEqual('21000024ff64eb60', volume_mappings.node_name(port))
