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

"""Asks the services of the cloud that have an API for users."""

import argparse
import contextlib
import datetime
import json
import os
import urllib.parse
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

import keystoneauth1.exceptions
import openstack
import openstack.exceptions
from keystoneauth1 import adapter
from keystoneauth1.identity import base as identity_base
from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.rules import cyborg_slots as records
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import unconfirmed_moves

#: The lowest that has the flavor of a server, and tells of silent cells.
NOVA_MICROVERSION = '2.69'
#: The lowest that tells the status of devices.
CYBORG_MICROVERSION = '2.3'
_VARIABLES = ('OS_CLOUD', 'OS_AUTH_URL', 'OS_ENDPOINT')
_BAD_REQUEST, _NOT_FOUND = 400, 404
_UNKNOWN = 'UNKNOWN'
_TASK = 'OS-EXT-STS:task_state'
_HOST = 'OS-EXT-SRV-ATTR:host'
_ACCELERATOR = 'accelerator'
# Cyborg looks for this name; it can't be configured.
_ADMIN = 'admin'
_Record = Mapping[str, Any]


def add_cloud_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that selects the cloud."""
    parser.add_argument(
        '--os-cloud',
        metavar='NAME',
        help='name of a cloud in clouds.yaml (default: $OS_CLOUD or the '
        'other OS_* variables, as for the openstack command)',
    )


def connect(cloud: str | None, conf: cfg.ConfigOpts | None = None) -> Any:
    """Return the SDK's connection to a cloud.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: Configuration whose section [placement] has the credentials
        if neither ``cloud`` nor the environment names a cloud. None if these
        must not be used.
    """
    if cloud or conf is None or any(os.environ.get(v) for v in _VARIABLES):
        return openstack.connect(cloud=cloud)
    return openstack.connection.Connection(
        session=placement_client.load_session(conf),
        region_name=conf[placement_client.GROUP].region_name,
    )


class _Client:
    """Asks one service of a cloud.

    All methods raise ``error`` if the API can't be reached or refuses a
    request.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: See :func:`connect`.
    """

    error: type[exception.PowerVMError]

    def __init__(
        self, cloud: str | None = None, conf: cfg.ConfigOpts | None = None
    ) -> None:
        with self._translated('choosing the cloud'):
            self._connection: Any = connect(cloud, conf)
            self._api = self._choose_api(self._connection)

    def _choose_api(self, connection: Any) -> Any:
        raise NotImplementedError

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Translate exceptions of the SDK."""
        try:
            yield
        except openstack.exceptions.HttpException as error:
            raise self.error(
                reason=f'{action}: {errors.one_line(error)}'
            ) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A bare token, for example, has the endpoint of another service.
            problem = f'{type(error).__name__}: {errors.one_line(error)}'
            raise self.error(
                reason=f'{action}: another service seems to answer '
                f'({problem}). Check its endpoint'
            ) from error
        except (
            openstack.exceptions.SDKException,
            keystoneauth1.exceptions.ClientException,
        ) as error:
            raise self.error(
                reason=f'{action}: {errors.one_line(error)}. Name the cloud '
                'with --os-cloud or $OS_CLOUD, or source its openrc file'
            ) from error


class NovaClient(_Client):
    """Reads servers of all projects, and reads and changes flavors."""

    error = errors.ComputeApiError

    def _choose_api(self, connection: Any) -> Any:
        return connection.compute

    def find_missing(self, uuids: Iterable[str]) -> frozenset[str]:
        """Return the servers that do not exist.

        To a user who may not read the servers of all projects, those of others
        do not seem to exist, nor do their accelerator requests in Cyborg. Such
        a user gets an error for any question.
        """
        self._require_all_projects()
        return frozenset(
            uuid for uuid in sorted(set(uuids)) if self._read(uuid) is None
        )

    def read_servers(
        self, uuids: Iterable[str]
    ) -> Mapping[str, left_moves.Server | None]:
        """Read servers; those that Nova does not have are None.

        It is an error if the cell of a server does not answer.
        """
        self._require_all_projects()
        servers = {uuid: self._read(uuid) for uuid in sorted(set(uuids))}
        return {
            uuid: None if record is None else _server(uuid, record)
            for uuid, record in servers.items()
        }

    def find_migrations(
        self, host: str, uuids: Collection[str]
    ) -> Mapping[str, left_moves.Migration]:
        """Find those among some consumers that are migrations from a host.

        The servers of the host are left out with one request. Each other one
        costs one, and one more if it is a migration within the host.

        The API does not list the migrations of deleted servers, nor those of
        cells that do not answer. Those of deleted servers it takes for a
        marker before and after the list.

        :param host: The source, as in ``instance.host``.
        """
        others = set(uuids) - self._servers_of(host)
        missing = set(filter(self._is_migration, sorted(others)))
        migrations: dict[str, left_moves.Migration] = {}
        pages = self._migrations(host=host) if missing else iter(())
        for record in pages:
            if record['uuid'] in missing:
                missing.remove(record['uuid'])
                if record['source_compute'] == host:
                    migrations[record['uuid']] = self._migration(record)
            if not missing:
                break
        for uuid in filter(self._is_migration, sorted(missing)):
            migrations[uuid] = left_moves.Migration(uuid)
        return migrations

    def find_finished(
        self, host: str
    ) -> tuple[unconfirmed_moves.FinishedMove, ...]:
        """Find the migrations to a host in status ``finished``."""
        self._require_all_projects()
        return tuple(
            unconfirmed_moves.FinishedMove(
                record['uuid'],
                record['instance_uuid'],
                _time(record['updated_at']),
            )
            for record in self._migrations(host=host, status='finished')
            if record['dest_compute'] == host
        )

    def all_flavors(self) -> Mapping[str, flavors.Flavor]:
        """Read all flavors, by their names.

        From a user who is no administrator Nova hides the private flavors of
        other projects, without an error. Such a user gets one here.
        """
        self._require_all_projects()
        return self.flavors([])

    def flavors(
        self, flavor_names: Sequence[str]
    ) -> Mapping[str, flavors.Flavor]:
        """Read flavors, by their names.

        :param flavor_names: Names or IDs; empty for all flavors.
        """
        with self._translated('reading flavors'):
            read = (
                [self._find(name) for name in flavor_names]
                if flavor_names
                else self._api.flavors(
                    details=True, get_extra_specs=True, is_public=None
                )
            )
            return {
                flavor.name: flavors.Flavor(
                    dict(flavor.extra_specs or {}), flavor.ram, flavor.vcpus
                )
                for flavor in read
            }

    def set_extra_specs(
        self, name: str, extra_specs: Mapping[str, str]
    ) -> None:
        """Set extra specs of a flavor; its other extra specs are kept."""
        with self._translated(f'setting extra specs of flavor {name}'):
            self._api.create_flavor_extra_specs(
                self._find(name), dict(extra_specs)
            )

    def _find(self, name: str) -> Any:
        flavor = self._api.find_flavor(name, get_extra_specs=True)
        if flavor is None:
            raise errors.ComputeApiError(
                reason=f"there is no flavor '{name}'. Create it with "
                f'"openstack flavor create {name} --vcpus … --ram … '
                '--disk …"'
            )
        return flavor

    def _migration(self, record: _Record) -> left_moves.Migration:
        uuid, server = record['uuid'], record['instance_uuid']
        is_in_place = record['source_compute'] == record['dest_compute']
        return left_moves.Migration(
            uuid=uuid,
            server=server,
            status=record['status'],
            is_in_place=is_in_place,
            is_last=not is_in_place
            or next(self._migrations(instance_uuid=server))['uuid'] == uuid,
        )

    def _servers_of(self, host: str) -> frozenset[str]:
        """Return the uuids of the servers on a host, or of its first ones."""
        query = urllib.parse.urlencode({'all_tenants': '1', 'host': host})
        servers = self._get(
            f'reading the servers of {host}', f'/servers?{query}', 'servers'
        )
        return frozenset(server['id'] for server in servers)

    def _is_migration(self, uuid: str) -> bool:
        """Return whether a consumer is a migration; its server may be gone."""
        url = f'/os-migrations?limit=1&marker={uuid}'
        answer = self._get(
            'reading migrations', url, 'migrations', _BAD_REQUEST
        )
        return answer is not None

    def _migrations(self, **query: str) -> Iterator[_Record]:
        """Yield migrations, the newest first, from as many pages as needed.

        Those of deleted servers are not among them.
        """
        while True:
            url = f'/os-migrations?{urllib.parse.urlencode(query)}'
            page = self._get('reading migrations', url, 'migrations')
            if not page:
                return
            yield from page
            query['marker'] = page[-1]['uuid']

    def _require_all_projects(self) -> None:
        self._get(
            'reading the servers of all projects',
            '/servers?all_tenants=1&limit=1',
            'servers',
        )

    def _read(self, uuid: str) -> _Record | None:
        """Read a server; return None if it does not exist."""
        url = f'/servers/{uuid}'
        return cast(
            _Record | None,
            self._get(f'reading server {uuid}', url, 'server', _NOT_FOUND),
        )

    def _get(
        self, action: str, url: str, key: str, absent: int | None = None
    ) -> Any:
        """Return what an answer has; None if it has a certain status."""
        with self._translated(action):
            answer = self._api.get(url, microversion=NOVA_MICROVERSION)
            if answer.status_code == absent:
                return None
            openstack.exceptions.raise_from_response(answer)
            return answer.json()[key]


def _time(text: str) -> datetime.datetime:
    """Return a time of Nova's, which has no zone."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def _server(uuid: str, record: _Record) -> left_moves.Server:
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


class CyborgClient(_Client):
    """Reads what Cyborg knows; it changes nothing."""

    error = errors.AcceleratorApiError

    def _choose_api(self, connection: Any) -> Any:
        """Return a client for the endpoint as the catalog has it.

        The SDK's own proxy asks the endpoint for its versions first, and then
        uses the link in the answer. Cyborg puts "/accelerator" into it,
        wherever it is served. The SDK's resources also lack the provider of a
        deployable.
        """
        config = connection.config
        return adapter.Adapter(
            connection.session,
            service_type=_ACCELERATOR,
            interface=config.get_interface(_ACCELERATOR),
            region_name=config.get_region_name(_ACCELERATOR),
            endpoint_override=config.get_endpoint(_ACCELERATOR),
            raise_exc=False,
        )

    def read(self) -> records.Records:
        """Read all records, with four requests.

        A user without the role admin is refused.
        """
        self._require_administrator()
        return records.Records(
            profiles=self.profiles(),
            devices=tuple(_devices(self._list('devices'))),
            deployables=self.deployables(),
            requests=tuple(
                _request(each)
                for each in self._list('accelerator_requests', 'arqs')
            ),
            endpoint=self._endpoint(),
        )

    def profiles(self) -> tuple[records.Profile, ...]:
        """Read the device profiles, with one request."""
        return tuple(
            records.Profile(each['name'], tuple(each['groups']))
            for each in self._list('device_profiles')
        )

    def deployables(self) -> tuple[records.Deployable, ...]:
        """Read the deployables, with one request."""
        return tuple(map(_deployable, self._list('deployables')))

    def _require_administrator(self) -> None:
        """Refuse users from whom Cyborg hides other projects' requests.

        It answers them without an error. A session with a bare token does not
        tell the roles: then nothing is refused.
        """
        session = self._connection.session
        auth = session.auth
        if not isinstance(auth, identity_base.BaseIdentityPlugin):
            return
        with self._translated('reading the roles of the user'):
            roles = auth.get_access(session).role_names or ()
        if _ADMIN not in roles:
            raise errors.AcceleratorApiError(
                reason='it hides the accelerator requests of other projects '
                'from a user without the role admin; this one has '
                f'{", ".join(sorted(roles)) or "no role"}. Use one with it'
            )

    def _list(self, noun: str, key: str = '') -> list[dict[str, Any]]:
        with self._translated(f'reading {noun.replace("_", " ")}'):
            answer = self._api.get(
                f'/{noun}', microversion=CYBORG_MICROVERSION
            )
            openstack.exceptions.raise_from_response(answer)
            return cast(list[dict[str, Any]], answer.json()[key or noun])

    def _endpoint(self) -> str:
        with self._translated('finding the endpoint'):
            return str(self._api.get_endpoint() or '').rstrip('/')


def _devices(listed: Iterable[_Record]) -> Iterator[records.Device]:
    """Return the devices that our driver has reported."""
    for each in listed:
        index = _drc_index(each.get('vendor_board_info'))
        if index is not None:
            yield records.Device(
                uuid=each['uuid'],
                hostname=each.get('hostname') or '',
                drc_index=index,
                status=each.get('status') or '',
            )


def _drc_index(text: str | None) -> int | None:
    try:
        return int(json.loads(text or '')[accelerators.SLOT_KEY], 16)
    except (ValueError, TypeError, KeyError):
        return None


def _deployable(record: _Record) -> records.Deployable:
    pairs = [
        pair
        for attributes in json.loads(record.get('attributes_list') or '[]')
        for pair in attributes.items()
    ]
    return records.Deployable(
        name=record['name'],
        provider_uuid=record.get('rp_uuid') or '',
        resource_class=dict(pairs).get('rc'),
        traits=frozenset(v for k, v in pairs if k.startswith('trait')),
    )


def _request(record: _Record) -> records.Request:
    return records.Request(
        uuid=record['uuid'],
        state=record['state'],
        profile=record.get('device_profile_name') or '',
        hostname=record.get('hostname'),
        provider_uuid=record.get('device_rp_uuid'),
        instance_uuid=record.get('instance_uuid'),
    )
