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

"""The DevStack plugin, with recorders in place of DevStack's functions."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

from oslo_config import cfg

from nova_powervm import conf
from nova_powervm import inventory_file
from powervm_emulator import main

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN = ROOT / 'devstack'

#: Each function of DevStack that the plugin calls; iniset writes what
#: oslo.config reads, the others print how they were called.
STUBS = textwrap.dedent("""
    set -eu
    define_plugin() { :; }
    echo_summary() { :; }
    trueorfalse() { local value=${!2:-$1}; echo "$value"; }
    enable_service() { SERVICES="$SERVICES $*"; }
    is_service_enabled() {
        local name
        for name in "$@"; do
            [[ " $SERVICES " == *" $name "* ]] && return 0
        done
        return 1
    }
    iniset() { printf '[%s]\\n%s = %s\\n' "$2" "$3" "$4" >> "$1"; }
    iniget() {
        sed -n "/^\\[$2\\]/,/^\\[/s/^$3 = //p" "$1" | tail -n 1
    }
    iniadd() { iniset "$@"; }
    setup_develop() { echo "setup_develop $*"; }
    pip_install() { echo "pip_install $*"; }
    run_process() { echo "run_process $*"; }
    stop_process() { echo "stop_process $*"; }
    """)


class DevstackTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def test_emulator_serves_as_host(self):
        printed = self.stack(POWERVM_EMULATOR='True')

        self.assertIn(f'setup_develop {ROOT} neutron', printed)
        self.assertIn(f'pip_install -e {ROOT}/emulator', printed)
        settings = self.settings()
        self.assertEqual('http://127.0.0.1:12080', settings.server.url)
        self.assertEqual('admin', settings.server.username)
        self.assertEqual('devstack secret', settings.server.password)
        self.assertEqual('image_pool', settings.volume_group)
        self.assertEqual('none', settings.disk_clear)
        (command,) = re.findall('run_process powervm-emulator (.*)', printed)
        self.assertNotIn('devstack secret', command)
        self.assertIn('--port 12080', command)
        file = self.directory / 'powervm-emulator.password'
        self.assertEqual('devstack secret\n', file.read_text())
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))

    def test_emulator_knows_options_of_its_command(self):
        printed = self.stack(
            POWERVM_EMULATOR='True', POWERVM_EMULATOR_WORLD='world.yaml'
        )
        (command,) = re.findall('run_process powervm-emulator (.*)', printed)
        self.assertIn(main.__package__, command.split())
        page = ROOT / 'emulator' / 'doc' / 'source' / 'command.rst'
        documented = set(re.findall('``(--[a-z-]+)', page.read_text()))
        used = set(re.findall('--[a-z-]+', command))
        self.assertIn('--world', used)
        self.assertLessEqual(used, documented)

    def test_host_is_reached_by_its_url(self):
        printed = self.stack(
            POWERVM_REST_URL='https://novalink.example.org:12443',
            POWERVM_REST_USERNAME='nova',
            POWERVM_REST_PASSWORD='secret',
            POWERVM_VOLUME_GROUP='datavg',
        )
        self.assertNotIn('emulator', printed)
        settings = self.settings()
        self.assertEqual(
            ('https://novalink.example.org:12443', 'nova', 'secret'),
            (
                settings.server.url,
                settings.server.username,
                settings.server.password,
            ),
        )
        self.assertEqual('datavg', settings.volume_group)
        self.assertEqual('zero', settings.disk_clear)

    def test_local_session_is_default(self):
        self.stack()
        self.assertIsNone(self.settings().server.url)

    def test_inventory_offers_devices(self):
        self.stack()
        path = pathlib.Path(self.settings().inventory_file)
        self.assertEqual(self.directory / 'inventory.yaml', path)
        self.assertEqual(0o640, stat.S_IMODE(path.stat().st_mode))
        policy = inventory_file.parse(path.read_text(), str(path))
        self.assertEqual(1, len(policy.paragraphs))

    def test_neutron_binds_ports_of_this_host(self):
        printed = self.stack('echo "$Q_ML2_PLUGIN_MECHANISM_DRIVERS"')
        self.assertEqual('pvm_sea,ovn', printed.splitlines()[-1])
        text = (self.directory / 'ml2_conf.ini').read_text()
        self.assertIn('[pvm_sea]\nhosts = ', text)
        self.assertIn('[pvm_sea]\nphysical_networks = public\n', text)

    def test_agents_answer_dhcp_and_metadata_beside_ovn_only(self):
        printed = self.stack('echo "$SERVICES"')
        self.assertEqual(
            ['q-dhcp', 'q-meta'], printed.splitlines()[-1].split()[-2:]
        )
        text = (self.directory / 'dhcp_agent.ini').read_text()
        self.assertEqual('[DEFAULT]\nforce_metadata = True\n', text)

        for localrc in (
            {'Q_ML2_PLUGIN_MECHANISM_DRIVERS': 'openvswitch'},
            # A compute node.
            {'SERVICES': 'n-cpu'},
        ):
            printed = self.stack('echo "$SERVICES"', **localrc)
            self.assertNotIn('q-dhcp', printed)

    def test_scheduler_has_filter_once(self):
        before = '[filter_scheduler]\nenabled_filters = ComputeFilter\n'
        (self.directory / 'nova.conf').write_text(before)

        self.stack(f'source {PLUGIN}/plugin.sh stack post-config')

        config = cfg.ConfigOpts()
        config.register_opts(
            [
                cfg.ListOpt('enabled_filters'),
                cfg.MultiStrOpt('available_filters'),
            ],
            group='filter_scheduler',
        )
        config(['--config-file', str(self.directory / 'nova.conf')])
        self.assertEqual(
            ['ComputeFilter', 'PowerVMDeviceOrderFilter'],
            config.filter_scheduler.enabled_filters,
        )
        self.assertEqual(
            ['nova_powervm.scheduler.filters.all_filters'],
            config.filter_scheduler.available_filters,
        )

    def test_scheduler_elsewhere_is_not_configured(self):
        self.stack(SERVICES='n-cpu')

        text = (self.directory / 'nova.conf').read_text()
        self.assertNotIn('filter_scheduler', text)

    def test_clean_leaves_only_devstacks_own_files(self):
        printed = self.stack(
            f'source {PLUGIN}/plugin.sh unstack; '
            f'source {PLUGIN}/plugin.sh clean',
            POWERVM_EMULATOR='True',
        )
        self.assertIn('stop_process powervm-emulator', printed)
        self.assertEqual(
            {'nova.conf', 'ml2_conf.ini', 'dhcp_agent.ini'},
            {path.name for path in self.directory.iterdir()},
        )

    def stack(self, then=':', **localrc):
        """Run the phases of the plugin, and what comes after.

        :param localrc: Variables of the section localrc.
        :returns: What was printed.
        """
        variables = {
            'ADMIN_PASSWORD': 'devstack secret',
            'DEST': '/opt/stack',
            'DEVSTACK_VENV': '/opt/stack/data/venv',
            'GLOBAL_VENV': 'True',
            'NOVA_CONF': self.directory / 'nova.conf',
            'NOVA_CONF_DIR': self.directory,
            'NOVA_FILTERS': 'ComputeFilter,SameHostFilter',
            'NOVA_POWERVM_DIR': ROOT,
            'PHYSICAL_NETWORK': 'public',
            'Q_DHCP_CONF_FILE': self.directory / 'dhcp_agent.ini',
            'Q_PLUGIN_CONF_FILE': self.directory / 'ml2_conf.ini',
            'SERVICES': 'n-cpu n-sch q-svc',
        } | localrc
        script = [
            *(f"{name}='{value}'" for name, value in variables.items()),
            STUBS,
            f'source {PLUGIN}/override-defaults',
            f'source {PLUGIN}/settings',
            f'source {PLUGIN}/plugin.sh stack install',
            f'source {PLUGIN}/plugin.sh stack post-config',
            then,
        ]
        done = subprocess.run(
            [shutil.which('bash'), '-c', '\n'.join(script)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        return done.stdout

    def settings(self):
        """Read nova.conf as nova-compute does."""
        config = cfg.ConfigOpts()
        conf.register_opts(config)
        config(['--config-file', str(self.directory / 'nova.conf')])
        return conf.powervm.read_settings(config.powervm)


class EmulatorPageTest(unittest.TestCase):
    def test_page_has_each_option_of_the_emulator(self):
        page = ROOT / 'emulator' / 'doc' / 'source' / 'command.rst'
        documented = set(re.findall('``(--?[a-z-]+)', page.read_text()))
        with subprocess.Popen(
            [sys.executable, '-m', main.__package__, '--help'],
            cwd=ROOT,
            # No option is divided among lines.
            env={**os.environ, 'COLUMNS': '1000'},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            printed = process.communicate()[0]
        options = set(re.findall(r'(?<![\w-])--[a-z-]+', printed))
        self.assertIn('--port', options)
        self.assertLessEqual(options, documented)
