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


"""Requests about the hosts of servers, and moving servers between hosts."""

import collections.abc
import dataclasses
import time
import typing

import openstack.exceptions

_POLL = 0.2


@dataclasses.dataclass(frozen=True)
class Service:
    """The nova-compute of a host, as Nova sees it."""

    state: str
    forced_down: bool


@dataclasses.dataclass(frozen=True)
class Binding:
    """A port of a server, and the host to which it is bound."""

    id: str
    mac: str
    addresses: list[str]
    host: str
    vif_type: str
    status: str


class ComputeHosts:
    """The compute hosts of a cloud.

    All methods raise openstack.exceptions.SDKException if an API refuses a
    request.

    :param api: the connection of openstacksdk to the cloud.
    """

    def __init__(self, api: typing.Any) -> None:
        self._api = api

    def node_uuids(self) -> dict[str, str]:
        """Return the UUIDs of the compute nodes in a cell, by name."""
        nodes = self._api.compute.hypervisors()
        return dict(sorted((node.name, str(node.id)) for node in nodes))

    def services(self) -> dict[str, Service]:
        """Return each nova-compute by the name of its host."""
        return {
            service.host: Service(service.state, service.is_forced_down)
            for service in self._api.compute.services(binary='nova-compute')
        }

    def force_down(self, host: str) -> None:
        """Tell Nova that a nova-compute is down."""
        self._set_forced_down(host, True)

    def end_force(self, host: str, seconds: float = 90) -> None:
        """Tell Nova that a nova-compute is back, as soon as Nova agrees.

        Nova refuses this until nova-compute has removed what was evacuated.

        :raises openstack.exceptions.BadRequestException: Nova still refuses
            it after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._set_forced_down(host, False)
            except openstack.exceptions.BadRequestException:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)

    def _set_forced_down(self, host: str, is_forced: bool) -> None:
        self._api.compute.update_service_forced_down(
            None, host, 'nova-compute', is_forced
        )

    def host_of(self, server_id: str) -> str | None:
        """Return the name of the host that has a server, or None."""
        found = self._api.compute.get_server(server_id)
        host: str | None = found.compute_host
        return host

    def evacuate(self, server_id: str, seconds: float = 120) -> None:
        """Evacuate a server to a host that the scheduler chooses, and wait.

        :raises TimeoutError: it is still in progress after ``seconds``.
        """
        source = self.host_of(server_id)
        self._api.compute.evacuate_server(server_id)
        self._wait(
            server_id,
            lambda server: (
                server.task_state is None
                and (server.compute_host != source or server.status == 'ERROR')
            ),
            seconds,
        )

    def start(self, server_id: str, seconds: float = 60) -> None:
        """Start a server, and wait until that has succeeded or failed.

        :raises TimeoutError: it is still in progress after ``seconds``.
        """
        self._api.compute.start_server(server_id)
        self.await_task(server_id, seconds)

    def migrate(self, server_id: str, seconds: float = 120) -> None:
        """Migrate a server to another host, and wait.

        It then waits for its confirmation, unless the move was refused or
        has failed.

        :raises TimeoutError: the move is still in progress after ``seconds``.
        """
        self._api.compute.migrate_server(server_id)
        self.await_task(server_id, seconds)

    def resize(
        self, server_id: str, flavor: str, seconds: float = 120
    ) -> None:
        """Resize a server to a flavor, and wait as :meth:`migrate` does."""
        found = self._api.compute.find_flavor(flavor, ignore_missing=False)
        self._api.compute.resize_server(server_id, found.id)
        self.await_task(server_id, seconds)

    def confirm(self, server_id: str, seconds: float = 60) -> None:
        """Confirm the move of a server, and wait.

        :raises TimeoutError: it is still to be confirmed after ``seconds``.
        """
        self._api.compute.confirm_server_resize(server_id)
        self._wait(server_id, _has_moved, seconds)

    def revert(self, server_id: str, seconds: float = 120) -> None:
        """Revert the move of a server, and wait.

        :raises TimeoutError: that is still in progress after ``seconds``.
        """
        self._api.compute.revert_server_resize(server_id)
        self._wait(server_id, _has_moved, seconds)

    def last_migration(self, server_id: str) -> str:
        """Return the UUID of the last move of a server.

        In Placement, it is the consumer of what the source still holds.
        """
        found = self._api.compute.migrations(server_id=server_id)
        last = max(found, key=lambda migration: migration.created_at)
        return str(last.uuid)

    def bindings(self, server_id: str) -> list[Binding]:
        """Return the ports of a server, sorted by MAC address."""
        found = [
            Binding(
                id=port.id,
                mac=port.mac_address,
                addresses=[item['ip_address'] for item in port.fixed_ips],
                host=port.binding_host_id,
                vif_type=port.binding_vif_type,
                status=port.status,
            )
            for port in self._api.network.ports(device_id=server_id)
        ]
        return sorted(found, key=lambda binding: binding.mac)

    def await_task(self, server_id: str, seconds: float = 60) -> None:
        """Wait until Nova does nothing with a server.

        :raises TimeoutError: it still does after ``seconds``.
        """
        self._wait(
            server_id, lambda server: server.task_state is None, seconds
        )

    def _wait(
        self,
        server_id: str,
        is_done: collections.abc.Callable[[typing.Any], bool],
        seconds: float,
    ) -> None:
        deadline = time.monotonic() + seconds
        while not is_done(server := self._api.compute.get_server(server_id)):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f'server {server.name} is still {server.status} '
                    f'({server.task_state}) after {seconds:.0f} s'
                )
            time.sleep(_POLL)


def _has_moved(server: typing.Any) -> bool:
    """Return whether a server neither moves nor waits for confirmation."""
    return server.task_state is None and server.status != 'VERIFY_RESIZE'
