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


"""The options in group ``[powervm]`` of cyborg.conf."""

import dataclasses
from typing import Any

from oslo_config import cfg

from nova_powervm.conf import fields
from nova_powervm.conf import powervm

GROUP = cfg.OptGroup(
    'powervm',
    title='PowerVM options',
    help='Options for the PowerVM (NovaLink) host of cyborg-agent.',
)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Values of the options of cyborg-agent."""

    accelerator_file: str = fields.option(
        cfg.StrOpt,
        default='/etc/cyborg/inventory.yaml',
        help="""
File that lists the physical I/O slots of this host that Cyborg manages.

The file has the format of nova-compute's inventory file. If the file is
missing or empty, no slot is reported. If it is invalid, cyborg-agent does not
start.

A running cyborg-agent checks the file for changes in each period and reads a
changed file without a restart as soon as two consecutive checks find the same
file. If the file has become invalid or empty, or was removed, cyborg-agent
logs an ERROR and keeps using the policy that it read last.
""",
    )
    inventory_file: str = fields.option(
        cfg.StrOpt,
        default='/etc/nova/inventory.yaml',
        help="""
Inventory file of nova-compute on this host.

A slot that both files identify is offered by neither service. cyborg-agent
reads this file in each period to find such slots. If it cannot read the file,
it goes by the providers that nova-compute has published.
""",
    )
    publish_location_traits: bool = fields.option(
        cfg.BoolOpt,
        default=True,
        help="""
Whether the physical location code of a slot (``DRC_NAME``) is among the traits
that are reported to Cyborg.

Set it to the value that it has in ``nova.conf``, where it is explained. A
restarted cyborg-agent removes the traits, or adds them again, with its first
report.
""",
    )
    server: powervm.Server = dataclasses.field(default_factory=powervm.Server)


# The agent does not wait for the host: it tries again in the next period.
OPTIONS = [
    option
    for option in fields.options_of(Settings)
    if option.name != 'rest_connect_timeout'
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options with a configuration; it may have them already."""
    fields.register(conf, GROUP, OPTIONS)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options for oslo.config's generator and documentation."""
    return [(GROUP.name, OPTIONS)]


def read_settings(group: Any) -> Settings:
    """Read and check the values of a ``[powervm]`` group.

    :param group: ``CONF.powervm``.
    :raises nova_powervm.exception.ConfigurationError: A value is invalid, or
        options contradict each other.
    """
    server = fields.read(powervm.Server, group, connect_timeout=0)
    powervm.check_server(server)
    return fields.read(Settings, group, server=server)
