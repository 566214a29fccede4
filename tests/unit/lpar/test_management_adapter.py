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

import ipaddress
import unittest

from oslo_utils import netutils

from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import shared_ethernet
from nova_powervm.lpar import virtual_slots

LPAR, OTHER = 'AB' * 16, 'CD' * 16


class AddressTest(unittest.TestCase):
    def test_address_follows_from_uuid_and_is_local_and_of_one_station(self):
        first = management_adapter.port(LPAR).mac
        self.assertEqual(first, management_adapter.port(LPAR.lower()).mac)
        self.assertNotEqual(first, management_adapter.port(OTHER).mac)
        self.assertEqual(0b10, int(first[:2], 16) & 0b11)
        self.assertRegex(first, '^([0-9a-f]{2}:){5}[0-9a-f]{2}$')

    def test_link_local_address_is_that_of_the_interface(self):
        mac = management_adapter.port(LPAR).mac
        (network,) = management_adapter.describe(None, mac)['networks']
        self.assertEqual(
            str(netutils.get_ipv6_addr_by_EUI64('fe80::', mac)),
            network['ip_address'],
        )
        self.assertTrue(
            ipaddress.ip_address(network['ip_address']).is_link_local
        )

    def test_networks_of_ports_stay_in_front(self):
        data = {'links': [1], 'networks': [2], 'services': [3]}
        found = management_adapter.describe(data, '06:00:00:00:00:01')
        self.assertEqual([1, 2, 3], [found[key][0] for key in data])
        self.assertEqual([1], data['links'])


class ChoiceTest(unittest.TestCase):
    """Servers keep their adapters; others get one when they are new."""

    def test_server_gets_adapter_by_choice_record_and_newness(self):
        # Recorded, new: the choices that give the server an adapter.
        for recorded, new, expected in (
            (False, False, ['all']),
            (False, True, ['new', 'all']),
            (True, False, ['new', 'all', 'none']),
            (True, True, ['new', 'all', 'none']),
        ):
            for starts in (True, False):
                with self.subTest(recorded=recorded, new=new, starts=starts):
                    found = [
                        choice.value
                        for choice in management_adapter.Choice
                        if management_adapter.adds(
                            choice,
                            is_recorded=recorded,
                            is_new=new,
                            starts=starts,
                        )
                    ]
                    self.assertEqual(expected if starts else [], found)


class AdapterTest(unittest.TestCase):
    def test_adapter_of_tenant_with_same_address_is_no_management_adapter(
        self,
    ):
        mac = management_adapter.port(LPAR).mac
        for adapter, expected in (
            (shared_ethernet.Adapter(mac, 4094, 'MGMTSWITCH'), True),
            (shared_ethernet.Adapter(mac, 4094, 'ETHERNET0'), False),
            (network_ports.Adapter(mac), False),
            (
                shared_ethernet.Adapter('06:00:00:00:00:01', 1, 'MGMTSWITCH'),
                False,
            ),
        ):
            self.assertIs(
                expected, management_adapter.is_adapter(adapter, LPAR)
            )

    def test_slot_is_above_those_of_ports_and_below_those_of_storage(self):
        self.assertGreater(management_adapter.SLOT, max(virtual_slots.ALL))
        own = management_adapter.port(LPAR).mac
        for slots, expected in (
            ({}, True),
            ({own: 31}, True),
            ({'fa:16:3e:00:00:01': 30}, True),
            ({'fa:16:3e:00:00:01': 31}, False),
            ({'volume@0': 31}, False),
        ):
            with self.subTest(slots=slots):
                self.assertIs(
                    expected, management_adapter.has_room(LPAR, slots)
                )
