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

"""Which bridge serves which physical network."""

import unittest

import ddt
from oslo_config import cfg

from nova_powervm import conf
from nova_powervm import exception
from nova_powervm.lpar import shared_ethernet

Name = shared_ethernet.BridgeName


def read_mappings(value):
    """Read the option as nova-compute does."""
    values = cfg.ConfigOpts()
    values([], project='nova', default_config_files=[])
    conf.register_opts(values)
    opt = {opt.dest: opt for _, opts in conf.list_opts() for opt in opts}[
        'bridge_mappings'
    ]
    values.set_override('bridge_mappings', opt.type(value), group='powervm')
    try:
        return conf.powervm.read_settings(values.powervm).bridge_mappings
    finally:
        # oslo.config keeps it with the group, which all share.
        values.clear_override('bridge_mappings', group='powervm')


@ddt.ddt
class BridgeMappingsTest(unittest.TestCase):
    @ddt.named_data(
        ['none', '', {}],
        ['one', 'default:ETHERNET0', {'default': Name('ETHERNET0', None)}],
        [
            'two',
            'default:ETHERNET0, storage:ETHERNET1/4093',
            {
                'default': Name('ETHERNET0', None),
                'storage': Name('ETHERNET1', 4093),
            },
        ],
        [
            'name as the host has it',
            'default:ETHERNET0(Default)/1',
            {'default': Name('ETHERNET0(Default)', 1)},
        ],
        [
            'two networks of one bridge',
            'a:ETHERNET0,b:ETHERNET0',
            {'a': Name('ETHERNET0', None), 'b': Name('ETHERNET0', None)},
        ],
    )
    def test_valid_mapping_is_read(self, value, expected):
        self.assertEqual(expected, read_mappings(value))

    @ddt.named_data(
        ['no switch', 'default'],
        ['empty switch', 'default:'],
        ['empty network', ':ETHERNET0'],
        ['a VLAN that is none', 'default:ETHERNET0/x'],
        ['a VLAN that is too large', 'default:ETHERNET0/12345'],
        ['two VLANs', 'default:ETHERNET0/1/2'],
        ['no VLAN', 'default:ETHERNET0/'],
        ['VLAN 0', 'default:ETHERNET0/0'],
        ['VLAN 4095', 'default:ETHERNET0/4095'],
    )
    def test_invalid_mapping_is_refused(self, value):
        with self.assertRaises(exception.ConfigurationError) as caught:
            read_mappings(value)
        self.assertIn(
            f"[powervm]bridge_mappings: '{value}' is malformed",
            str(caught.exception),
        )

    def test_network_mapped_twice_is_refused(self):
        with self.assertRaises(exception.ConfigurationError) as caught:
            read_mappings('default:ETHERNET0,default:ETHERNET1')
        self.assertIn(
            "'default:ETHERNET1' maps a physical network twice",
            str(caught.exception),
        )
