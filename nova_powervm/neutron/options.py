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

"""The options of the ``[pvm_sea]`` group of the neutron server."""

from typing import Any

from oslo_config import cfg

from nova_powervm.neutron import binding

GROUP = cfg.OptGroup(
    'pvm_sea',
    title='PowerVM mechanism driver options',
    help='Which ports the ML2 mechanism driver pvm_sea binds.',
)

OPTIONS = [
    cfg.ListOpt(
        'hosts',
        default=['*'],
        help="""
The PowerVM hosts, by the names that their nova-compute services have in
``[DEFAULT]host``.

Ports of other hosts are left to other mechanism drivers. ``*`` in a name
stands for any characters, ``?`` for one. Name the hosts in a cloud that has
other hypervisors, too.
""",
    ),
    cfg.ListOpt(
        'physical_networks',
        default=['*'],
        help="""
The physical networks that the PowerVM hosts are connected to.

Segments of other physical networks are not bound. ``*`` and ``?`` stand for
the same as in ``hosts``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the options known to a configuration, once or again."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Give the options to oslo.config's generator and documentation."""
    return [(GROUP.name, OPTIONS)]


def take(group: Any) -> binding.Rules:
    """Take the values of a ``[pvm_sea]`` group.

    :param group: ``CONF.pvm_sea``.
    """
    return binding.Rules(
        hosts=tuple(group.hosts),
        physical_networks=tuple(group.physical_networks),
    )
