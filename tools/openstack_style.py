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

"""Runs flake8 with the checks of hacking only: ``openstack_style.py FILE...``.

flake8 would run pycodestyle, pyflakes and mccabe, too, for more than half of
its time, and leave out what they say: ruff checks the same.
"""

import sys

from flake8.main import cli
from flake8.plugins import finder

_find = finder._find_importlib_plugins
finder._find_importlib_plugins = lambda: (
    plugin for plugin in _find() if plugin.package in ('flake8', 'hacking')
)

if __name__ == '__main__':
    sys.exit(cli.main())
