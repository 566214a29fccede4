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

"""Build the distribution nova-powervm-cyborg from this checkout.

It has the modules of nova-powervm that cyborg-agent needs, for environments
without Nova. The distribution nova-powervm has them, too.
"""

import configparser
import contextlib
import sys

import setuptools
from pbr import packaging
from setuptools.command import build_py
from setuptools.command import sdist

CHECKOUT = '../..'
PACKAGES = ('conf', 'cyborg', 'devices', 'inventory_file', 'lpar')
#: Of nova_powervm.powervm: what reads the host, and nothing that changes it.
READING = (
    '__init__',
    'http_limits',
    'local_server',
    'port_owners',
    'rest_errors',
    'session',
    'system',
    'wrappers',
)


def version():
    """Find the version, which is that of the driver."""
    with contextlib.chdir(CHECKOUT):
        config = configparser.ConfigParser()
        config.read('setup.cfg')
        return packaging.get_version(
            'nova-powervm', pre_version=config['metadata']['version']
        )


class Refuse(sdist.sdist):
    """Make no source distribution: that of the driver has all files."""

    def run(self):
        """Say which command works."""
        sys.exit(
            'nova-powervm-cyborg has no source distribution of its own. '
            'Build the wheel: python3 -m build --wheel packages/cyborg'
        )


class Reading(build_py.build_py):
    """Build some modules of nova_powervm and nova_powervm.powervm only."""

    def find_package_modules(self, package, package_dir):
        """Leave out the modules that cyborg-agent does not need."""
        kept = {
            'nova_powervm': ('__init__', 'exception', 'printable'),
            'nova_powervm.powervm': READING,
        }.get(package)
        return [
            found
            for found in super().find_package_modules(package, package_dir)
            if kept is None or found[1] in kept
        ]


setuptools.setup(
    version=version(),
    packages=[
        'nova_powervm',
        'nova_powervm.powervm',
        *(f'nova_powervm.{name}' for name in PACKAGES),
    ],
    package_dir={'nova_powervm': f'{CHECKOUT}/nova_powervm'},
    package_data={'nova_powervm.inventory_file': ['inventory.schema.json']},
    data_files=[
        ('etc/cyborg', [f'{CHECKOUT}/etc/cyborg/cyborg-powervm.conf.sample'])
    ],
    cmdclass={'sdist': Refuse, 'build_py': Reading},
)
