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

"""The administrator's requests to the cloud's public APIs."""

import base64
import dataclasses
import time
import typing

import openstack.connection
import openstack.exceptions

from demo import compute_hosts
from demo import cyborg_client
from demo import stack as stack_lib

# Knows in_tree, nested allocation candidates and group_policy.
_PLACEMENT_MICROVERSION = '1.36'
# Knows why an event has failed.
_EVENTS_MICROVERSION = '2.84'

IMAGE = 'tiny'
NETWORK = 'demo'
KEY = 'demo'

#: The root disk of a flavor, in GB. An image of a server is as large.
DISK_GB = 1


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What a flavor gives to a server."""

    memory_mb: int = 2048
    processors: int = 1
    disk_gb: int = DISK_GB


SMALL = Sizes()


@dataclasses.dataclass(frozen=True)
class Provider:
    """A resource provider with its inventories, usages and traits.

    ``inventories`` and ``usages`` are keyed by resource class.
    """

    uuid: str
    name: str
    parent: str | None
    root: str
    inventories: dict[str, dict[str, typing.Any]]
    usages: dict[str, int]
    traits: list[str]

    def published(self) -> dict[str, typing.Any]:
        """Return the properties of a provider that its driver decides."""
        return {
            'parent': self.parent,
            'root': self.root,
            'inventories': self.inventories,
            'traits': self.traits,
        }


@dataclasses.dataclass(frozen=True)
class Server:
    """A server as the compute API shows it to the administrator.

    ``fault`` is the message of its fault, or empty.
    """

    id: str
    name: str
    instance_name: str
    status: str
    fault: str

    @property
    def is_settled(self) -> bool:
        """Whether the server has reached its final status.

        Nova sets the fault of a server after the status ERROR.
        """
        return self.status == 'ACTIVE' or (
            self.status == 'ERROR' and bool(self.fault)
        )


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in Glance, with the hash that Glance computed."""

    id: str
    size: int
    hash_algorithm: str
    hash_value: str


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume as Cinder shows it; ``size`` is in GiB."""

    id: str
    status: str
    size: int


@dataclasses.dataclass(frozen=True)
class Network:
    """A network and the VLAN that Neutron assigned to it."""

    id: str
    vlan: int


@dataclasses.dataclass(frozen=True)
class Port:
    """A port in Neutron."""

    mac: str
    status: str
    vif_type: str


class Cloud:
    """A connection to one cloud as its administrator.

    All methods raise openstack.exceptions.SDKException if an API refuses a
    request. Methods that wait raise TimeoutError.
    """

    def __init__(self, stack: stack_lib.Stack) -> None:
        self._api = openstack.connection.Connection(
            auth={
                'auth_url': stack.auth_url,
                'username': 'admin',
                'password': stack.passwords['admin'],
                'project_name': 'admin',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            region_name=stack_lib.REGION,
            app_name='nova-powervm-demo',
        )

    @property
    def cyborg(self) -> cyborg_client.Cyborg:
        """The API of Cyborg, in a cloud that has it."""
        return cyborg_client.Cyborg(self._api.accelerator)

    @property
    def compute_hosts(self) -> compute_hosts.ComputeHosts:
        """The compute hosts, and what moves servers between them."""
        return compute_hosts.ComputeHosts(self._api)

    def create_image(self, data: bytes) -> Image:
        """Upload a raw image and return it as Glance reports it."""
        created = self._api.image.create_image(
            name=IMAGE,
            data=data,
            container_format='bare',
            disk_format='raw',
            validate_checksum=False,
            wait=True,
        )
        return self._image(created.id)

    def find_image(self, name: str) -> Image:
        """Return the only image with a name."""
        found = self._api.image.find_image(name, ignore_missing=False)
        return self._image(found.id)

    def _image(self, identifier: str) -> Image:
        image = self._api.image.get_image(identifier)
        return Image(
            id=image.id,
            size=image.size,
            hash_algorithm=image.hash_algo,
            hash_value=image.hash_value,
        )

    def create_network(self) -> Network:
        """Create a network with a subnet, on a VLAN that Neutron chooses."""
        network = self._api.network.create_network(name=NETWORK)
        self._api.network.create_subnet(
            network_id=network.id,
            ip_version=4,
            cidr='192.0.2.0/24',
            # There is no DHCP agent.
            enable_dhcp=False,
        )
        return Network(network.id, int(network.provider_segmentation_id))

    def create_key(self, public_key: str) -> None:
        """Import a public key."""
        self._api.compute.create_keypair(name=KEY, public_key=public_key)

    def ports(self, server: Server) -> list[Port]:
        """Return the ports of a server, as the administrator sees them."""
        return [
            Port(
                mac=port.mac_address,
                status=port.status,
                vif_type=port.binding_vif_type,
            )
            for port in self._api.network.ports(device_id=server.id)
        ]

    def create_flavor(
        self, name: str, extra_specs: dict[str, str], sizes: Sizes = SMALL
    ) -> None:
        """Create a flavor with these sizes and extra specs."""
        flavor = self._api.compute.create_flavor(
            name=name,
            ram=sizes.memory_mb,
            vcpus=sizes.processors,
            disk=sizes.disk_gb,
        )
        self._api.compute.create_flavor_extra_specs(flavor, extra_specs)

    def extra_specs(self, flavor: str) -> dict[str, str]:
        """Return the extra specs of a flavor."""
        found = self._api.compute.find_flavor(flavor, get_extra_specs=True)
        return dict(found.extra_specs)

    def create_server(
        self,
        name: str,
        flavor: str,
        image: Image,
        network: Network,
        user_data: str,
        seconds: float = 60,
        host: str | None = None,
    ) -> Server:
        """Create a server with a port, a key and a config drive, and wait.

        :param host: where it has to be; by default the scheduler chooses.
        :param seconds: see :meth:`_settle`, also for what is returned.
        """
        created = self._api.compute.create_server(
            name=name,
            flavor_id=self._api.compute.find_flavor(flavor).id,
            image_id=image.id,
            networks=[{'uuid': network.id}],
            key_name=KEY,
            config_drive=True,
            user_data=base64.b64encode(user_data.encode()).decode(),
            **({} if host is None else {'host': host}),
        )
        return self._settle(created.id, seconds)

    def reboot_server(self, server: Server, seconds: float = 60) -> Server:
        """Reboot a server hard, and wait as :meth:`create_server` does."""
        self._api.compute.reboot_server(server.id, 'HARD')
        return self._settle(server.id, seconds)

    def rebuild_server(
        self, server: Server, image: Image, seconds: float = 60
    ) -> Server:
        """Rebuild a server, and wait as :meth:`create_server` does."""
        self._api.compute.rebuild_server(server.id, image=image.id)
        return self._settle(server.id, seconds)

    def console_url(self, server: Server) -> str:
        """Return the URL at which a browser shows a server's console."""
        found = self._api.compute.create_console(server.id, 'novnc')
        return str(found['url'])

    def last_action(self, server: Server) -> dict[str, typing.Any]:
        """Return the last action on a server and the results of its events."""
        path = f'/servers/{server.id}/os-instance-actions'
        (last, *_) = self._compute(path)['instanceActions']
        events = self._compute(f'{path}/{last["request_id"]}')
        results = {
            event['result'] or 'unfinished'
            for event in events['instanceAction']['events']
        }
        return {'action': last['action'], 'results': sorted(results)}

    def last_details(self, server: Server) -> list[str]:
        """Return what the events of the last action on a server say."""
        path = f'/servers/{server.id}/os-instance-actions'
        (last, *_) = self._compute(path)['instanceActions']
        found = self._compute(
            f'{path}/{last["request_id"]}', _EVENTS_MICROVERSION
        )
        details = (
            event['details'] for event in found['instanceAction']['events']
        )
        return [one for one in details if one]

    def delete_server(self, server: Server, seconds: float = 60) -> None:
        """Delete a server and wait until it is gone."""
        self._api.compute.delete_server(server.id)
        deadline = time.monotonic() + seconds
        while self._api.compute.find_server(server.id):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f'server {server.name} still exists after {seconds:.0f} s'
                )
            time.sleep(0.2)

    def compute_node_uuid(self) -> str:
        """Return the UUID of the only compute node."""
        (node,) = self._api.compute.hypervisors()
        return str(node.id)

    def provider_tree(self, provider: str) -> list[Provider]:
        """Return the tree that contains the provider with this UUID.

        The root comes first; the other providers follow, sorted by name.
        """
        found = self._placement('/resource_providers?in_tree=' + provider)
        return sorted(
            (self._provider(item) for item in found['resource_providers']),
            key=lambda item: (item.parent is not None, item.name),
        )

    def provider_tree_uuids(self, provider: str) -> list[str]:
        """Return the sorted UUIDs of the tree that contains a provider."""
        found = self._placement('/resource_providers?in_tree=' + provider)
        return sorted(item['uuid'] for item in found['resource_providers'])

    def allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return the resources allocated to a consumer, by provider UUID."""
        found = self._placement('/allocations/' + consumer)['allocations']
        return {
            provider: dict(entry['resources'])
            for provider, entry in found.items()
        }

    def server(self, identifier: str) -> Server:
        """Return the server with this UUID as it is now."""
        found = self._api.compute.get_server(identifier)
        return Server(
            id=found.id,
            name=found.name,
            instance_name=found.instance_name,
            status=found.status,
            fault=(found.fault or {}).get('message', ''),
        )

    def find_server(self, name: str) -> Server:
        """Return the only server with a name as it is now."""
        found = self._api.compute.find_server(name, ignore_missing=False)
        return self.server(found.id)

    def find_volume(self, name: str) -> Volume | None:
        """Return the volume with a name or an id, or None."""
        found = self._api.block_storage.find_volume(name)
        return found and Volume(found.id, found.status, found.size)

    def volumes_of(self, server: Server) -> dict[str, str]:
        """Return the ids of the volumes of a server, by device."""
        found = self._api.compute.volume_attachments(server.id)
        return dict(sorted((one.device, one.volume_id) for one in found))

    def delete_volumes(self) -> None:
        """Delete all volumes; Cinder does it later."""
        for volume in self._api.block_storage.volumes():
            self._api.block_storage.delete_volume(volume)

    def count_volumes(self) -> int:
        """Return how many volumes Cinder knows."""
        return sum(1 for _ in self._api.block_storage.volumes())

    def _settle(self, identifier: str, seconds: float) -> Server:
        """Wait for the final status of a server, ACTIVE or ERROR.

        :param seconds: how long to wait.
        :returns: the server in this status.
        """
        deadline = time.monotonic() + seconds
        while True:
            server = self.server(identifier)
            if server.is_settled:
                return server
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f'server {server.name} is still {server.status} after '
                    f'{seconds:.0f} s'
                )
            time.sleep(0.2)

    def _provider(self, item: dict[str, typing.Any]) -> Provider:
        path = '/resource_providers/' + item['uuid']
        inventories = self._placement(path + '/inventories')['inventories']
        return Provider(
            uuid=item['uuid'],
            name=item['name'],
            parent=item['parent_provider_uuid'],
            root=item['root_provider_uuid'],
            inventories=inventories,
            usages=self._placement(path + '/usages')['usages'],
            traits=sorted(self._placement(path + '/traits')['traits']),
        )

    def _compute(
        self, path: str, microversion: str | None = None
    ) -> typing.Any:
        answer = self._api.compute.get(path, microversion=microversion)
        openstack.exceptions.raise_from_response(answer)
        return answer.json()

    def _placement(self, path: str) -> typing.Any:
        answer = self._api.placement.get(
            path, microversion=_PLACEMENT_MICROVERSION
        )
        openstack.exceptions.raise_from_response(answer)
        return answer.json()
