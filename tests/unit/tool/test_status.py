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

"""The results of single checks of nova-powervm-status."""

import importlib.metadata
import inspect
import io
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

import fixtures
from oslo_upgradecheck import upgradecheck

from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.scheduler import filters as scheduler_filters
from nova_powervm.tool import exit_codes
from nova_powervm.tool import status
from nova_powervm.tool.check import app as check_app
from nova_powervm.tool.clean import app as clean_app
from nova_powervm.tool.inventory import app as inventory_app
from nova_powervm.tool.inventory import config
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values
from tests.unit.docs import pages

ONE_TIME = policies.Policy(
    (policies.Paragraph('gpus', {'vendor_id': '10DE'}, one_time_use=True),)
)

FILTER = scheduler_filters.PowerVMDeviceOrderFilter.__name__


def node(devices):
    """Make a compute node with so many GPUs."""
    root = placement_tree.Provider('root', 'host1', None, 0)
    return placement_tree.Tree(
        'host1',
        root,
        tuple(
            placement_tree.Provider(
                f'uuid{number}',
                names.provider_name('host1', number),
                'root',
                0,
                {'CUSTOM_GPU': values.record()},
            )
            for number in range(devices)
        ),
    )


class UpgradeChecksTest(unittest.TestCase):
    def assert_result(self, code, words, result):
        self.assertEqual(code, result.code, result.details)
        self.assertIn(words, result.details or '')

    def test_inventory_file_without_devices_is_a_warning(self):
        result = status.check_inventory_file(policies.Policy(source='none'))
        self.assert_result(status.Code.WARNING, 'no device is offered', result)

    def test_host_that_does_not_report_owners_is_a_warning(self):
        host = host_reader.HostReading(None, 'host', derives_owners=True)
        words = 'ioslot_owner_assignment_capable'
        result = status.check_slot_ownership(host)
        self.assert_result(status.Code.WARNING, words, result)

    def test_placement_older_than_14_is_a_failure(self):
        result = status.check_placement_release('1.36', ONE_TIME)
        self.assert_result(status.Code.FAILURE, 'older than 14.0', result)

    def test_unknown_placement_release_is_a_warning_for_one_time_use(self):
        def missing(name):
            raise status.importlib.metadata.PackageNotFoundError(name)

        patch = fixtures.MockPatch('importlib.metadata.version', missing)
        patch.setUp()
        self.addCleanup(patch.cleanUp)
        for policy, code, words in (
            (ONE_TIME, status.Code.WARNING, 'pip show openstack-placement'),
            (policies.Policy(), status.Code.SUCCESS, 'does not tell the rel'),
            (None, status.Code.SUCCESS, 'before the inventory file can be'),
        ):
            result = status.check_placement_release('1.39', policy)
            self.assert_result(code, words, result)

    def test_short_provider_names_are_a_warning(self):
        long = [names.provider_name('host1', 1)]
        short = [names.provider_name('', i, 'spec') for i in range(5)]
        for found, style, code, words in (
            (long, 'node', status.Code.SUCCESS, ''),
            (long, 'spec', status.Code.WARNING, '= spec'),
            (long + short, 'node', status.Code.WARNING, 'and 2 more'),
        ):
            result = status.check_provider_names(found, style)
            self.assert_result(code, words, result)

    def test_eight_equal_devices_are_a_warning(self):
        for number, code, words in (
            (7, status.Code.SUCCESS, ''),
            (8, status.Code.WARNING, '8 CUSTOM_GPU on one host'),
        ):
            result = status.check_candidate_limits(node(number))
            self.assert_result(code, words, result)

    def test_scheduler_without_filter_is_a_warning(self):
        database = '[api_database]\nconnection = mysql://\n'
        filters = '[filter_scheduler]\nenabled_filters = ComputeFilter'
        for text, code, words in (
            ('', status.Code.SUCCESS, 'another configuration'),
            (filters, status.Code.SUCCESS, 'another configuration'),
            (database, status.Code.WARNING, 'all_filters'),
            (database + filters, status.Code.WARNING, 'all_filters'),
            (
                f'{database}{filters},{FILTER}\n',
                status.Code.SUCCESS,
                '',
            ),
        ):
            with self.subTest(text):
                result = status.check_scheduler_filter(self.nova_conf(text))
                self.assert_result(code, words, result)

    def test_live_migrations_wait_for_nothing(self):
        option = '[compute]\nlive_migration_wait_for_vif_plug = {}\n'.format
        for text, code, words in (
            ('', status.Code.SUCCESS, ''),
            (option('false'), status.Code.SUCCESS, ''),
            (option('true'), status.Code.WARNING, 'Remove it'),
        ):
            with self.subTest(text):
                result = status.check_live_migrations(self.nova_conf(text))
                self.assert_result(code, words, result)

    def nova_conf(self, text):
        """Read a configuration of Nova."""
        directory = self.enterContext(fixtures.TempDir())
        path = os.path.join(directory.path, 'nova.conf')
        with open(path, 'w') as file:
            file.write(text)
        conf = config.declare_options()
        config.parse_config(conf, [], [path])
        return conf

    def test_scheduler_options_are_compared_with_size_of_cloud(self):
        shuffle = 'shuffle_best_same_weighed_hosts = true\n'
        limit = '[scheduler]\nmax_placement_results = {}\n'.format
        options = '[filter_scheduler]\n'
        for nodes, text, code, words in (
            # A small cloud needs nothing.
            (9, '', status.Code.SUCCESS, 'placement.conf is not visible'),
            (100, '', status.Code.WARNING, 'set [filter_scheduler]shuffle_be'),
            (100, options + shuffle, status.Code.SUCCESS, '= 1000'),
            (
                100,
                f'{options}host_subset_size = 5\n',
                status.Code.SUCCESS,
                '= 1000',
            ),
            (
                1000,
                options + shuffle,
                status.Code.WARNING,
                '[scheduler]max_placement_results = 1000 is less than 4 for '
                'each of 1000 compute nodes',
            ),
            (
                1000,
                limit(4000),
                status.Code.WARNING,
                'set [filter_scheduler]shuffle_be',
            ),
            (
                1000,
                limit(4000) + options + shuffle,
                status.Code.SUCCESS,
                '[placement]max_allocation_candidates = 8000',
            ),
        ):
            with self.subTest(nodes=nodes, text=text):
                conf = self.nova_conf(text)
                result = status.check_scheduler_options(conf, nodes)
                self.assert_result(code, words, result)

    def test_scheduler_is_seen_by_its_database(self):
        for text, expected in (
            ('', False),
            ('[filter_scheduler]\nhost_subset_size = 1\n', False),
            ('[api_database]\nconnection = mysql://\n', True),
        ):
            conf = self.nova_conf(text)
            self.assertIs(expected, status.sees_scheduler(conf))


_COMMANDS = {
    entry.name.replace('_', ' '): entry.load()
    for entry in importlib.metadata.entry_points(group=inventory_app.NAMESPACE)
}


def rows():
    """Yield each command of nova-powervm-inventory with its codes."""
    for commands, codes in exit_codes.TABLE[inventory_app.NAME].items():
        for name in commands.split(', '):
            if name != 'all':
                yield name, codes


def used_by(module):
    """Return the codes that a module names, or that its base class sets."""
    source = inspect.getsource(module)
    named = set(re.findall(r'exit_codes\.([A-Z_]+)', source)) - {'TABLE'}
    if 'self.is_agreed(' in source:
        named.add('REFUSED')
    return {getattr(exit_codes, name) for name in named}


class ExitCodesTest(unittest.TestCase):
    def test_table_has_every_command(self):
        self.assertEqual(sorted(_COMMANDS), sorted(name for name, _ in rows()))

    def test_commands_use_the_codes_of_their_rows(self):
        for name, codes in rows():
            command = _COMMANDS[name]
            used = used_by(sys.modules[command.__module__])
            with self.subTest(name):
                self.assertEqual(
                    set(codes),
                    used | {exit_codes.SUCCESS, command.trouble},
                )

    def test_services_use_the_codes_of_their_rows(self):
        checks = {int(code) for code in upgradecheck.Code}
        usage = {exit_codes.USAGE}
        for module, codes in (
            (check_app, usage),
            (clean_app, set()),
            (status, checks),
        ):
            with self.subTest(module.NAME):
                self.assertEqual(
                    set(exit_codes.TABLE[module.NAME]['']),
                    used_by(module) | codes,
                )

    def test_help_tells_the_codes_of_its_row(self):
        told = 0
        for name, codes in rows():
            text = ' '.join((_COMMANDS[name].__doc__ or '').split())
            for sentence in re.split(r'(?<=\.) ', text):
                if 'exit code' in sentence or 'exits with' in sentence:
                    numbers = set(map(int, re.findall(r'\b\d\b', sentence)))
                    told += len(numbers)
                    with self.subTest(name):
                        self.assertLessEqual(numbers, set(codes))
        self.assertGreater(told, 10)

    def test_manual_pages_have_the_table(self):
        for program in exit_codes.TABLE:
            page = pages.documents()[f'cli/{program}']
            self.assertIn(f'\n.. exit-codes:: {program}\n', page)


class UnusableConfigurationTest(unittest.TestCase):
    def test_unusable_configuration_file_is_named_and_ends_with_255(self):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(directory, 'nova.conf')
        with open(path, 'wb') as file:
            file.write(b'# \xe9\n')
        for name in ('/nowhere', path):
            err = io.StringIO()
            with mock.patch('sys.stderr', err):
                code = status.main(['--config-file', name, 'upgrade', 'check'])
            self.assertEqual(255, code)
            self.assertIn(name, err.getvalue())
            self.assertEqual(1, err.getvalue().count('\n'))
