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

"""Simulated volumes: what Nova has of them, and the volume driver of a host.

The driver is in place of that for Fibre Channel; the plans that use it are
the real ones.
"""

from nova_powervm import exception
from nova_powervm.lpar import volumes
from nova_powervm.ops import drivers
from tests.property.simulation import placement

KIND = 'simulated'


class _Disk(dict):
    """Nova's record of a volume, as it is passed to a driver."""

    def save(self):
        """Save nothing: the next one is made anew."""


def connection_of(volume):
    """Return what Nova has recorded of the connection of a volume."""
    return {'serial': volume, 'driver_volume_type': KIND, 'data': {}}


def disks_of(instance):
    """Return Nova's records of the volumes of an instance."""
    return [
        _Disk(
            boot_index=None,
            connection_info=connection_of(volume),
        )
        for volume in sorted(instance.volumes)
    ]


class Driver:
    """The volume driver of one nova-compute.

    :param server: Its REST server.
    :param machine: The host, which knows the LPAR of each volume.
    """

    def __init__(self, server, machine):
        self._server = server
        self._connected = machine.volumes

    def connector(self, lpar=None, ports=()):
        return {'host': 'simulated'}

    def check_arrival(self, number, virtual_slots):
        pass

    def check(self, volume):
        pass

    def elsewhere(self, wanted):
        return ()

    def check_disconnection(self, lpar_uuid, wanted):
        self._server.ask(lambda: None)

    def check_removal(self, lpar_uuid, wanted):
        pass

    def forget(self, located):
        pass

    def connected(self, lpar_uuid, wanted):
        return self._server.ask(
            lambda: {
                volume: volumes.Connected()
                for volume, owner in self._connected.items()
                if owner == lpar_uuid
            }
        )

    def find(self, volume, lpar_uuid):
        self._server.ask(lambda: None)
        if self._connected.get(volume.id, lpar_uuid) != lpar_uuid:
            raise placement.Wrong(f'{volume} is connected elsewhere')
        return drivers.LocatedVolume(volume.with_udid(f'udid-{volume.id}'))

    def connect(self, located, lpar):
        name = located.volume.id
        was_connected = name in self._connected
        try:
            self._server.ask(lambda: self._connected.update({name: lpar.uuid}))
        except exception.PowerVMError:
            if not was_connected:
                self.disconnect(located.volume, lpar.uuid)
            raise
        return {}

    def disconnect(self, volume, lpar_uuid):
        self._server.ask(lambda: self._connected.pop(volume.id, None))

    def remove(self, lpar_uuid, wanted=()):
        def work():
            for volume, owner in [*self._connected.items()]:
                if owner == lpar_uuid:
                    del self._connected[volume]

        self._server.ask(work)
