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

"""What pypowervm reads of wrappers and of a whole host, as plain values."""

import collections.abc
import functools
import inspect

from pypowervm import const
from pypowervm.wrappers import cluster
from pypowervm.wrappers import entry_wrapper
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import management_console
from pypowervm.wrappers import monitor
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server as vios

from . import base

# Values that differ between readings: the server and its ETags.
_OF_THE_READING = frozenset(
    (
        'adapter',
        'entry',
        'element',
        'etag',
        'href',
        'related_href',
        'traits',
        'xags',
    )
)


def read_properties(wrapper, around=()):
    """Return the values of a wrapper's properties, by name.

    :param around: Types and elements of wrappers that contain it. Some
        contain themselves by way of another property.
    """
    around = (*around, _identity(wrapper))
    values = {}
    for name in _properties(type(wrapper)):
        try:
            value = getattr(wrapper, name)
        except Exception as error:
            value = f'{type(error).__name__}: {error}'
        values[name] = _plain(value, around)
    return values


@functools.cache
def _properties(type_):
    return [
        name
        for name, _ in inspect.getmembers(
            type_, lambda member: isinstance(member, property)
        )
        if not name.startswith('_') and name not in _OF_THE_READING
    ]


def _identity(wrapper):
    return type(wrapper), getattr(wrapper.element, 'element', None)


def _plain(value, around):
    if isinstance(value, entry_wrapper.Wrapper):
        if _identity(value) in around:
            return '...'
        return {type(value).__name__: read_properties(value, around)}
    if isinstance(value, str):
        return base.without_host(value)
    if isinstance(value, collections.abc.Mapping):
        return {key: _plain(item, around) for key, item in value.items()}
    if isinstance(value, collections.abc.Iterable):
        return [_plain(item, around) for item in value]
    return value


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
        kind: {one.uuid: read_properties(one) for one in found}
        for kind, found in wrappers(adapter).items()
    }
