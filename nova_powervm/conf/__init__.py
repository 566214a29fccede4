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

"""The options of nova-compute and of the commands, each said once.

They are read when a service starts, and passed as :class:`.powervm.Settings`;
no other module reads them. Add a field to :class:`.powervm.Settings`; the
options of nova-powervm-clean are in :mod:`.cleaning`, and those of
cyborg-agent in :mod:`.accelerators`.
"""

from typing import Any

from oslo_config import cfg

from nova_powervm.conf import cleaning
from nova_powervm.conf import fields
from nova_powervm.conf import powervm

__all__ = ('list_opts', 'powervm', 'register_opts')


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options with a configuration; it may have them already."""
    fields.register(conf, powervm.GROUP, powervm.OPTIONS)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options for oslo.config's generator and documentation."""
    return [(powervm.GROUP.name, powervm.OPTIONS), *cleaning.list_opts()]
