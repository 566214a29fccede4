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

"""The support matrix agrees with the driver, and names tests."""

import configparser
import dataclasses
import inspect
import re
import unittest
from importlib import metadata

from nova.virt import driver as nova_driver

from nova_powervm.virt import driver
from tests.unit.docs import pages
from tests.unit.docs import test_spec_coverage

FILE = pages.SOURCE / 'support-matrix.ini'
PAGE = 'admin/support-matrix'

_DRIVER = 'driver.powervm'
_NOTE = 'driver-notes.powervm'
_LIST = re.compile(r'(?:^|(?<= ))Tests: (?P<names>tests(?:[\w.]|, )+)\.$')
# Methods of tests, and the stories that a test tells one after the other.
_NAMES_ONE = re.compile(r'\.test_\w+\.\w+\.(test|story)_\w+$')

#: The sections of the matrix of nova 34.0.0: the rest of their names by group.
_NOVA = {
    'console': """
        rdp serial.interactive serial.log spice vnc
    """,
    'guest': """
        disk.autoconfig disk.rate-limit setup.configdrive setup.inject.file
        setup.inject.networking
    """,
    'operation': """
        abort-in-progress-live-migration attach-interface
        attach-tagged-interface attach-tagged-volume attach-volume
        boot-emulated-tpm boot-encrypted-vm boot-stateless-firmware
        cache-images detach-interface detach-volume device-tags
        encrypted-volume evacuate extend-volume file-backed-memory
        force-live-migration-to-complete get-guest-info get-host-ip
        get-host-uptime launch live-migrate maintenance-mode
        multiattach-volume pause port-with-resource-request quiesce reboot
        rebuild rebuild-volume-backed report-cpu-traits rescue resize resume
        set-admin-password snapshot suspend swap-volume terminate
        trigger-crash-dump trusted-certs uefi-boot unpause unquiesce
    """,
    'storage': """
        block block.backend.fibrechannel block.backend.iscsi
        block.backend.iscsi.auth.chap image
    """,
}
NOVA = frozenset(
    f'{group}.{name}'
    for group, names in _NOVA.items()
    for name in names.split()
)

#: Capability of the driver that a row stands and falls with.
CAPABILITIES = {
    'device.cyborg-arq': 'supports_accelerators',
    'device.evacuate': 'supports_evacuate',
    'operation.attach-interface': 'supports_attach_interface',
    'operation.attach-tagged-interface': 'supports_tagged_attach_interface',
    'operation.attach-tagged-volume': 'supports_tagged_attach_volume',
    'operation.boot-emulated-tpm': 'supports_vtpm',
    'operation.device-tags': 'supports_device_tagging',
    'operation.evacuate': 'supports_evacuate',
    'operation.extend-volume': 'supports_extend_volume',
    'operation.file-backed-memory': 'supports_mem_backing_file',
    'operation.multiattach-volume': 'supports_multiattach',
    'operation.trusted-certs': 'supports_trusted_certs',
    'storage.image': 'supports_image_type_raw',
}

#: Method that a row can't do without, and that Nova leaves to drivers.
METHODS = {
    'operation.cache-images': 'cache_image',
    'console.serial.interactive': 'get_serial_console',
    'console.serial.log': 'get_console_output',
    'console.spice': 'get_spice_console',
    'console.vnc': 'get_vnc_console',
    'device.cold-migrate': 'migrate_disk_and_power_off',
    'device.live-migrate': 'live_migration',
    'device.passthrough.slot': 'update_provider_tree',
    'device.rescue': 'rescue',
    'device.resize': 'finish_migration',
    'device.shelve': 'snapshot',
    'operation.abort-in-progress-live-migration': 'live_migration_abort',
    'operation.attach-interface': 'attach_interface',
    'operation.attach-volume': 'attach_volume',
    'operation.detach-interface': 'detach_interface',
    'operation.detach-volume': 'detach_volume',
    'operation.extend-volume': 'extend_volume',
    'operation.force-live-migration-to-complete': (
        'live_migration_force_complete'
    ),
    'operation.get-guest-info': 'get_info',
    'operation.get-host-ip': 'get_host_ip_addr',
    'operation.get-host-uptime': 'get_host_uptime',
    'operation.launch': 'spawn',
    'operation.live-migrate': 'live_migration',
    'operation.maintenance-mode': 'host_maintenance_mode',
    'operation.pause': 'pause',
    'operation.quiesce': 'quiesce',
    'operation.reboot': 'reboot',
    'operation.rescue': 'rescue',
    'operation.resize': 'finish_migration',
    'operation.resume': 'resume',
    'operation.set-admin-password': 'set_admin_password',
    'operation.snapshot': 'snapshot',
    'operation.suspend': 'suspend',
    'operation.swap-volume': 'swap_volume',
    'operation.terminate': 'destroy',
    'operation.trigger-crash-dump': 'trigger_crash_dump',
    'operation.unpause': 'unpause',
    'operation.unquiesce': 'unquiesce',
    'storage.block': 'attach_volume',
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A feature."""

    key: str
    support: str
    note: str
    cli: str = ''

    @property
    def tests(self):
        found = _LIST.search(self.note)
        return found['names'].split(', ') if found else []

    @property
    def has_right_tests(self):
        if self.support == 'missing':
            return 'tests.' not in self.note
        return self.support in ('complete', 'partial') and bool(self.tests)


def rows():
    """Return the rows of the matrix by key."""
    config = configparser.ConfigParser()
    config.read_string(FILE.read_text())
    return {
        key: Row(
            key,
            section[_DRIVER],
            pages.words(section[_NOTE]),
            section.get('cli', ''),
        )
        for key, section in config.items()
        if key not in ('DEFAULT', _DRIVER)
    }


def is_supported(name):
    """Return whether the driver does more than to refuse a method."""
    method = getattr(driver.PowerVMDriver, name)
    return method.__module__.startswith(
        'nova_powervm.'
    ) and not method.__doc__.startswith('Refuse')


class SupportMatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = rows()

    def test_rows_are_those_of_nova_and_of_devices(self):
        self.assertEqual(59, len(NOVA))
        ours = {key for key in self.rows if key.startswith('device.')}
        self.assertEqual(NOVA | ours, {*self.rows})

    def test_page_shows_support_matrix_file(self):
        self.assertIn(
            f'.. support_matrix:: /{FILE.name}\n', pages.documents()[PAGE]
        )

    def test_supported_rows_name_tests_and_missing_rows_do_not(self):
        wrong = [r for r in self.rows.values() if not r.has_right_tests]
        self.assertEqual([], wrong)

    def test_tests_named_by_rows_exist(self):
        missing = [
            (row.key, name)
            for row in self.rows.values()
            for name in row.tests
            if not _NAMES_ONE.search(name)
            or not test_spec_coverage.exists(name)
        ]
        self.assertEqual([], missing)

    def test_rows_agree_with_driver_capabilities(self):
        declared = driver.PowerVMDriver.capabilities
        for key, capability in CAPABILITIES.items():
            self.assertEqual(
                declared[capability], self.rows[key].support != 'missing', key
            )

    def test_rows_agree_with_driver_methods(self):
        for key, name in METHODS.items():
            self.assertEqual(
                is_supported(name), self.rows[key].support != 'missing', key
            )

    def test_rows_of_devices_agree_with_commands(self):
        """Compare the rows named after a subcommand, and those that name one.

        The row of the metrics said that there were none.
        """
        commands = {
            point.name.replace('_', ' ')
            for point in metadata.entry_points(group='nova_powervm.inventory')
        }
        self.assertLessEqual({'metrics', 'quarantine', 'validate'}, commands)
        for row in self.rows.values():
            _, _, feature = row.key.partition('.')
            program, _, rest = row.cli.partition(' ')
            if program == 'nova-powervm-inventory':
                self.assertIn(rest.partition(' ')[0], commands, row.key)
            elif row.key.startswith('device.'):
                self.assertNotIn(feature, commands, row.key)
            if feature in commands:
                self.assertNotEqual('missing', row.support, row.key)

    def test_nova_leaves_listed_methods_to_drivers(self):
        for key, name in METHODS.items():
            source = inspect.getsource(
                getattr(nova_driver.ComputeDriver, name)
            )
            self.assertIn('raise NotImplementedError', source, key)


class SupportMatrixCheckTest(unittest.TestCase):
    """The checks above find errors."""

    def test_tests_are_read_from_end_of_note(self):
        for note, expected in (
            ('Tests: tests.a.B.test_c.', ['tests.a.B.test_c']),
            ('So. Tests: tests.a, tests.b.', ['tests.a', 'tests.b']),
            ('Tests: tests.a', []),
            ('Tests: tests.a. More.', []),
            ('Tests: TODO.', []),
            ('', []),
        ):
            self.assertEqual(expected, Row('a', 'complete', note).tests, note)

    def test_has_right_tests_depends_on_support(self):
        named = 'It works. Tests: tests.a.'
        for support, note, expected in (
            ('complete', named, True),
            ('partial', named, True),
            ('missing', named, False),
            ('unknown', named, False),
            ('complete', 'It works.', False),
            ('partial', 'It works.', False),
            ('missing', 'Comes later.', True),
        ):
            self.assertEqual(
                expected, Row('a', support, note).has_right_tests, note
            )
