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

"""Asks the compute API about servers and their migrations."""

import urllib.parse
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import openstack.exceptions
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import cloud_connection
from nova_powervm.tool.rules import left_moves

#: With uuids of migrations, the requests of flavors, and servers of cells that
#: do not answer.
MICROVERSION = '2.69'
_BAD_REQUEST = 400
_NOT_FOUND = 404
_UNKNOWN = 'UNKNOWN'
_TASK = 'OS-EXT-STS:task_state'
_HOST = 'OS-EXT-SRV-ATTR:host'


class ServerClient:
    """Reads servers of all projects.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: See :func:`.cloud_connection.connect`.
    :raises errors.ComputeApiError: No cloud is configured.
    """

    def __init__(
        self, cloud: str | None = None, conf: cfg.ConfigOpts | None = None
    ) -> None:
        with _translated('choosing the cloud'):
            self._api: Any = cloud_connection.connect(cloud, conf).compute

    def find_missing(self, uuids: Iterable[str]) -> frozenset[str]:
        """Return the servers that do not exist.

        To a user who may not read the servers of all projects, those of others
        do not seem to exist, nor do their accelerator requests in Cyborg. Such
        a user gets an error for any question.

        :param uuids: Uuids of servers.
        :raises errors.ComputeApiError: The API can't be reached, or the user
            may not read the servers of all projects.
        """
        self._require_all_projects()
        return frozenset(
            uuid for uuid in sorted(set(uuids)) if self._read(uuid) is None
        )

    def read_servers(
        self, uuids: Iterable[str]
    ) -> Mapping[str, left_moves.Server | None]:
        """Read servers; those that Nova does not have are None.

        :param uuids: Uuids of servers.
        :raises errors.ComputeApiError: The API can't be reached, the cell of a
            server does not answer, or the user may not read the servers of all
            projects.
        """
        self._require_all_projects()
        found = {uuid: self._read(uuid) for uuid in sorted(set(uuids))}
        return {
            uuid: None if record is None else _server(uuid, record)
            for uuid, record in found.items()
        }

    def find_migrations(
        self, host: str, uuids: Collection[str]
    ) -> Mapping[str, left_moves.Migration]:
        """Find those among some consumers that are migrations from a host.

        The API does not list the migrations of deleted servers, nor those of
        cells that do not answer. Those of deleted servers it takes for a
        marker before and after the list.

        :param host: The source, as in ``instance.host``.
        :param uuids: Uuids of consumers.
        :raises errors.ComputeApiError: The API can't be reached, or the user
            may not read the migrations of all projects.
        """
        missing = set(filter(self._is_migration, sorted(uuids)))
        found: dict[str, left_moves.Migration] = {}
        pages = self._migrations(host=host) if missing else iter(())
        for record in pages:
            if record['uuid'] in missing:
                missing.remove(record['uuid'])
                if record['source_compute'] == host:
                    found[record['uuid']] = self._migration(record)
            if not missing:
                break
        for uuid in filter(self._is_migration, sorted(missing)):
            found[uuid] = left_moves.Migration(uuid)
        return found

    def _migration(self, record: Mapping[str, Any]) -> left_moves.Migration:
        server = record['instance_uuid']
        last = next(self._migrations(instance_uuid=server))
        return left_moves.Migration(
            uuid=record['uuid'],
            server=server,
            status=record['status'],
            is_in_place=record['source_compute'] == record['dest_compute'],
            is_last=last['uuid'] == record['uuid'],
        )

    def _is_migration(self, uuid: str) -> bool:
        """Return whether a consumer is a migration, if of a deleted server."""
        with _translated('reading migrations'):
            answer = self._api.get(
                f'/os-migrations?limit=1&marker={uuid}',
                microversion=MICROVERSION,
            )
            if answer.status_code == _BAD_REQUEST:
                return False
            openstack.exceptions.raise_from_response(answer)
            return True

    def _migrations(self, **query: str) -> Iterator[Mapping[str, Any]]:
        """Yield migrations, the newest first, from as many pages as needed.

        Those of deleted servers are not among them.
        """
        while True:
            url = f'/os-migrations?{urllib.parse.urlencode(query)}'
            with _translated('reading migrations'):
                answer = self._api.get(url, microversion=MICROVERSION)
                openstack.exceptions.raise_from_response(answer)
                page = answer.json()['migrations']
            if not page:
                return
            yield from page
            query['marker'] = page[-1]['uuid']

    def _require_all_projects(self) -> None:
        with _translated('reading the servers of all projects'):
            openstack.exceptions.raise_from_response(
                self._api.get('/servers?all_tenants=1&limit=1')
            )

    def _read(self, uuid: str) -> Mapping[str, Any] | None:
        """Read a server; return None if it does not exist."""
        with _translated(f'reading server {uuid}'):
            answer = self._api.get(
                f'/servers/{uuid}', microversion=MICROVERSION
            )
            if answer.status_code == _NOT_FOUND:
                return None
            openstack.exceptions.raise_from_response(answer)
            found: Mapping[str, Any] = answer.json()['server']
            return found


def _server(uuid: str, record: Mapping[str, Any]) -> left_moves.Server:
    """Return a server that was read.

    :raises errors.ComputeApiError: Nova does not know its state.
    """
    if record['status'] == _UNKNOWN or not record.keys() >= {_TASK, _HOST}:
        raise errors.ComputeApiError(
            reason=f'reading server {uuid}: its task and host are missing: '
            'its cell does not answer, or the user lacks the role admin'
        )
    return left_moves.Server(
        status=record['status'],
        task=record[_TASK],
        host=record[_HOST],
        wants=left_moves.read_wants(record['flavor']),
    )


def _translated(action: str) -> Any:
    return cloud_connection.translated(errors.ComputeApiError, action)
