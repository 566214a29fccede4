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

"""Build the distribution nova-powervm-emulator from this checkout.

It has no __init__.py of nova_powervm: alone, that is a namespace package;
beside the driver, it is the driver's package.
"""

import contextlib
import sys

import setuptools
from pbr import packaging
from setuptools.command import sdist

PACKAGE = 'nova_powervm.emulator'
#: From here to the folder of setup.cfg; setuptools wants a relative path.
CHECKOUT = '../..'


def version():
    """Find the version, which is that of the driver."""
    with contextlib.chdir(CHECKOUT):
        return packaging.get_version('nova-powervm')


class Refuse(sdist.sdist):
    """Make no source distribution: that of the driver has all files."""

    def run(self):
        """Say which command works."""
        sys.exit(
            'nova-powervm-emulator has no source distribution of its own. '
            'Build the wheel: python3 -m build --wheel packages/emulator'
        )


setuptools.setup(
    version=version(),
    packages=setuptools.find_packages(
        CHECKOUT, include=[PACKAGE, f'{PACKAGE}.*']
    ),
    package_dir={'nova_powervm': f'{CHECKOUT}/nova_powervm'},
    data_files=[
        ('share/man/man1', [f'{CHECKOUT}/doc/man/nova-powervm-emulator.1'])
    ],
    cmdclass={'sdist': Refuse},
)
