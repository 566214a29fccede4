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

import atexit
import configparser
import functools
import hashlib
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import textwrap
import unittest
import urllib.error
import urllib.request
import zipfile
from importlib import metadata
from unittest import mock

import build
import build.env
import pyproject_hooks
from packaging import requirements
from packaging import utils

from tests import proofs

ROOT = pathlib.Path(__file__).parents[2]

#: Loads the filter as nova-scheduler finds those that its nova.conf names,
#: and then the driver as nova-compute does.
LOAD = textwrap.dedent("""
    import nova.cmd.compute
    from nova import config
    config.parse_args(['nova-compute', '--config-file', 'nova.conf'])
    import sys
    from nova.scheduler import filters
    found = filters.HostFilterHandler().get_matching_classes(
        config.CONF.filter_scheduler.available_filters)
    assert 'nova_powervm.virt' not in sys.modules
    print(len(found) - len(filters.all_filters()), found[-1].__name__)
    from nova.virt import driver
    loaded = driver.load_compute_driver(None)
    assert 'eventlet' not in sys.modules
    from nova_powervm.inventory_file import structure
    assert structure.SCHEMA['title']
    print(type(loaded).__module__, type(loaded).__name__)
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

#: The versions of Python that the unit tests passed on.
PYTHONS = ['3.11', '3.12', '3.13']

#: What each wheel has for the environment's own folders.
DATA = {
    'nova_powervm': {
        'etc/cyborg/cyborg-powervm.conf.sample',
        'etc/glance/metadefs/compute-powervm.json',
        'etc/grafana/powervm.json',
        'etc/neutron/neutron-powervm.conf.sample',
        'etc/nova/clean-slot.sample',
        'etc/nova/inventory.yaml.sample',
        'etc/nova/nova-powervm-clean.service.sample',
        'etc/nova/nova-powervm.conf.sample',
        'etc/nova/powervm-policy.yaml.sample',
        'etc/prometheus/powervm.rules.yml',
    },
    'powervm_emulator': set(),
}


@functools.cache
def scratch():
    """Return a folder that is removed when the tests are over."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    return pathlib.Path(directory)


@functools.cache
def build_environment():
    """Return the one isolated environment of all builds, as of pip."""
    isolated = build.env.DefaultIsolatedEnv()
    isolated.__enter__()
    atexit.register(isolated.__exit__)
    return isolated


@functools.cache
def install_for_builds(*wanted):
    """Install what builds require, once for all of them."""
    # Python compiles what builds use when they use it: little of it all.
    with mock.patch.dict(os.environ, {'PIP_COMPILE': '0'}):
        build_environment().install(wanted)


@functools.cache
def built(source, kind):
    """Build a distribution of a folder, once for all tests; return it.

    :param kind: 'sdist' or 'wheel'.
    """
    builder = build.ProjectBuilder.from_isolated_env(
        build_environment(),
        source,
        runner=pyproject_hooks.quiet_subprocess_runner,
    )
    install_for_builds(*sorted(builder.build_system_requires))
    install_for_builds(*sorted(builder.get_requires_for_build(kind)))
    folder = tempfile.mkdtemp(dir=scratch())
    return pathlib.Path(builder.build(kind, folder))


def git(*command, cwd, given=b''):
    """Run git in a folder; return its output."""
    return subprocess.run(
        (shutil.which('git'), *command),
        cwd=cwd,
        input=given,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def release():
    """Return the version in setup.cfg, the tag of the next release."""
    config = configparser.ConfigParser()
    config.read_string((ROOT / 'setup.cfg').read_text())
    return config['metadata']['version']


@functools.cache
def checkout():
    """Return a copy of the checkout, which has the tag of its release.

    Builds write their metadata into it, which other tests read.
    """
    copy = pathlib.Path(tempfile.mkdtemp(dir=scratch()))
    git('clone', '-q', ROOT, copy, cwd=ROOT)
    # What is not committed is in it, too.
    changes = git('diff', '--binary', 'HEAD', cwd=ROOT)
    git('apply', '--index', '--allow-empty', cwd=copy, given=changes)
    who = ('-c', 'user.name=test', '-c', 'user.email=test@example.org')
    git(*who, 'commit', '-q', '--allow-empty', '-m', 'Release', cwd=copy)
    git('tag', release(), cwd=copy)
    return copy


@functools.cache
def unpacked(project):
    """Return the folder of the unpacked sdist of a project."""
    folder = tempfile.mkdtemp(dir=scratch())
    with tarfile.open(built(project, 'sdist')) as archive:
        archive.extractall(folder, filter='data')
    (source,) = pathlib.Path(folder).iterdir()
    return source


def build_driver():
    """Build the driver's wheel from its sdist, as pip does."""
    return built(unpacked(checkout()), 'wheel')


def build_emulator():
    """Build the emulator's wheel from its sdist."""
    return built(unpacked(checkout() / 'emulator'), 'wheel')


def build_for_cyborg():
    """Build the wheel for cyborg-agent from the checkout."""
    return built(checkout() / 'packages' / 'cyborg', 'wheel')


def described(wheel):
    """Return the metadata of a wheel."""
    folder = f'{"-".join(wheel.name.split("-")[:2])}.dist-info'
    return metadata.PathDistribution(zipfile.Path(wheel, f'{folder}/'))


def environment():
    """Return the environment of commands."""
    return {
        name: value
        for name, value in os.environ.items()
        # nova-compute finds its concurrency mode without help.
        if name not in ('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'PYTHONPATH')
    }


def required_by(*wheels, also=()):
    """Return the distributions here that wheels need, and those need in turn.

    :param also: Names of further ones.
    """
    found = {}
    wanted = [requirements.Requirement(name) for name in also]
    for wheel in wheels:
        wanted += _needs(described(wheel))
    while wanted:
        needed = wanted.pop()
        known = (utils.canonicalize_name(needed.name), *sorted(needed.extras))
        if known not in found:
            found[known] = metadata.distribution(needed.name)
            wanted += _needs(found[known], needed.extras)
    return list({key[0]: each for key, each in found.items()}.values())


def _needs(distribution, extras=()):
    """Return what a distribution requires on this machine."""
    listed = map(requirements.Requirement, distribution.requires or ())
    return [
        needed
        for needed in listed
        if not needed.marker
        or any(needed.marker.evaluate({'extra': e}) for e in ('', *extras))
    ]


class DistributionTestCase(unittest.TestCase):
    """Has an environment to install distributions in."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.programs = self.directory / 'venv' / 'bin'
        self.python = str(self.programs / 'python')

    def make_environment(self, distributions):
        """Make an environment that has these distributions.

        Most are links to those that are here. Nova is a copy, because the
        driver is installed in its folder.
        """
        self.run_command(
            *(sys.executable, '-m', 'venv', '--without-pip', 'venv')
        )
        libraries = (self.directory / 'venv' / 'lib').glob('python*')
        self.packages = next(libraries) / 'site-packages'
        here = pathlib.Path(sysconfig.get_path('purelib'))
        for distribution in distributions:
            tops = {path.parts[0] for path in distribution.files}
            for top in tops - {'..', '__pycache__'}:
                target = self.packages / top
                if distribution.name == 'nova' and (here / top).is_dir():
                    shutil.copytree(
                        *(here / top, target),
                        ignore=shutil.ignore_patterns('powervm_ext', 'tests'),
                    )
                elif not target.exists():
                    target.symlink_to(here / top)

    def pip(self, *arguments):
        """Run the pip that is here on the environment; return its output."""
        options = ()
        if arguments[0] == 'install':
            # All that is needed is there, and compiled.
            options = ('--no-compile', '--no-index')
        return self.run_command(
            *(sys.executable, '-m', 'pip', '--python', self.python, '-q'),
            *arguments,
            *options,
        )

    def run_command(self, *command):
        """Run a command in the test's folder and return its output."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            0, done.returncode, f'{command}\n{done.stdout}\n{done.stderr}'
        )
        return done.stdout


def python_versions(wheel):
    """Return the minor versions of Python that a wheel names."""
    named = described(wheel).metadata.get_all('Classifier')
    return [
        version
        for each in named
        if '.' in (version := each.rpartition('Python :: ')[2])
    ]


class ReleaseTest(unittest.TestCase):
    """What twine and check-manifest check, before anything is uploaded."""

    def test_twine_accepts_distributions(self):
        install_for_builds('twine')
        found = [
            built(checkout(), 'sdist'),
            built(checkout() / 'emulator', 'sdist'),
        ]
        found += [build_driver(), build_emulator(), build_for_cyborg()]
        program = pathlib.Path(build_environment().python_executable)
        subprocess.run(
            (program.with_name('twine'), 'check', '--strict', *found),
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def test_sdist_has_all_files_that_git_knows(self):
        # check-manifest copies the files without git, from which pbr has
        # the list. pbr itself leaves one out.
        folder = unpacked(checkout())
        known = git('ls-files', cwd=checkout()).decode().splitlines()
        missing = [name for name in known if not (folder / name).exists()]
        self.assertEqual(['.gitignore'], missing)

    def test_tag_gives_all_distributions_their_version(self):
        sdists = (
            built(checkout(), 'sdist'),
            built(checkout() / 'emulator', 'sdist'),
        )
        found = [each.name.removesuffix('.tar.gz') for each in sdists]
        wheels = build_driver(), build_emulator(), build_for_cyborg()
        found += [each.name for each in wheels]
        self.assertEqual({release()}, {name.split('-')[1] for name in found})
        self.assertTrue(release().startswith('34.'))


class WheelTest(DistributionTestCase):
    def test_wheels_name_versions_of_python(self):
        for wheel in build_driver(), build_emulator(), build_for_cyborg():
            self.assertEqual(PYTHONS, python_versions(wheel))

    def test_wheels_have_all_files_of_their_packages(self):
        driver, emulator = build_driver(), build_emulator()

        self.assertEqual(
            self.tracked(ROOT, 'nova_powervm')
            | {'nova/virt/powervm_ext/__init__.py'}
            | {'nova/virt/powervm_ext/driver.py'},
            names_in(driver),
        )
        self.assertEqual(
            self.tracked(ROOT / 'emulator', 'powervm_emulator'),
            names_in(emulator),
        )
        for wheel in (driver, emulator):
            with self.subTest(wheel=wheel.name):
                self.assertEqual(
                    DATA[wheel.name.split('-')[0]], data_in(wheel)
                )

    def test_emulator_without_git_has_version_of_its_series(self):
        copy = self.directory / 'emulator'
        shutil.copytree(checkout() / 'emulator', copy)
        self.assertEqual(
            '34.0.0.dev0', built(copy, 'wheel').name.split('-')[1]
        )

    @staticmethod
    def tracked(project, package):
        """Return the files of a package that git knows."""
        listed = git('ls-files', package, cwd=project)
        return set(listed.decode().splitlines())


class BesideStockNovaTest(DistributionTestCase):
    @proofs.proves('D93')
    def test_build_install_load_uninstall(self):
        driver = build_driver()
        emulator = build_emulator()
        self.make_environment(required_by(driver, emulator, also=['nova']))
        stock = self.files_of_nova()

        self.pip('install', str(driver), str(emulator))
        for name in ('powervm-emulator', 'nova-powervm-emulator'):
            self.run_command(self.programs / name, '--help')
        self.pip('uninstall', '--yes', 'powervm-emulator')

        self.assertFalse(self.site('powervm_emulator'))
        self.assertEqual(
            [
                '1 PowerVMDeviceOrderFilter',
                'nova_powervm.virt.driver PowerVMDriver',
            ],
            self.load(),
        )
        self.assertEqual(stock, self.files_of_nova())

        self.pip('uninstall', '--yes', 'nova-powervm')

        self.assertEqual(stock, self.files_of_nova())
        self.assertFalse(self.site('nova', 'virt', 'powervm_ext'))
        self.assertFalse(self.site('nova_powervm'))
        self.run_command(self.python, '-c', 'import nova.virt.driver')

    def load(self):
        """Load filter and driver; return what is loaded."""
        (self.directory / 'nova.conf').write_text(NOVA_CONF)
        return self.run_command(self.python, '-c', LOAD).splitlines()[-2:]

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
        return list(self.packages.joinpath(*parts).rglob('*.py'))


class EmulatorTest(DistributionTestCase):
    def test_emulator_serves_tls_without_nova_and_driver(self):
        wheel = build_emulator()
        self.make_environment(required_by(wheel))
        self.pip('install', str(wheel))
        installed = self.pip('freeze')
        names = {
            line.partition('==')[0].partition(' @')[0]
            for line in installed.lower().splitlines()
        }
        self.assertIn('powervm-emulator', names)
        self.assertFalse({'nova', 'nova-powervm'} & names)

        emulator = subprocess.Popen(
            [self.programs / 'powervm-emulator', '--tls'],
            cwd=self.directory,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(emulator.stdout.close)
        self.addCleanup(emulator.stderr.close)
        self.addCleanup(emulator.wait)
        self.addCleanup(emulator.kill)
        said = emulator.stderr.readline().strip()
        url = emulator.stdout.readline().strip()
        context = ssl.create_default_context(
            cafile=said.partition('certificate: ')[2]
        )
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                f'{url}/rest/api/uom/ManagedSystem', context=context
            )
        refused.exception.close()
        self.assertEqual(401, refused.exception.code)
        emulator.send_signal(signal.SIGTERM)
        self.assertEqual(0, emulator.wait(30))


class CyborgTest(DistributionTestCase):
    def test_wheel_for_cyborg_agent_loads_its_driver_without_nova(self):
        wheel = build_for_cyborg()
        folder = self.directory / 'unpacked'
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202

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
        needs = {each.name for each in _needs(described(wheel))}
        self.assertIn('openstack-cyborg', needs)
        self.assertNotIn('nova', needs)


def names_in(wheel):
    """Return the names of the files that a wheel puts where modules are."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name
            for name in archive.namelist()
            if not name.partition('/')[0].endswith(('.data', '.dist-info'))
        }


def data_in(wheel):
    """Return the names of a wheel's files for other folders."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name.partition('.data/data/')[2]
            for name in archive.namelist()
            if '.data/data/' in name
        }
