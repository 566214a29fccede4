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

"""Build with setuptools; pbr takes the version from git, as for the driver."""

import setuptools
from pbr import packaging

# Beside a new release of Nova, change setup.cfg of the driver, too.
SERIES = '34.0.0'


def version() -> str:
    """Return the version; without git, that of a copy of unknown age."""
    try:
        found: str = packaging.get_version(
            'powervm-emulator', pre_version=SERIES
        )
    except Exception:  # pbr has no class of its own.
        return f'{SERIES}.dev0'
    return found


setuptools.setup(version=version())
