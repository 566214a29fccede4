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

"""The options in group ``[pvm_sea]`` of the Neutron server."""

from typing import Any

from oslo_config import cfg

from nova_powervm.neutron import binding

GROUP = cfg.OptGroup(
    'pvm_sea',
    title='PowerVM mechanism driver options',
    help='Options that select the ports that ML2 driver pvm_sea binds.',
)

OPTIONS = [
    cfg.ListOpt(
        'hosts',
        default=['*'],
        help="""
The names of the PowerVM hosts, as set in ``[DEFAULT]host`` for their
nova-compute services.

Ports on other hosts are left to other mechanism drivers. In a name, ``*``
matches any characters and ``?`` matches one character. Set this option if the
cloud also has other hypervisors.
""",
    ),
    cfg.ListOpt(
        'physical_networks',
        default=['*'],
        help="""
The physical networks that the PowerVM hosts are connected to.

Segments of other physical networks are not bound. ``*`` and ``?`` work as in
``hosts``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options; registering them again has no effect."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options for oslo.config's sample generator and Sphinx."""
    return [(GROUP.name, OPTIONS)]


def take(group: Any) -> binding.Rules:
    """Return the rules that a ``[pvm_sea]`` group sets.

    :param group: ``CONF.pvm_sea``.
    """
    return binding.Rules(
        hosts=tuple(group.hosts),
        physical_networks=tuple(group.physical_networks),
    )
