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

"""The package beside a stock nova: built, installed, loaded, taken out."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).parents[2]

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

NOVA_CONF = textwrap.dedent("""
    [DEFAULT]
    compute_driver = powervm_ext.driver.PowerVMDriver
    """)


class BesideStockNova(unittest.TestCase):
    """What an operator does with pip."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.python = str(self.directory / 'venv' / 'bin' / 'python')

    def test_build_install_load_uninstall(self):
        sdist, wheel = self.build()
        self.run_command(sys.executable, '-m', 'venv', 'venv')
        self.pip('install', 'nova>=34.0.0,<35')
        stock = self.files_of_nova()

        for package in (wheel, sdist):
            with self.subTest(package=package.suffix):
                self.pip('install', str(package))
                self.assertEqual(
                    'nova_powervm.virt.driver PowerVMDriver', self.load()
                )
                self.assertEqual(stock, self.files_of_nova())
                self.pip('uninstall', '--yes', 'nova-powervm')
                self.assertEqual(stock, self.files_of_nova())
                self.assertFalse(self.site('nova', 'virt', 'powervm_ext'))
                self.run_command(self.python, '-c', 'import nova.virt.driver')

    def build(self):
        """Make an sdist, and a wheel from that sdist."""
        self.run_command(
            sys.executable, '-m', 'build', '--outdir', 'dist', str(ROOT)
        )
        dist = self.directory / 'dist'
        return next(dist.glob('*.tar.gz')), next(dist.glob('*.whl'))

    def load(self):
        """Load the driver as nova-compute does."""
        (self.directory / 'nova.conf').write_text(NOVA_CONF)
        return self.run_command(self.python, '-c', LOAD).splitlines()[-1]

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

    def pip(self, *arguments):
        options = ()
        if arguments[0] == 'install':
            # To compile all of OpenStack takes longer than the rest.
            options = ('--no-compile', '-c', str(ROOT / 'constraints.txt'))
        self.run_command(self.python, '-m', 'pip', '-q', *arguments, *options)

    def run_command(self, *command):
        """Run a command in the test's folder and give what it prints."""
        environment = {
            name: value
            for name, value in os.environ.items()
            # nova-compute finds its concurrency mode without help.
            if name not in ('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'PYTHONPATH')
        }
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            0, done.returncode, f'{command}\n{done.stdout}\n{done.stderr}'
        )
        return done.stdout
