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

"""What pypowervm reads of a whole host, as plain values."""

from pypowervm import const
from pypowervm.wrappers import cluster
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import management_console
from pypowervm.wrappers import monitor
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server as vios

from . import wrapper_properties

EVERY_GROUP = [
    const.XAG.VIO_STOR,
    const.XAG.VIO_NET,
    const.XAG.VIO_SMAP,
    const.XAG.VIO_FMAP,
]


def wrappers(adapter):
    """Read everything; return the wrappers of each kind."""
    systems = ms.System.get(adapter)
    lpars = lpar.LPAR.get(adapter)
    servers = vios.VIOS.get(adapter, xag=EVERY_GROUP)
    found = {'systems': systems, 'lpars': lpars, 'servers': servers}
    for type_ in (network.VSwitch, network.VNet, network.NetBridge):
        found[type_.__name__] = [
            one
            for system in systems
            for one in type_.get(adapter, parent=system)
        ]
    found['preferences'] = [
        one
        for system in systems
        for one in monitor.PcmPref.wrap(
            adapter.read_by_path(
                f'/rest/api/pcm/ManagedSystem/{system.uuid}/preferences'
            )
        )
    ]
    found['groups'] = [
        one
        for server in servers
        for one in storage.VG.get(adapter, parent=server)
    ]
    found['adapters'] = [
        one
        for partition in (*lpars, *servers)
        for one in network.CNA.get(adapter, parent=partition)
    ]
    consoles = management_console.ManagementConsole
    for type_ in (cluster.Cluster, storage.SSP, storage.Tier, consoles):
        found[type_.__name__] = list(type_.get(adapter))
    found['units'] = [
        one
        for tier in found['Tier']
        for one in storage.LUEnt.get(adapter, parent=tier)
    ]
    return found


def read(adapter):
    """Read everything; return its properties, by kind and UUID."""
    return {
        kind: {
            one.uuid: wrapper_properties.read_properties(one) for one in found
        }
        for kind, found in wrappers(adapter).items()
    }
