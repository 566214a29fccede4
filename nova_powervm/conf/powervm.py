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

"""Options in the group ``[powervm]`` of one nova-compute service."""

import contextlib
import dataclasses
import ipaddress
import re
import urllib.parse
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.conf import fields
from nova_powervm.lpar import shared_ethernet

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAPPING = re.compile(
    r'(?P<network>[^:]+):(?P<switch>[^/]+?)(/(?P<pvid>\d{1,4}))?$'
)
#: VLAN ids that a PVID can have.
_VLANS = range(1, 4095)
_PROVIDER_NAMES = {
    'node': '``PowerVM IOSlot <node> <DRC index>``, unique in the cloud',
    'spec': '``PowerVM IOSlot <DRC index>``, for clouds of one host only',
}

_MANAGEMENT_CHOICES = {
    'new': 'new servers, and those that are rebuilt or unshelved',
    'all': 'others, too, when they start anew or move',
    'none': 'none that has no adapter yet',
}

GROUP = cfg.OptGroup(
    'powervm',
    title='PowerVM options',
    help='Options for the PowerVM (NovaLink) host of nova-compute.',
)


def parse_mappings(
    items: Iterable[str],
) -> dict[str, shared_ethernet.BridgeName]:
    """Parse the items of the option ``bridge_mappings``.

    :param items: Each in the form ``PHYSICAL_NETWORK:SWITCH`` or
        ``PHYSICAL_NETWORK:SWITCH/PVID``.
    :returns: Physical network to the name of its bridge.
    :raises exception.ConfigurationError: An item is malformed, or a physical
        network is mapped twice.
    """
    mappings: dict[str, shared_ethernet.BridgeName] = {}
    for item in items:
        match = _MAPPING.match(item)
        pvid = int(match['pvid']) if match and match['pvid'] else None
        if match is None or (pvid is not None and pvid not in _VLANS):
            raise _mapping_error(item, 'is malformed')
        network, switch = match['network'], match['switch']
        if network in mappings:
            raise _mapping_error(item, 'maps a physical network twice')
        mappings[network] = shared_ethernet.BridgeName(switch, pvid)
    return mappings


def _mapping_error(item: str, problem: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(
        reason=f"[powervm]bridge_mappings: '{item}' {problem}. Write "
        'default:ETHERNET0 or default:ETHERNET0/4093, and give each physical '
        'network once.'
    )


def parse_networks(items: Iterable[str]) -> Sequence[Network]:
    """Parse the items of the option ``vnc_allowed_clients``.

    :raises exception.ConfigurationError: An item is no address or network.
    """
    networks = []
    for item in items:
        try:
            networks.append(ipaddress.ip_network(item))
        except ValueError as error:
            raise exception.ConfigurationError(
                reason=f"[powervm]vnc_allowed_clients has '{item}', which is "
                f'no address or network ({error}). Valid ones look like '
                '192.0.2.10 and 192.0.2.0/24'
            ) from error
    return networks


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Connection parameters of the PowerVM REST API."""

    url: str | None = fields.option(
        cfg.StrOpt,
        'rest_url',
        help="""
URL of the PowerVM REST API of the host, for example
``https://novalink.example.org:12443``.

If unset, the service must run on the NovaLink partition itself. It then uses a
local session, and its user must be a member of the group ``pvm_admin``. Plain
http on a loopback address, without a user name and a password, is a local
session, too; this serves for an API on another port. The port of a local
session must belong to root, to a service (a user id below 1000), or to
nova-compute's own user.

Redirects are not followed, and proxies in the environment of nova-compute are
not used.

Related options:

* ``[powervm]rest_username`` and ``[powervm]rest_password`` are required with
  any other URL.
""",
    )
    username: str | None = fields.option(
        cfg.StrOpt,
        'rest_username',
        help='User name for the PowerVM REST API. See rest_url.',
    )
    password: str | None = fields.option(
        cfg.StrOpt,
        'rest_password',
        secret=True,
        help='Password of rest_username. See rest_url.',
    )
    cafile: str | None = fields.option(
        cfg.StrOpt,
        'rest_cafile',
        help="""
File with the CA certificates that are trusted for an https ``rest_url``.

If unset, the system's CA certificates are used. Certificates are always
verified.

The environment variables REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE take precedence
over this option.
""",
    )
    connect_timeout: int = fields.option(
        cfg.IntOpt,
        'rest_connect_timeout',
        default=300,
        min=0,
        help="""
Number of seconds that a starting nova-compute waits for the REST API to
answer.

It then waits up to the same time again until the host reports the power state
of each instance's LPAR, which Nova needs in order to restart the instances
that were running before the host went down
(``[DEFAULT]resume_guests_state_on_host_boot``). Once the host has reported
some states, nova-compute waits one more minute for the others.

While it waits, nova-compute logs the reason once a minute.
""",
    )
    read_timeout: float = fields.option(
        cfg.IntOpt,
        'rest_read_timeout',
        default=30,
        min=1,
        help="""
Number of seconds in which the REST API must have answered a read completely.

A read that fails is repeated in the next cycle, or with the next user request.
Writes, jobs and uploads can take longer and have their own limits.

Increase the value if the log reports reads that timed out on a slow host.
""",
    )

    @property
    def parts(self) -> urllib.parse.SplitResult:
        """The components of the URL."""
        return urllib.parse.urlsplit(self.url or 'http://localhost:12080')

    @property
    def may_be_local(self) -> bool:
        """Whether the API is on this machine, so that it can share a token."""
        host = self.parts.hostname or ''
        return self.parts.scheme == 'http' and _is_loopback(host)

    def __str__(self) -> str:
        return self.url or 'the local NovaLink session'


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Values of the options of one service, read when the driver is created.

    The driver does not read ``CONF`` later, because several services share it
    in one test process.
    """

    inventory_file: str = fields.option(
        cfg.StrOpt,
        default='/etc/nova/inventory.yaml',
        help="""
File that lists the physical I/O slots of this host that instances can use.

nova-compute reads the file when it starts. If the file is missing or empty, no
device is offered. If it is invalid, nova-compute does not start.

A running nova-compute checks the file for changes in each cycle
(``[DEFAULT]update_resources_interval``) and reads a changed file without a
restart as soon as two consecutive checks find the same file. If the file has
become invalid or empty, or was removed, nova-compute logs an ERROR and keeps
using the policy that it read last.
""",
    )
    server: Server = dataclasses.field(default_factory=Server)
    proc_units_factor: float = fields.option(
        cfg.FloatOpt,
        default=0.1,
        min=0.05,
        max=1.0,
        help="""
Number of processing units for each virtual processor of an instance.

PowerVM shares processors. With a factor of 0.1, an instance with 4 vCPUs is
guaranteed 0.4 processors and can use up to 4 while they are idle. A flavor
can say otherwise with ``powervm:proc_units``.

A change applies to new LPARs, and to those whose number of vCPUs changes.

Placement offers the host's processors as VCPU, multiplied by
``[DEFAULT]cpu_allocation_ratio``. If that ratio and this factor together
promise more processing units than the host has, nova-compute logs a warning
when it starts.
""",
    )
    provider_names: str = fields.option(
        cfg.StrOpt,
        default='node',
        choices=[*_PROVIDER_NAMES.items()],
        help="""
Format of the names of new slot providers.

Provider names are unique across the whole Placement service, whereas DRC
indexes repeat from host to host. Therefore ``spec`` fails on the second host
of a cloud. Existing providers keep their names.
""",
    )
    publish_location_traits: bool = fields.option(
        cfg.BoolOpt,
        default=True,
        help="""
Whether the physical location code of a slot (``DRC_NAME``) is among the traits
of its provider.

Location codes differ from host to host, so Placement has one such trait for
each slot of the cloud, and reads all its traits in most requests about
traits. From about a hundred hosts on, set this to false on all of them, and
remove the unused traits with ``nova-powervm-inventory trait purge``.

Without the trait, a flavor cannot ask for a slot by its location, and a slot
that is now at another location is not noticed as such: a card with other ids
there goes into quarantine, and one with the same ids is taken for the former
one. The inventory file can identify slots by ``drc_name`` in either case.

A restarted nova-compute removes the traits, or adds them again, in its first
cycle. A provider whose slot is gone or elsewhere at that time keeps its trait.

Related options:

* ``[powervm]publish_location_traits`` in ``cyborg.conf`` does the same for the
  slots of Cyborg.
""",
    )
    disk_driver: str = fields.option(
        cfg.StrOpt,
        default='localdisk',
        help="""
Driver for the disks of instances.

``localdisk`` creates them in a volume group of a Virtual I/O Server. ``ssp``
creates them in a shared storage pool, where all hosts of the cluster see them:
an evacuated server keeps its disks. Further drivers can be installed as entry
points of ``nova_powervm.disk_drivers``.

Related options:

* ``[powervm]volume_group_name`` is required by ``localdisk``.
* ``[powervm]cluster_name`` and ``[powervm]tier_name`` are for ``ssp``.
""",
    )
    volume_group: str | None = fields.option(
        cfg.StrOpt,
        'volume_group_name',
        help="""
Volume group of a Virtual I/O Server that holds the disks of instances.

The size of the group is the host's inventory of DISK_GB; space that is used
for other purposes is reserved. If several Virtual I/O Servers have a group of
this name, put the name of the server in front: ``vios1/datavg``.

If unset, the host offers no DISK_GB and can't build instances.
""",
    )
    disk_clear: str = fields.option(
        cfg.StrOpt,
        default='zero',
        choices=[
            ('zero', 'they are overwritten with zeros'),
            ('none', 'they may be read by the guest'),
        ],
        help="""
What happens to the bytes of deleted disks that are left where ``localdisk``
makes a disk, or enlarges one.

It is not known whether a Virtual I/O Server overwrites them. On the NovaLink
partition, nova-compute does that through the disk's device, which takes
minutes for 100 GB. With a ``rest_url``, and where the partition is the Virtual
I/O Server that has the disks, it uploads zeros instead. Images have to be raw
then, and root disks cannot be enlarged.

Use ``none`` only if the storage returns zeros for blocks that were deleted, or
if all tenants trust each other.
""",
    )
    cluster_name: str | None = fields.option(
        cfg.StrOpt,
        help="""
Cluster of Virtual I/O Servers whose shared storage pool holds the disks of
instances, with ``disk_driver = ssp``.

If unset, the host must belong to exactly one cluster. The size of the pool is
the inventory of DISK_GB of each host that shares it, so Placement can promise
the same space on several hosts.
""",
    )
    tier_name: str | None = fields.option(
        cfg.StrOpt,
        help="""
Tier of the shared storage pool in which disks are created.

If unset, the default tier of the pool is used. All hosts that share the pool
should use the same tier, because each tier has images of its own.
""",
    )
    check_disks_in_use: bool = fields.option(
        cfg.BoolOpt,
        default=True,
        help="""
Whether nova-compute refuses to build a server with disks of a shared storage
pool that a running LPAR uses, according to the pool (REST element ``InUse``).

This protects a server whose old host was not powered off before the server was
evacuated. Set the option to false only if the pool reports disks of LPARs that
do not run as being in use, and only while nothing but your own procedure keeps
two LPARs from writing to one disk.
""",
    )
    media_volume_group: str = fields.option(
        cfg.StrOpt,
        'media_volume_group_name',
        default='rootvg',
        help="""
Volume group for the media repository, which holds the config drives.

The group belongs to the Virtual I/O Server of ``volume_group_name``, or with
``disk_driver = ssp`` to the first one of the host in the cluster. If this
server already has a media repository, that one is used, in any group.
""",
    )
    media_repository_gb: int = fields.option(
        cfg.IntOpt,
        default=1,
        min=1,
        help="""
Size in GB of the media repository, if one has to be created.

A config drive takes about half a megabyte.
""",
    )
    vios_paths_required: int = fields.option(
        cfg.IntOpt,
        default=1,
        min=1,
        help="""
Number of Virtual I/O Servers that have to find a volume for a server to get
it.

Each server with Fibre Channel ports that answers gives a path. With the
default, a volume is attached by one path while another server is down, and
nova-compute logs a warning; a hard reboot adds the path later. With 2, such an
attachment is refused.
""",
    )
    virtual_slots: int = fields.option(
        cfg.IntOpt,
        default=128,
        min=64,
        max=1024,
        help="""
Number of virtual slots of new LPARs (``MaximumVirtualIOSlots``).

Those from 64 on are for volumes, which need one for each Virtual I/O Server
with Fibre Channel ports: the default is enough for 32 volumes with two
servers. With 64, an LPAR has two slots for volumes. PowerVM changes the number
only while an LPAR is off; nova-compute sets it when it creates one.
""",
    )
    rmc_adapter: str = fields.option(
        cfg.StrOpt,
        default='new',
        choices=[*_MANAGEMENT_CHOICES.items()],
        help="""
Which servers get a network adapter on the virtual switch MGMTSWITCH, by which
a guest with the RSCT packages answers RMC requests of NovaLink.

Without an active RMC connection, ports and volumes can be attached to a server
only while it is stopped. The adapter is not a port of the server: Neutron
knows nothing about it, and it reaches the NovaLink partition only. Restrict
what guests reach there: see the page "Security". A server that has an adapter
keeps it, whatever this option says. There is none if the host has no such
switch, or if the mode of the switch is not Vepa.

A flavor with ``powervm:rmc_adapter=false`` or an image with
``powervm_rmc_adapter=false`` exempts a server.
""",
    )
    bridge_mappings: Mapping[str, shared_ethernet.BridgeName] = fields.option(
        cfg.ListOpt,
        parse=parse_mappings,
        default=[],
        help="""
Mapping of Neutron's physical networks to Shared Ethernet bridges.

Each item has the form ``PHYSICAL_NETWORK:SWITCH``, with the name of the
bridge's virtual switch, or ``PHYSICAL_NETWORK:SWITCH/PVID`` if the switch has
several bridges. Example: ``default:ETHERNET0,storage:ETHERNET1/4093``.

If empty, the host's only bridge serves all networks.
""",
    )
    provision_vlans: bool = fields.option(
        cfg.BoolOpt,
        default=True,
        help="""
Whether to add the VLANs of ports to the Shared Ethernet bridges.

A VLAN that nova-compute has added is removed when nothing on the host uses it
any more. VLANs that were added by other means are kept.

If false, nova-compute neither adds nor removes VLANs, and refuses a port whose
VLAN is not on its bridge. Use this at sites that provision the bridges by
other means.
""",
    )
    fixed_mac_addresses: bool = fields.option(
        cfg.BoolOpt,
        default=False,
        help="""
Whether network adapters keep the MAC addresses of their ports, so that the
operating system of a guest cannot give them other ones.

If true, new adapters are created with AllowedOperatingSystemMACAddresses set
to NONE, so that a guest cannot take the address of another one on its VLAN.
Nova does not tell the driver whether port security is disabled for a port, so
this holds for all ports: whatever needs addresses of its own in a guest, such
as a failover with a virtual MAC address or nested guests on a bridge, stops
working. An adapter that exists keeps its setting.
""",
    )
    management_root: str = fields.option(
        cfg.StrOpt,
        default='/',
        help="""
Root directory of the management partition, on which nova-compute runs.

To read a disk, nova-compute makes it appear by a file below ``sys``, and opens
it below ``dev``.

With any other value than ``/``, nova-compute accesses these files as its own
user, and not by privilege separation. This is for emulated hosts: it is the
directory of ``powervm-emulator --host-root``.
""",
    )
    vnc_port: int = fields.option(
        cfg.PortOpt,
        default=5901,
        min=1,
        help="""
Port on which nova-compute serves the consoles of all instances to Nova's
proxies.

nova-compute listens on the address ``[vnc]server_proxyclient_address`` as soon
as somebody asks for a console. The data is not encrypted: use a network that
connects the compute hosts with the proxies only.
""",
    )
    vnc_allowed_clients: Sequence[Network] = fields.option(
        cfg.ListOpt,
        parse=parse_networks,
        default=[],
        help="""
Addresses or networks of the clients that can connect to ``vnc_port``: those of
nova-novncproxy. Example: ``192.0.2.10,2001:db8::/64``.

If empty, all clients can connect. A console has a random path without which
nobody gets it in either case.
""",
    )
    vnc_close_other_terminals: bool = fields.option(
        cfg.BoolOpt,
        default=False,
        help="""
Whether a user who asks for the console of a server closes a terminal of its
LPAR that somebody else has open.

An LPAR has one terminal. If an administrator of the host has opened it in a
shell (``mkvterm``), the console is refused with this reason until the terminal
is closed (``rmvterm``). If this option is true, it is closed at once.
""",
    )
    metrics_file: str | None = fields.option(
        cfg.StrOpt,
        help="""
File that nova-compute writes in each cycle, with metrics for Prometheus.

A collector of text files, such as that of the Prometheus node exporter, reads
it; the name has to end in ``.prom`` there. The user of nova-compute must be
able to create files in its directory. Nothing is asked for it but, while
one-time-use devices are burned, Nova's conductor which projects burned them:
``nova-powervm-inventory metrics`` tells more.

If unset, no file is written.
""",
    )
    max_burns_per_hour: int | None = fields.option(
        cfg.IntOpt,
        min=1,
        help="""
Number of one-time-use devices of this host that a project can use up in an
hour.

A server of the project that would exceed the limit is not built, unshelved,
resized or migrated here; Nova tries other hosts. Evacuations, rebuilds and
reboots are never refused. What a project has used up is read from Nova's
records of its servers, with deleted ones as long as they are not archived.

The limit is approximate: each host counts for itself, so that with five hosts
a project can use up five times as many, and what a server had before a resize
or unshelve is estimated. See "Use up cards" in the page "One-time use" of the
documentation.

If unset, there is no limit, and nothing is read for it.
""",
    )
    skip_free_provider_reads: bool = fields.option(
        cfg.BoolOpt,
        default=False,
        help="""
Whether nova-compute skips reading the allocations of free devices.

Nova reads the allocations of each provider of a host about once a minute, and
whenever an instance is built: N + 2 requests to Placement for N devices. It
uses the answers only when providers are reshaped. If this option is true,
nova-compute finds the free devices with one request for each resource class
and reads the allocations of the other devices only.

The option replaces a method of Nova's report client in the nova-compute
process. It disables itself, with a warning, if ``[pci]report_in_placement`` is
set, which needs the answers, or if it has not been tested with the installed
release of Nova.
""",
    )
    #: Placement's allocation ratio of DISK_GB, an option of Nova.
    disk_overcommitment: float = 1.0
    #: Where consoles are served, an option of Nova.
    vnc_host: str = '127.0.0.1'


OPTIONS = [*fields.options_of(Settings)]


def read_settings(group: Any) -> Settings:
    """Read and check the values of a ``[powervm]`` group.

    :param group: ``CONF.powervm``.
    :raises exception.ConfigurationError: A value is invalid, or options
        contradict each other.
    """
    settings = fields.read(Settings, group)
    check_server(settings.server)
    return settings


def check_server(server: Server) -> None:
    """Check the connection parameters against each other.

    :raises exception.ConfigurationError: A value is invalid, or options
        contradict each other.
    """
    if server.url is None:
        if server.username or server.password:
            raise exception.ConfigurationError(
                reason='[powervm]rest_username and rest_password are set but '
                'rest_url is not. Set rest_url, or remove both to use the '
                'local session of the NovaLink partition.'
            )
        return
    problem = _problem_with_url(server)
    if problem:
        raise exception.ConfigurationError(
            reason=f"[powervm]rest_url = '{server.url}' {problem}. "
            'A valid URL looks like https://novalink.example.org:12443'
        )
    if not (server.username or server.password) and server.may_be_local:
        return
    if not (server.username and server.password):
        raise exception.ConfigurationError(
            reason='[powervm]rest_url is set, but rest_username or '
            'rest_password is not. Set all three; a local session without '
            'both needs plain http on a loopback address.'
        )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == 'localhost'


def _problem_with_url(server: Server) -> str | None:
    try:
        parts = server.parts
        port = parts.port
    except ValueError as error:
        return f'is malformed ({error})'
    if parts.scheme not in ('http', 'https') or not parts.hostname:
        return 'is not an http or https URL with a host'
    if parts.username or parts.password:
        return 'contains credentials, which belong in rest_username/password'
    if port == 0 or parts.path.strip('/') or parts.query or parts.fragment:
        return 'has more than a scheme, a host and a port'
    return None
