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

"""The support matrix agrees with the driver, setup.cfg and the options."""

import collections
import configparser
import pkgutil
import re
import sys
import unittest

from nova import conf as nova_conf
from nova.virt import driver as nova_driver

from nova_powervm import conf as nova_powervm_conf
from nova_powervm.scheduler import filters
from nova_powervm.virt import driver
from tests import proofs
from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import proofs_text
import support_matrix_text

_NOTE = 'driver-notes.powervm'
#: The program whose commands are entry points of a group.
_PROGRAM, _COMMANDS = 'nova-powervm-inventory', 'nova_powervm.inventory'
_OPTION = re.compile(r'(\[(?P<group>\w+)\])?(?P<name>\w+)(?(1)| = )')

#: How many rows nova 34.0.0 has in each group.
_ROWS_OF_NOVA = {'console': 5, 'guest': 5, 'operation': 44, 'storage': 5}


def _table(text):
    """Return the second word of each line by the first one."""
    return dict(line.split() for line in text.strip().splitlines())


#: Capability, after its prefix, that a row stands and falls with, unless it
#: has the name of the row.
_CAPABILITIES = _table("""
    device.cyborg-arq accelerators
    device.evacuate evacuate
    operation.attach-tagged-interface tagged_attach_interface
    operation.attach-tagged-volume tagged_attach_volume
    operation.boot-emulated-tpm vtpm
    operation.device-tags device_tagging
    operation.file-backed-memory mem_backing_file
    operation.multiattach-volume multiattach
    storage.image image_type_raw
""")

#: Method of Nova's driver that a row can't do without, unless it has the name
#: of the row. Nova's own rebuild deletes and builds.
_METHODS = _table("""
    console.serial.interactive get_serial_console
    console.serial.log get_console_output
    console.spice get_spice_console
    console.vnc get_vnc_console
    device.cold-migrate migrate_disk_and_power_off
    device.passthrough.slot update_provider_tree
    device.rebuild spawn
    device.resize finish_migration
    device.shelve snapshot
    operation.abort-in-progress-live-migration live_migration_abort
    operation.cache-images cache_image
    operation.force-live-migration-to-complete live_migration_force_complete
    operation.get-guest-info get_info
    operation.get-host-ip get_host_ip_addr
    operation.launch spawn
    operation.live-migrate live_migration
    operation.maintenance-mode host_maintenance_mode
    operation.rebuild spawn
    operation.resize finish_migration
    operation.terminate destroy
    storage.block attach_volume
""")

#: Entry point, in setup.cfg, that a row stands and falls with.
ENTRY_POINTS = {
    'device.cyborg-arq': ('cyborg.accelerator.driver', 'powervm'),
    'operation.attach-interface': ('nova_powervm.vif_drivers', 'pvm_sea'),
    'storage.block.backend.fibrechannel': (
        'nova_powervm.volume_drivers',
        'fibre_channel',
    ),
    'storage.block.backend.iscsi': ('nova_powervm.volume_drivers', 'iscsi'),
}

#: What rows name besides commands, options and entry points.
_WORDS = """
    * ? CUSTOM_* CUSTOM_IOSLOT CUSTOM_POWERVM_AIX FPGA HW_ARCH_PPC64
    HW_ARCH_PPC64LE HW_CPU_PPC64LE_POWER8 HW_CPU_PPC64LE_POWER9 OWNER_NOVA
    PGPU TEST_PCI allow
    hw_firmware_type mkvterm one_time_use os_require_quiesce provider.yaml
    quota
"""


def is_missing(row):
    """Return whether a row says that the driver does not do it."""
    return row['driver.powervm'] == 'missing'


def named(key):
    """Return the name of a row as Nova's code spells it."""
    return key.rpartition('.')[2].replace('-', '_')


def entry_points():
    """Return the entry points of setup.cfg by group and name."""
    config = configparser.ConfigParser()
    config.read_string((pages.ROOT / 'setup.cfg').read_text())
    return {
        group: dict(
            re.split(r' *= *', line, maxsplit=1)
            for line in lines.strip().splitlines()
        )
        for group, lines in config['entry_points'].items()
    }


def options(group):
    """Return the options of a group, Nova's and the driver's."""
    nova_powervm_conf.register_opts(nova_conf.CONF)
    conf = nova_conf.CONF
    return conf if group == 'DEFAULT' else conf[group]


def is_supported(name):
    """Return whether the driver does more than to refuse a method."""
    method = getattr(driver.PowerVMDriver, name)
    return method.__module__.startswith(
        'nova_powervm.'
    ) and not method.__doc__.startswith('Refuse')


@proofs.proves('D96')
class SupportMatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = proofs_text.rows()
        cls.points = entry_points()
        cls.commands = {
            name.replace('_', ' ') for name in cls.points[_COMMANDS]
        }

    def test_page_has_all_rows_of_nova_and_its_own(self):
        # A row of another group would be left out of the page in silence.
        for key in self.rows:
            self.assertTrue(key.startswith((*support_matrix_text.GROUPS,)))
        groups = collections.Counter(k.partition('.')[0] for k in self.rows)
        for own in ('device', 'system'):
            self.assertTrue(groups.pop(own))
        self.assertEqual(_ROWS_OF_NOVA, groups)

    def test_rows_agree_with_driver_capabilities(self):
        declared = driver.PowerVMDriver.capabilities
        found = 0
        for key, row in self.rows.items():
            name = f'supports_{_CAPABILITIES.get(key, named(key))}'
            if name in declared:
                found += 1
                self.assertNotEqual(declared[name], is_missing(row), key)
        self.assertGreaterEqual(found, 13)

    def test_rows_agree_with_driver_methods(self):
        found = 0
        for key, row in self.rows.items():
            name = _METHODS.get(key, named(key))
            if hasattr(nova_driver.ComputeDriver, name):
                found += 1
                self.assertNotEqual(is_supported(name), is_missing(row), key)
        self.assertGreaterEqual(found, 40)

    def test_rows_agree_with_entry_points(self):
        for key, (group, name) in ENTRY_POINTS.items():
            self.assertNotEqual(
                name in self.points[group], is_missing(self.rows[key]), key
            )

    def test_rows_named_after_commands_name_them(self):
        # The row of the metrics said that there were none.
        for key, row in self.rows.items():
            command = key.partition('.')[2].removesuffix('-cli')
            if command in self.commands:
                with self.subTest(key):
                    self.assertFalse(is_missing(row))
                    self.assertIn(f'{_PROGRAM} {command}', row['cli'])

    def test_commands_named_by_rows_exist(self):
        found = [
            line
            for row in self.rows.values()
            for line in row.get('cli', '').split(';')
            if line.startswith('nova-powervm-')
        ]
        self.assertTrue(found)
        for line in found:
            program, command, *rest = line.split()
            with self.subTest(line):
                self.assertEqual(_PROGRAM, program)
                self.assertIn(command, self.commands)
                target = self.points[_COMMANDS][command]
                parser = pkgutil.resolve_name(target)(None, None).get_parser(
                    program
                )
                known = parser.format_help()
                for option in re.findall('--[a-z-]+', ' '.join(rest)):
                    self.assertIn(f' {option} ', known)

    def test_literals_of_rows_are_understood(self):
        known = {*_WORDS.split(), *vars(filters)}.union(*self.points.values())
        for key, row in self.rows.items():
            for text in re.findall('``(.+?)``', row.get(_NOTE, '')):
                option = _OPTION.match(text)
                with self.subTest(key, text=text):
                    if option:
                        group = option['group'] or 'DEFAULT'
                        self.assertIn(option['name'], options(group))
                    else:
                        self.assertIn(re.split('[: ]', text)[0], known)
