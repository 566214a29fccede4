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

"""Options of one nova-compute service on one PowerVM host."""

import dataclasses
import re
import urllib.parse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.instance import shared_ethernet

_MAPPING = re.compile(
    r'(?P<network>[^:]+):(?P<switch>[^/]+?)(/(?P<pvid>\d{1,4}))?$'
)
#: What a PVID may be.
_VLANS = range(1, 4095)
#: What ``rest_read_timeout`` is unless it is set.
READ_TIMEOUT = 30

GROUP = cfg.OptGroup(
    'powervm',
    title='PowerVM options',
    help='How nova-compute reaches and uses its PowerVM (NovaLink) host.',
)

OPTIONS = [
    cfg.StrOpt(
        'inventory_file',
        default='/etc/nova/inventory.yaml',
        help="""
The file that says which physical I/O slots of this host instances may get.

It is read when nova-compute starts. Without the file, or with an empty one,
no device is offered; with a bad one nova-compute does not start.

In each cycle (``[DEFAULT]update_resources_interval``) a running nova-compute
looks whether the file has changed. It is read again, without a restart, when
two looks agree. A file that became bad or empty, or is gone, is not used: what
was read before stays in force, and an ERROR says so.
""",
    ),
    cfg.StrOpt(
        'rest_url',
        help="""
Where the PowerVM REST API of the host answers, e.g.
``https://novalink.example.org:12443``.

If unset, nova-compute runs on the NovaLink partition itself and uses the local
session of the user it runs as, who has to be in the group ``pvm_admin``.

Related options:

* ``[powervm]rest_username`` and ``[powervm]rest_password`` are needed with it.
""",
    ),
    cfg.StrOpt(
        'rest_username',
        help='User of the PowerVM REST API. Needed with rest_url.',
    ),
    cfg.StrOpt(
        'rest_password',
        secret=True,
        help='Password of rest_username. Needed with rest_url.',
    ),
    cfg.StrOpt(
        'rest_cafile',
        help="""
File with the certificate authorities to trust for an https ``rest_url``.

If unset, those of the system are trusted. Certificates are always verified.

The variables REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, if set in the environment,
win over this option.
""",
    ),
    cfg.IntOpt(
        'rest_connect_timeout',
        default=300,
        min=0,
        help="""
For how many seconds a starting nova-compute waits for the REST API to answer.

It then waits as long again, if it has to, until the host tells the power state
of each instance's LPAR: only so can Nova start again what ran before the host
went down (``[DEFAULT]resume_guests_state_on_host_boot``). Once the host has
told some states, the others get a minute.

One line a minute in the log tells what it is waiting for.
""",
    ),
    cfg.IntOpt(
        'rest_read_timeout',
        default=READ_TIMEOUT,
        min=1,
        help="""
For how many seconds the REST API may be silent before a read is given up.

A read that was given up is not tried again before the next cycle, or the next
request of a user. Writes, jobs and uploads, which may take long, have limits
of their own.

Raise it if the log says that reads are given up on a host that is only slow.
""",
    ),
    cfg.FloatOpt(
        'proc_units_factor',
        default=0.1,
        min=0.05,
        max=1.0,
        help="""
Processing units behind each virtual processor of an instance.

PowerVM shares processors: an instance with 4 vCPUs and a factor of 0.1 is
guaranteed 0.4 of a processor and can use 4 when others leave them idle.

Placement offers the host's processors as VCPU, multiplied by
``[DEFAULT]cpu_allocation_ratio``. If that and this factor together promise
more processing units than the host has, nova-compute warns at start.
""",
    ),
    cfg.StrOpt(
        'provider_names',
        default='node',
        choices=[
            (
                'node',
                '``PowerVM IOSlot <node> <DRC index>``, unique in the cloud',
            ),
            (
                'spec',
                '``PowerVM IOSlot <DRC index>``, for clouds of one host only',
            ),
        ],
        help="""
Form of the names of new resource providers of slots.

Names are unique in a whole Placement service and DRC indexes repeat from host
to host, so ``spec`` fails on the second host of a cloud. Existing providers
keep the name that they have.
""",
    ),
    cfg.StrOpt(
        'disk_driver',
        default='localdisk',
        help="""
How the disks of instances are kept.

``localdisk`` makes them in a volume group of a Virtual I/O Server. Others can
be added as entry points of ``nova_powervm.disk_drivers``.

Related options:

* ``[powervm]volume_group_name`` is needed by ``localdisk``.
""",
    ),
    cfg.StrOpt(
        'volume_group_name',
        help="""
Volume group of a Virtual I/O Server in which the disks of instances are made.

Its size is the host's DISK_GB; what others keep in it is reserved. If several
Virtual I/O Servers have a group of this name, put the server's name before it:
``vios1/datavg``.

If unset, the host offers no DISK_GB and can't build instances.
""",
    ),
    cfg.StrOpt(
        'media_volume_group_name',
        default='rootvg',
        help="""
Volume group for the media repository, which holds the config drives.

It is one of the Virtual I/O Server that has ``volume_group_name``. A media
repository that the server has already is used, wherever it is.
""",
    ),
    cfg.IntOpt(
        'media_repository_gb',
        default=1,
        min=1,
        help="""
Size in GB of the media repository, if one has to be made.

A config drive takes about half a megabyte.
""",
    ),
    cfg.ListOpt(
        'bridge_mappings',
        default=[],
        help="""
Which Shared Ethernet bridge serves which physical network of Neutron.

Each item is ``PHYSICAL_NETWORK:SWITCH`` with the name of the bridge's virtual
switch, or ``PHYSICAL_NETWORK:SWITCH/PVID`` where the switch has several
bridges, e.g. ``default:ETHERNET0,storage:ETHERNET1/4093``.

If empty, the only bridge of the host serves every network.
""",
    ),
    cfg.BoolOpt(
        'provision_vlans',
        default=True,
        help="""
Whether VLANs of ports are added to the Shared Ethernet bridges.

A VLAN that was added so is removed when nothing on the host uses it any more.
Those that somebody else has added stay.

If false, a port whose VLAN is not on its bridge is refused, and none is
removed: for sites that provision the bridges by other means.
""",
    ),
    cfg.BoolOpt(
        'skip_free_provider_reads',
        default=False,
        help="""
Whether nova-compute leaves out reading the allocations of devices that are
free.

Nova reads the allocations of each provider of a host about once a minute, and
at each boot: N + 2 requests to Placement for N devices. It has no use for the
answers unless providers are reshaped. If true, one request for each resource
class finds the devices that are free, and only the others are read.

It replaces a method of Nova's report client in this process. So it switches
itself off, with a warning, if ``[pci]report_in_placement`` is set, which needs
the answers, and with a Nova that it has not been tested with.
""",
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """How to reach the REST API.

    :param url: Unset for the local session of a NovaLink partition.
    :param username: User, with ``url``.
    :param password: Its password; never shown.
    :param cafile: Certificate authorities, or None for the system's.
    :param connect_timeout: Seconds to wait for it when starting.
    :param read_timeout: Seconds that it may be silent when it is asked.
    """

    url: str | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    cafile: str | None = None
    connect_timeout: int = 300
    read_timeout: float = READ_TIMEOUT

    @property
    def parts(self) -> urllib.parse.SplitResult:
        """The URL, taken apart."""
        return urllib.parse.urlsplit(self.url or 'http://localhost:12080')

    def __str__(self) -> str:
        return self.url or 'the local NovaLink session'


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All options of one service, taken once when the driver is made.

    Two services may share one ``CONF`` in a process of tests, so nothing of
    the driver reads it later.
    """

    server: Server = dataclasses.field(default_factory=Server)
    inventory_file: str = '/etc/nova/inventory.yaml'
    proc_units_factor: float = 0.1
    provider_names: str = 'node'
    disk_driver: str = 'localdisk'
    volume_group: str | None = None
    media_volume_group: str = 'rootvg'
    media_repository_gb: int = 1
    bridge_mappings: Mapping[str, shared_ethernet.BridgeName] = (
        dataclasses.field(default_factory=dict)
    )
    provision_vlans: bool = True
    skip_free_provider_reads: bool = False


def take(group: Any) -> Settings:
    """Take the values of a ``[powervm]`` group and check them.

    :param group: ``CONF.powervm``.
    :raises exception.ConfigurationError: Options contradict each other.
    """
    settings = Settings(
        server=Server(
            url=group.rest_url,
            username=group.rest_username,
            password=group.rest_password,
            cafile=group.rest_cafile,
            connect_timeout=group.rest_connect_timeout,
            read_timeout=group.rest_read_timeout,
        ),
        inventory_file=group.inventory_file,
        proc_units_factor=group.proc_units_factor,
        provider_names=group.provider_names,
        disk_driver=group.disk_driver,
        volume_group=group.volume_group_name,
        media_volume_group=group.media_volume_group_name,
        media_repository_gb=group.media_repository_gb,
        bridge_mappings=_bridge_mappings(group.bridge_mappings),
        provision_vlans=group.provision_vlans,
        skip_free_provider_reads=group.skip_free_provider_reads,
    )
    _check_server(settings.server)
    return settings


def _bridge_mappings(
    items: Iterable[str],
) -> dict[str, shared_ethernet.BridgeName]:
    mappings: dict[str, shared_ethernet.BridgeName] = {}
    for item in items:
        found = _MAPPING.match(item)
        pvid = int(found['pvid']) if found and found['pvid'] else None
        if found is None or (pvid is not None and pvid not in _VLANS):
            raise _bad_mapping(item, 'can not be understood')
        if found['network'] in mappings:
            raise _bad_mapping(item, 'is double')
        mappings[found['network']] = shared_ethernet.BridgeName(
            found['switch'], pvid
        )
    return mappings


def _bad_mapping(item: str, what: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(
        reason=f"[powervm]bridge_mappings: '{item}' {what}; an item looks "
        'like default:ETHERNET0 or default:ETHERNET0/4093, and each physical '
        'network has one'
    )


def _check_server(server: Server) -> None:
    if server.url is None:
        if server.username or server.password:
            raise exception.ConfigurationError(
                reason='[powervm]rest_username and rest_password are set but '
                'rest_url is not: set rest_url, or remove them to use the '
                'local session of the NovaLink partition'
            )
        return
    problem = _problem_with_url(server)
    if problem:
        raise exception.ConfigurationError(
            reason=f"[powervm]rest_url = '{server.url}' {problem}; it looks "
            'like https://novalink.example.org:12443'
        )
    if not (server.username and server.password):
        raise exception.ConfigurationError(
            reason='[powervm]rest_url is set, so rest_username and '
            'rest_password are needed, too'
        )


def _problem_with_url(server: Server) -> str | None:
    try:
        parts = server.parts
        port = parts.port
    except ValueError as error:
        return f'can not be understood ({error})'
    if parts.scheme not in ('http', 'https') or not parts.hostname:
        return 'is not an http or https URL with a host'
    if parts.username or parts.password:
        return 'holds credentials; they belong into rest_username/password'
    if port == 0 or parts.path.strip('/') or parts.query or parts.fragment:
        return 'has more than a scheme, a host and a port'
    return None
