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


"""A config drive in cloud-init's own hands: see tools/cloud-init.sh."""

import base64
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml
from oslo_utils import netutils

from nova_powervm.lpar import management_adapter
from tests.functional import test_config_drives
from tests.functional import test_management
from tests.unit.docs import pages

_PROCESSES = pathlib.Path(__file__).parents[1] / 'processes'
_PACKAGES = 'usr/lib/python3/dist-packages'


def _subnet(number, cidr, **changes):
    """Return what differs in a subnet without DHCP and gateway."""
    return {
        'id': f'00000000-0000-0000-0000-{number:012}',
        'ip_version': 6 if ':' in cidr else 4,
        'enable_dhcp': False,
        'gateway_ip': None,
        'cidr': cidr,
        **changes,
    }


STATIC = _subnet(
    1,
    '10.20.0.0/24',
    gateway_ip='10.20.0.1',
    dns_nameservers=['10.20.0.2'],
    host_routes=[{'destination': '172.16.0.0/16', 'nexthop': '10.20.0.9'}],
)
STATIC6 = _subnet(2, '2001:db8:20::/64', gateway_ip='2001:db8:20::1')
INNER = _subnet(3, '10.30.0.0/24')


class CloudInitTest(test_config_drives.ConfigDriveTestCase):
    """A server has ports with DHCP, static addresses, and no gateway.

    Its management adapter has a link-local address.
    """

    def world(self):
        return test_management.world(1)

    def make_ports(self):
        dhcp, slaac = self.neutron.subnet_1, self.neutron.subnet_ipv6_1
        static = [dhcp | changes for changes in (STATIC, STATIC6, INNER)]
        self.subnets = {one['id']: one for one in (dhcp, slaac, *static)}
        # Nova's own stand-in shows all subnets to every port.
        self.neutron.list_subnets = self.list_subnets
        return [
            self.make_port(
                fixed_ips=[
                    {'subnet_id': subnet['id'], 'ip_address': address}
                    for subnet, address in addresses
                ]
            )
            for addresses in (
                [(dhcp, '192.168.1.77'), (slaac, 'fd37:44e8:ad06::77')],
                [(STATIC, '10.20.0.77'), (STATIC6, '2001:db8:20::77')],
                [(INNER, '10.30.0.77')],
            )
        ]

    def list_subnets(self, retrieve_all=True, **search):
        found = [self.subnets[one] for one in search['id']]
        return {'subnets': copy.deepcopy(found)}

    def read_by_cloud_init(self):
        """Have cloud-init read the drive in this server's LPAR."""
        code = os.environ['CLOUD_INIT']
        with tempfile.NamedTemporaryFile(suffix='.iso') as iso:
            iso.write(self.read.data)
            iso.flush()
            done = subprocess.run(
                [sys.executable, '-W', 'ignore', '-m', 'cloud_init'],
                input=json.dumps({'iso': iso.name, 'names': self.names}),
                check=False,
                capture_output=True,
                text=True,
                timeout=120,
                env=os.environ
                | {'PYTHONPATH': f'{_PROCESSES}:{code}/{_PACKAGES}'},
            )
        return done

    def test_config_drive_configures_guest(self):
        self.boot_with_everything()
        # As Linux names virtual adapters: by slot.
        self.names = {
            adapter['mac']: f'env{adapter["slot"]}'
            for adapter in self.adapters(self.server)
        }
        self.management = [
            adapter
            for adapter in self.adapters(self.server)
            if adapter['switch'] == management_adapter.SWITCH
        ]
        done = self.read_by_cloud_init()
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        with self.subTest('cloud-init chooses config drive'):
            self.assertEqual(
                'datasource_list: [ ConfigDrive, None ]', found['chosen']
            )
            self.assertEqual([], found['warnings'])
        with self.subTest('cloud-init knows server'):
            self.assertEqual(
                {
                    'instance_id': self.server['id'],
                    'keys': [self.key],
                    'user_data': _base64(test_config_drives.USER_DATA),
                },
                found['read'],
            )
            self.assertEqual(
                {'/etc/motd': _base64(b'welcome')}, found['injected']
            )
        with self.subTest('page on AIX has the module and its command'):
            page = pages.documents()['admin/aix']
            self.assertIn('``reset_rmc``', page)
            code = pathlib.Path(os.environ['CLOUD_INIT'], _PACKAGES)
            module = code / 'cloudinit' / 'config' / 'cc_reset_rmc.py'
            (path,) = re.findall('RSCT_PATH = "(.+)"', module.read_text())
            self.assertIn(f'# {path}/recfgct', page)
        with self.subTest('plain names are those of the files'):
            self.assertEqual(
                {
                    # In capitals, and with what ISO 9660 allows.
                    path.upper().replace('-', '_'): _base64(data)
                    for path, data in self.read.files.items()
                },
                {
                    path.partition(';')[0].removesuffix('.'): data
                    for path, data in found['plain'].items()
                },
            )
        with self.subTest('netplan has each port by its MAC address'):
            (text,) = found['rendered'].pop('netplan').values()
            self.check_netplan(yaml.safe_load(text)['network']['ethernets'])
        for name, files in found['rendered'].items():
            with self.subTest(f'{name} has each port'):
                self.check_files('\n'.join(files.values()).lower())
        with self.subTest('a drive that names a missing adapter stops it'):
            # So the adapter must be there as long as a drive names it.
            (own,) = self.management
            del self.names[own['mac']]
            done = self.read_by_cloud_init()
            self.assertNotEqual(0, done.returncode)
            self.assertIn('Unable to find a system nic', done.stderr)

    def check_netplan(self, interfaces):
        """Verify how each interface is found, and its addresses."""
        dhcp, static, inner = (
            interfaces[self.names[port['mac_address']]] for port in self.ports
        )
        self.assertEqual(
            [port['mac_address'] for port in self.ports],
            [one['match']['macaddress'] for one in (dhcp, static, inner)],
        )
        self.assertTrue(dhcp['dhcp4'])
        self.assertNotIn('addresses', dhcp)
        self.assertEqual(
            ['10.20.0.77/24', '2001:db8:20::77/64'], static['addresses']
        )
        self.assertIn(
            {'to': '172.16.0.0/16', 'via': '10.20.0.9'}, static['routes']
        )
        self.assertEqual(['10.20.0.2'], static['nameservers']['addresses'])
        self.assertEqual(['10.30.0.77/24'], inner['addresses'])
        self.assertNotIn('routes', inner)
        (adapter,) = self.management
        own = interfaces[self.names[adapter['mac']]]
        self.assertEqual(adapter['mac'], own['match']['macaddress'])
        address = netutils.get_ipv6_addr_by_EUI64('fe80::', adapter['mac'])
        self.assertEqual([f'{address}/64'], own['addresses'])
        self.assertNotIn('routes', own)

    def check_files(self, text):
        """Verify that files name all interfaces and static addresses."""
        addresses = ('10.20.0.77', '2001:db8:20::77', '10.30.0.77')
        for wanted in (*self.names, *self.names.values(), *addresses):
            self.assertIn(wanted, text)
        self.assertNotIn('192.168.1.77', text)


def _base64(data):
    return base64.b64encode(data).decode()
