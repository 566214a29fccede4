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

import configparser
import dataclasses
import pathlib
import tempfile
import unittest

from nova.conf import scheduler
from oslo_config import cfg

from demo import config
from demo import stack
from nova_powervm.scheduler import filters
from tests.unit.demo import samples


def _parsed(render):
    parser = configparser.RawConfigParser()
    full = samples.with_cinder(samples.a_stack_with_cyborg())
    parser.read_string(config.ini(render(full)))
    return parser


def _own(parser, section):
    """Return the options of a section without those of all sections."""
    return {
        key: value
        for key, value in parser[section].items()
        if key not in parser.defaults()
    }


class ConfigFilesTest(unittest.TestCase):
    def test_cloud_of_one_host_resizes_in_place(self):
        option = 'allow_resize_to_same_host'
        one, two = (
            config.nova(stack)['DEFAULT']
            for stack in (samples.a_stack(), samples.a_stack_with_two_hosts())
        )
        self.assertIs(True, one[option])
        self.assertNotIn(option, two)

    def test_placement_conf_limits_candidates(self):
        placement = _parsed(config.placement)
        self.assertEqual(
            {
                'max_allocation_candidates': '1000',
                'allocation_candidates_generation_strategy': 'breadth-first',
            },
            _own(placement, 'placement'),
        )
        option = 'optimize_for_wide_provider_trees'
        self.assertTrue(placement['workarounds'].getboolean(option))

    def test_nova_conf_adds_filter_to_those_of_nova(self):
        written = _own(_parsed(config.nova), 'filter_scheduler')
        default = cfg.ConfigOpts()
        scheduler.register_opts(default)
        self.assertEqual(
            [
                *default.filter_scheduler.enabled_filters,
                filters.PowerVMDeviceOrderFilter.__name__,
            ],
            written['enabled_filters'].split(','),
        )
        available = f'{filters.__name__}.{filters.all_filters.__name__}'
        self.assertEqual(available, written['available_filters'])

    def test_services_share_the_broker_but_no_password_or_database(self):
        url = samples.a_stack_with_cyborg().transport_url
        for user, render in (
            ('glance', config.glance),
            ('neutron', config.neutron),
            ('nova', config.nova),
            ('placement', config.placement),
            ('cyborg', config.cyborg),
            ('cinder', config.cinder),
        ):
            parsed = _parsed(render)
            section = parsed['keystone_authtoken']
            self.assertEqual(user, section['username'])
            self.assertEqual(f'{user}-secret', section['password'])
            if user != 'placement':
                self.assertEqual(url, parsed.defaults()['transport_url'])
        databases = {
            section['connection']
            for render in config.FILES.values()
            for section in _parsed(render).values()
            if 'connection' in section
        }
        self.assertEqual(8, len(databases))

    def test_nova_conf_has_no_password_of_the_rest_api(self):
        self.assertEqual(
            {
                'rest_url': 'http://127.0.0.1:29999',
                'management_root': '/management-9',
                'inventory_file': '/state/etc/inventory.yaml',
                'volume_group_name': 'image_pool',
            },
            _own(_parsed(config.nova), 'powervm'),
        )

    def test_cyborg_conf_has_driver_files_and_provider(self):
        cyborg = _parsed(config.cyborg)
        self.assertEqual(stack.NODE, cyborg.defaults()['host'])
        self.assertEqual(
            {
                'enabled_drivers': 'powervm',
                'resource_provider_name': stack.NODE,
            },
            _own(cyborg, 'agent'),
        )
        self.assertEqual(
            {
                'rest_url': 'http://127.0.0.1:29999',
                'rest_username': 'user',
                'rest_password': 'rest-secret',
                'inventory_file': '/state/etc/inventory.yaml',
                'accelerator_file': '/state/etc/accelerators.yaml',
            },
            _own(cyborg, 'powervm'),
        )

    def test_nova_knows_of_cinder_only_if_it_is_there(self):
        self.assertEqual('cinder', _parsed(config.nova)['cinder']['username'])
        self.assertNotIn('cinder', config.nova(samples.a_stack()))

    def test_files_of_cyborg_and_cinder_are_written_with_them_only(self):
        without = samples.a_stack
        with_it = samples.a_stack_with_cyborg
        for make, change, names in (
            (without, lambda found: found, set()),
            (with_it, lambda found: found, {config.CYBORG}),
            (without, samples.with_cinder, {config.CINDER}),
        ):
            with tempfile.TemporaryDirectory() as directory:
                made = change(make(pathlib.Path(directory)))
                prefix = pathlib.Path(directory) / 'prefix'
                paste = prefix / 'etc/nova/api-paste.ini'
                paste.parent.mkdir(parents=True)
                paste.touch()
                made.etc.mkdir()

                config.write(dataclasses.replace(made, prefix=prefix))

                written = {path.name for path in made.etc.iterdir()}
                either = {config.CYBORG, config.CINDER}
                self.assertEqual(names, written & either)


class TwoHostsTest(unittest.TestCase):
    """The files of a cloud in which each nova-compute has its process."""

    def setUp(self):
        super().setUp()
        self.stack = samples.a_stack_with_two_hosts()
        self.files = [
            config.nova_compute(self.stack, compute)
            for compute in self.stack.computes
        ]

    def test_computes_share_nothing_that_belongs_to_one_host(self):
        first, second = self.files
        for section, *keys in (
            ('DEFAULT', 'host', 'my_ip', 'state_path', 'log_file'),
            ('powervm', 'rest_url', 'management_root', 'inventory_file'),
            ('oslo_concurrency', 'lock_path'),
        ):
            for key in keys:
                with self.subTest(key):
                    self.assertNotEqual(
                        first[section][key], second[section][key]
                    )
        for sections in self.files:
            self.assertNotIn('database', sections)
            self.assertNotIn('api_database', sections)

    def test_services_without_driver_look_for_hosts(self):
        nova = config.nova(self.stack)

        self.assertNotIn('powervm', nova)
        self.assertNotIn('compute_driver', nova['DEFAULT'])
        self.assertEqual(0, nova['DEFAULT']['periodic_fuzzy_delay'])
        self.assertEqual(
            {'discover_hosts_in_cells_interval': 1}, nova['scheduler']
        )

    def test_only_compute_reads_the_file_of_nova(self):
        one = samples.a_stack()
        for made, number, name in (
            (one, 0, 'nova.conf'),
            (self.stack, 1, 'nova-compute-2.conf'),
        ):
            path = config.compute_file(made, made.computes[number])
            self.assertEqual(pathlib.Path('/state/etc', name), path)
