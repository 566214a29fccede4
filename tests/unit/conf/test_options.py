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

"""Values of options, and what is refused."""

import dataclasses
import ipaddress
import types
import unittest
from collections.abc import Sequence

import ddt
from oslo_config import cfg

from nova_powervm import conf
from nova_powervm import exception
from nova_powervm.conf import fields
from nova_powervm.conf import powervm as options
from nova_powervm.lpar import shared_ethernet


def read(*clients):
    """Return the settings of a service with allowed clients."""
    made = cfg.ConfigOpts()
    conf.register_opts(made)
    made.set_override('vnc_allowed_clients', clients, group='powervm')
    return options.read_settings(made.powervm)


@ddt.ddt
class AllowedClientsTest(unittest.TestCase):
    def test_addresses_and_networks_are_read(self):
        networks = ['192.0.2.10', '198.51.100.0/24', '2001:db8::/64']
        self.assertEqual(
            [ipaddress.ip_network(one) for one in networks],
            read(*networks).vnc_allowed_clients,
        )

    @ddt.data('proxy.example.org', '192.0.2.1/24', '192.0.2.256', '')
    def test_read_refuses_other_values_by_name(self, value):
        with self.assertRaises(exception.ConfigurationError) as caught:
            read('192.0.2.10', value)
        self.assertIn('[powervm]vnc_allowed_clients', str(caught.exception))
        self.assertIn(f"'{value}'", str(caught.exception))


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


@dataclasses.dataclass(frozen=True)
class Login:
    user: str | None = fields.option(cfg.StrOpt, 'rest_user')
    secret: str = fields.option(cfg.StrOpt, secret=True, default='hidden')


@dataclasses.dataclass(frozen=True)
class Settings:
    words: Sequence[str] = fields.option(
        cfg.ListOpt, default=['b', 'a'], parse=sorted
    )
    login: Login = dataclasses.field(default_factory=Login)
    size: int = fields.option(cfg.IntOpt, default=1, min=0)
    other: int = 7


class FieldsTest(unittest.TestCase):
    def read(self, dataclass, values, **others):
        """Return the settings of a configuration with some values."""
        conf = cfg.ConfigOpts()
        options = [*fields.options_of(Settings)]
        fields.register(conf, cfg.OptGroup('any'), options)
        for name, value in values.items():
            conf.set_override(name, value, group='any')
        return fields.read(dataclass, conf.any, **others)

    def test_dataclass_has_options_in_order(self):
        options = [*fields.options_of(Settings)]
        self.assertEqual(
            ['words', 'rest_user', 'secret', 'size'],
            [option.name for option in options],
        )
        self.assertEqual(0, options[-1].type.min)

    def test_defaults_of_options_are_those_of_fields(self):
        self.assertEqual(Settings(), self.read(Settings, {}))
        self.assertEqual(['a', 'b'], Settings().words)

    def test_read_takes_values_by_names_of_options(self):
        values = {'words': ['y', 'x'], 'rest_user': 'admin', 'size': 3}
        self.assertEqual(
            Settings(['x', 'y'], Login('admin'), 3),
            self.read(Settings, values),
        )

    def test_read_leaves_out_what_is_given(self):
        group = types.SimpleNamespace(rest_user='admin')
        self.assertEqual(
            Login('admin', 'given'), fields.read(Login, group, secret='given')
        )

    def test_secrets_are_not_shown(self):
        self.assertNotIn('hidden', repr(Settings()))


_CREDENTIALS = {'username': 'admin', 'password': 'secret'}


@ddt.ddt
class ServerCheckTest(unittest.TestCase):
    @ddt.data(
        {},
        {'url': 'http://127.0.0.1:12080'},
        {'url': 'http://127.8.9.10'},
        {'url': 'http://[::1]:12080'},
        {'url': 'http://localhost:12080'},
        {'url': 'http://127.0.0.1:12080', **_CREDENTIALS},
        {'url': 'https://novalink.example.org', **_CREDENTIALS},
    )
    def test_check_accepts(self, values):
        options.check_server(options.Server(**values))

    @ddt.data(
        {'url': 'https://127.0.0.1:12443'},
        {'url': 'http://192.0.2.1:12080'},
        {'url': 'http://0.0.0.0:12080'},
        {'url': 'http://localhost.example.org:12080'},
        {'url': 'http://127.0.0.1.example.org:12080'},
        {'url': 'http://127.0.0.1:12080', 'username': 'admin'},
        {'url': 'http://127.0.0.1:12080', 'password': 'secret'},
    )
    def test_check_refuses_missing_credentials(self, values):
        with self.assertRaises(exception.ConfigurationError) as caught:
            options.check_server(options.Server(**values))
        self.assertIn('loopback address', str(caught.exception))
        self.assertNotIn('secret', str(caught.exception))
