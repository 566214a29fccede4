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

"""Cyborg's records, read through its API."""

import json
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import openstack.exceptions
from keystoneauth1 import adapter
from keystoneauth1.identity import base as identity_base
from oslo_config import cfg

from nova_powervm.devices import accelerators
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import cloud_connection
from nova_powervm.tool.rules import cyborg_records as records

#: The lowest version that tells the status of devices.
MICROVERSION = '2.3'
_SERVICE = 'accelerator'
# Cyborg looks for this name; it can't be configured.
_ADMIN = 'admin'
_CLASS = 'rc'
_TRAIT = 'trait'


class AcceleratorClient:
    """Reads everything that Cyborg knows; it changes nothing.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: See :func:`.cloud_connection.connect`.
    :raises errors.AcceleratorApiError: No cloud is configured.
    """

    def __init__(
        self, cloud: str | None = None, conf: cfg.ConfigOpts | None = None
    ) -> None:
        with _translated('choosing the cloud'):
            connection = cloud_connection.connect(cloud, conf)
            self._session = connection.session
            self._api = _connect(connection)

    def read(self) -> records.Records:
        """Read all records, with four requests.

        :raises errors.AcceleratorApiError: The API can't be reached, it
            refuses a request, or the user lacks the role admin.
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
        """Read the device profiles, with one request.

        :raises errors.AcceleratorApiError: See :meth:`read`.
        """
        return tuple(
            records.Profile(each['name'], tuple(each['groups']))
            for each in self._list('device_profiles')
        )

    def deployables(self) -> tuple[records.Deployable, ...]:
        """Read the deployables, with one request.

        :raises errors.AcceleratorApiError: See :meth:`read`.
        """
        return tuple(map(_deployable, self._list('deployables')))

    def _require_administrator(self) -> None:
        """Refuse users from whom Cyborg hides other projects' requests.

        It answers them without an error. A session with a bare token does not
        tell the roles: then nothing is refused.
        """
        auth = self._session.auth
        if not isinstance(auth, identity_base.BaseIdentityPlugin):
            return
        with _translated('reading the roles of the user'):
            roles = auth.get_access(self._session).role_names or ()
        if _ADMIN not in roles:
            raise errors.AcceleratorApiError(
                reason='it hides the accelerator requests of other projects '
                'from a user without the role admin; this one has '
                f'{", ".join(sorted(roles)) or "no role"}. Use one with it'
            )

    def _list(self, noun: str, key: str = '') -> list[dict[str, Any]]:
        with _translated(f'reading {noun.replace("_", " ")}'):
            answer = self._api.get(f'/{noun}', microversion=MICROVERSION)
            openstack.exceptions.raise_from_response(answer)
            found: list[dict[str, Any]] = answer.json()[key or noun]
            return found

    def _endpoint(self) -> str:
        with _translated('finding the endpoint'):
            return str(self._api.get_endpoint() or '').rstrip('/')


def _connect(connection: Any) -> adapter.Adapter:
    """Return a client for the endpoint as the catalog has it.

    The SDK's own proxy asks the endpoint for its versions first, and then uses
    the link in the answer. Cyborg puts "/accelerator" into it, wherever it is
    served. The SDK's resources also lack the provider of a deployable.
    """
    config = connection.config
    return adapter.Adapter(
        connection.session,
        service_type=_SERVICE,
        interface=config.get_interface(_SERVICE),
        region_name=config.get_region_name(_SERVICE),
        endpoint_override=config.get_endpoint(_SERVICE),
        raise_exc=False,
    )


def _devices(listed: list[dict[str, Any]]) -> Iterator[records.Device]:
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


def _deployable(record: Mapping[str, Any]) -> records.Deployable:
    pairs = [
        pair
        for attributes in json.loads(record.get('attributes_list') or '[]')
        for pair in attributes.items()
    ]
    return records.Deployable(
        name=record['name'],
        provider_uuid=record.get('rp_uuid') or '',
        resource_class=dict(pairs).get(_CLASS),
        traits=frozenset(v for k, v in pairs if k.startswith(_TRAIT)),
    )


def _request(record: Mapping[str, Any]) -> records.Request:
    return records.Request(
        uuid=record['uuid'],
        state=record['state'],
        profile=record.get('device_profile_name') or '',
        hostname=record.get('hostname'),
        provider_uuid=record.get('device_rp_uuid'),
        instance=record.get('instance_uuid'),
    )


def _translated(action: str) -> Any:
    return cloud_connection.translated(errors.AcceleratorApiError, action)
