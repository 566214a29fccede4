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

"""The distributions: built, installed, used and removed as by pip."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import urllib.error
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).parents[2]
EMULATOR = ROOT / 'packages' / 'emulator'
CYBORG = ROOT / 'packages' / 'cyborg'

LOAD = textwrap.dedent("""
    import nova.cmd.compute
    from nova import config
    config.parse_args(['nova-compute', '--config-file', 'nova.conf'])
    from nova.virt import driver
    loaded = driver.load_compute_driver(None)
    assert 'eventlet' not in __import__('sys').modules
    from nova_powervm.inventory_file import schema
    built = schema.format_schema(schema.build_schema())
    assert schema.read_shipped_schema() == built
    print(type(loaded).__module__, type(loaded).__name__)
    """)

#: As nova-scheduler finds the filters that its nova.conf names.
LOAD_FILTER = textwrap.dedent("""
    from nova import config
    config.parse_args(['nova-scheduler', '--config-file', 'nova.conf'])
    import sys
    from nova.scheduler import filters
    found = filters.HostFilterHandler().get_matching_classes(
        config.CONF.filter_scheduler.available_filters)
    assert 'nova_powervm.virt' not in sys.modules
    print(len(found) - len(filters.all_filters()), found[-1].__name__)
    """)

#: What it prints: where each module of ours comes from. It has no nova.
LOAD_WITHOUT_NOVA = textwrap.dedent("""
    import importlib.abc, sys
    class NoNova(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name.partition('.')[0] == 'nova':
                raise ModuleNotFoundError(name)
    sys.meta_path.insert(0, NoNova())
    import nova_powervm.cyborg.driver
    for name, module in sorted(sys.modules.items()):
        if name.partition('.')[0] == 'nova_powervm':
            print(module.__file__)
    """)

NOVA_CONF = textwrap.dedent("""
    [DEFAULT]
    compute_driver = powervm_ext.driver.PowerVMDriver

    [filter_scheduler]
    available_filters = nova_powervm.scheduler.filters.all_filters
    """)

#: What each wheel has for the environment's own folders.
DATA = {
    'nova_powervm': {
        'etc/cyborg/cyborg-powervm.conf.sample',
        'etc/glance/metadefs/compute-powervm.json',
        'etc/neutron/neutron-powervm.conf.sample',
        'etc/nova/inventory.yaml.sample',
        'etc/nova/nova-powervm.conf.sample',
        'etc/nova/powervm-policy.yaml.sample',
        'share/man/man1/nova-powervm-inventory.1',
        'share/man/man1/nova-powervm-status.1',
    },
    'nova_powervm_emulator': {
        'share/man/man1/nova-powervm-emulator.1',
    },
}


class DistributionTestCase(unittest.TestCase):
    """Builds distributions and has an environment to install them in."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.programs = self.directory / 'venv' / 'bin'
        self.python = str(self.programs / 'python')

    def make_environment(self):
        self.run_command(sys.executable, '-m', 'venv', 'venv')

    def build_driver(self):
        """Build an sdist, and a wheel from that sdist."""
        self.run_command(
            sys.executable, '-m', 'build', '--outdir', 'driver', str(ROOT)
        )
        folder = self.directory / 'driver'
        return next(folder.glob('*.tar.gz')), next(folder.glob('*.whl'))

    def build_emulator(self, source=EMULATOR):
        """Build a wheel of the emulator."""
        return self.build_wheel(source)

    def build_wheel(self, source):
        """Build a wheel from a folder of packages."""
        folder = self.directory / source.name
        self.run_command(
            sys.executable,
            *('-m', 'build', '--wheel', '--outdir', str(folder), str(source)),
        )
        return next(folder.glob('*.whl'))

    def pip(self, *arguments):
        options = ()
        if arguments[0] == 'install':
            # To compile all of OpenStack takes longer than the rest.
            options = ('--no-compile', '-c', str(ROOT / 'constraints.txt'))
        self.run_command(self.python, '-m', 'pip', '-q', *arguments, *options)

    def run_command(self, *command):
        """Run a command in the test's folder and return its output."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            0, done.returncode, f'{command}\n{done.stdout}\n{done.stderr}'
        )
        return done.stdout

    @staticmethod
    def environment():
        return {
            name: value
            for name, value in os.environ.items()
            # nova-compute finds its concurrency mode without help.
            if name not in ('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'PYTHONPATH')
        }


class WheelTest(DistributionTestCase):
    def test_wheels_divide_the_tree(self):
        """Each file is in one wheel, and the demonstration is in none."""
        sdist, driver = self.build_driver()
        unpacked = self.directory / 'unpacked'
        unpacked.mkdir()
        self.run_command('tar', '-xzf', str(sdist), '-C', str(unpacked))
        source = next(unpacked.iterdir())
        emulator = self.build_emulator(source / 'packages' / 'emulator')
        for_driver = names_in(driver)
        for_emulator = names_in(emulator)

        self.assertEqual(
            driver.name.split('-')[1], emulator.name.split('-')[1]
        )
        self.assertEqual(set(), for_driver & for_emulator)
        everything = {
            name
            for name in self.tracked()
            if not name.startswith('nova_powervm/demo/')
        }
        self.assertEqual(everything, for_driver | for_emulator)
        self.assertEqual(
            {
                name
                for name in everything
                if name.startswith('nova_powervm/emulator/')
            },
            for_emulator,
        )
        for wheel in (driver, emulator):
            with self.subTest(wheel=wheel.name):
                self.assertEqual(
                    DATA[wheel.name.split('-')[0]], data_in(wheel)
                )

    @staticmethod
    def tracked():
        """Return the files of the package that git knows."""
        listed = subprocess.run(
            (shutil.which('git'), 'ls-files', 'nova_powervm'),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return set(listed.stdout.splitlines())


class BesideStockNovaTest(DistributionTestCase):
    def test_build_install_load_uninstall(self):
        sdist, wheel = self.build_driver()
        self.make_environment()
        self.pip('install', 'nova>=34.0.0,<35')
        stock = self.files_of_nova()

        for package in (wheel, sdist):
            with self.subTest(package=package.suffix):
                self.pip('install', str(package))
                self.assertEqual(
                    'nova_powervm.virt.driver PowerVMDriver', self.load()
                )
                self.assertEqual(
                    '1 PowerVMDeviceOrderFilter', self.load(LOAD_FILTER)
                )
                self.assertEqual(stock, self.files_of_nova())
                self.pip('uninstall', '--yes', 'nova-powervm')
                self.assertEqual(stock, self.files_of_nova())
                self.assertFalse(self.site('nova', 'virt', 'powervm_ext'))
                self.assertFalse(self.site('nova_powervm'))
                self.run_command(self.python, '-c', 'import nova.virt.driver')

        self.pip('install', str(wheel), str(self.build_emulator()))
        self.load()
        self.run_command(self.programs / 'nova-powervm-emulator', '--help')
        self.pip('uninstall', '--yes', 'nova-powervm-emulator')
        self.load()
        self.assertFalse(self.site('nova_powervm', 'emulator'))

    def load(self, program=LOAD):
        """Load the driver as nova-compute does, or run another program."""
        (self.directory / 'nova.conf').write_text(NOVA_CONF)
        return self.run_command(self.python, '-c', program).splitlines()[-1]

    def files_of_nova(self):
        """Digest nova's own modules, without what was compiled or added."""
        root = pathlib.Path(
            self.run_command(
                self.python, '-c', 'import nova; print(nova.__path__[0])'
            ).strip()
        )
        return {
            str(path.relative_to(root)): hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
            for path in root.rglob('*.py')
            if 'powervm_ext' not in path.parts and 'tests' not in path.parts
        }

    def site(self, *parts):
        """Find python files of a folder below site-packages."""
        libraries = (self.directory / 'venv' / 'lib').glob('python*')
        folder = next(libraries).joinpath('site-packages', *parts)
        return list(folder.rglob('*.py'))


class EmulatorTest(DistributionTestCase):
    def test_emulator_serves_without_nova_and_driver(self):
        self.make_environment()
        self.pip('install', str(self.build_emulator()))
        installed = self.run_command(self.python, '-m', 'pip', 'freeze')
        names = {
            line.partition('==')[0].partition(' @')[0]
            for line in installed.lower().splitlines()
        }
        self.assertIn('nova-powervm-emulator', names)
        self.assertFalse({'nova', 'nova-powervm'} & names)

        emulator = subprocess.Popen(
            [self.programs / 'nova-powervm-emulator'],
            cwd=self.directory,
            env=self.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(emulator.stdout.close)
        self.addCleanup(emulator.wait)
        self.addCleanup(emulator.kill)
        url = emulator.stdout.readline().strip()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f'{url}/rest/api/uom/ManagedSystem')
        refused.exception.close()
        self.assertEqual(401, refused.exception.code)
        emulator.send_signal(signal.SIGTERM)
        self.assertEqual(0, emulator.wait(30))


class CyborgTest(DistributionTestCase):
    def test_wheel_for_cyborg_agent_loads_its_driver_without_nova(self):
        wheel = self.build_wheel(CYBORG)
        folder = self.directory / 'unpacked'
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
            metadata = archive.read(
                f'{"-".join(wheel.name.split("-")[:2])}.dist-info/METADATA'
            ).decode()

        # The checkout's own package must not be found first.
        loaded = self.run_command(
            *('env', f'PYTHONPATH={folder}'),
            *(sys.executable, '-c', LOAD_WITHOUT_NOVA),
        )

        self.assertIn(
            str(folder / 'nova_powervm' / 'cyborg' / 'driver.py'),
            loaded.splitlines(),
        )
        for path in loaded.splitlines():
            self.assertTrue(path.startswith(str(folder)), path)
        self.assertNotIn('Requires-Dist: nova', metadata)
        self.assertIn('Requires-Dist: openstack-cyborg', metadata)


def names_in(wheel):
    """Return the names of a wheel's files of the package nova_powervm."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name
            for name in archive.namelist()
            if name.startswith('nova_powervm/')
        }


def data_in(wheel):
    """Return the names of a wheel's files for other folders."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name.partition('.data/data/')[2]
            for name in archive.namelist()
            if '.data/data/' in name
        }
