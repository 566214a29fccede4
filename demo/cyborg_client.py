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

"""The administrator's requests to Cyborg's API."""

import dataclasses
import json
import typing

import openstack.exceptions

#: Shows the status of devices.
_MICROVERSION = '2.3'


@dataclasses.dataclass(frozen=True)
class Device:
    """A device with its only deployable, which is a resource provider.

    ``drc_index`` is the slot that this project's driver reports it for,
    ``provider`` and ``provider_uuid`` are the name and the UUID of its
    resource provider.
    """

    uuid: str
    hostname: str
    vendor: str
    model: str
    status: str
    drc_index: str
    provider: str
    provider_uuid: str

    def document(self) -> dict[str, str]:
        """Return what the slot decides."""
        document = dataclasses.asdict(self)
        del document['uuid']
        return document


@dataclasses.dataclass(frozen=True)
class Request:
    """An accelerator request of a server.

    ``handle`` is the information about the device for the compute driver. It
    is empty until the request is bound, as are the host and the provider.
    """

    state: str
    device_profile: str
    hostname: str
    provider_uuid: str
    handle: dict[str, str]


class Cyborg:
    """A connection to the API; openstack.exceptions.SDKException refuses.

    :param adapter: the keystoneauth adapter of the service ``accelerator``.
    """

    def __init__(self, adapter: typing.Any) -> None:
        self._adapter = adapter

    def devices(self) -> list[Device]:
        """Return the devices of this project's driver, by DRC index."""
        by_slot = {
            provider['name'][-8:]: provider
            for provider in self._get('/deployables')['deployables']
        }
        found = [
            (json.loads(item['vendor_board_info'])['drc_index'], item)
            for item in self._get('/devices')['devices']
        ]
        return sorted(
            (
                _device(drc_index, item, by_slot[drc_index])
                for drc_index, item in found
            ),
            key=lambda device: device.drc_index,
        )

    def set_enabled(self, device: Device, is_enabled: bool) -> None:
        """Enable or disable a device."""
        action = 'enable' if is_enabled else 'disable'
        self._check(self._adapter.post(f'/devices/{device.uuid}/{action}'))

    def create_device_profile(
        self, name: str, groups: list[dict[str, str]]
    ) -> None:
        """Create a device profile."""
        profile = {'name': name, 'groups': groups}
        self._check(self._adapter.post('/device_profiles', json=[profile]))

    def groups(self, profile: str) -> list[dict[str, str]]:
        """Return the groups of the device profile with this name."""
        (found,) = self._get(f'/device_profiles?name={profile}')[
            'device_profiles'
        ]
        return [dict(group) for group in found['groups']]

    def requests(self, server_id: str) -> list[Request]:
        """Return the accelerator requests of a server."""
        path = f'/accelerator_requests?instance={server_id}'
        return [
            Request(
                state=item['state'],
                device_profile=item['device_profile_name'],
                hostname=item['hostname'] or '',
                provider_uuid=item['device_rp_uuid'] or '',
                handle=dict(item['attach_handle_info'] or {}),
            )
            for item in self._get(path)['arqs']
        ]

    def _get(self, path: str) -> typing.Any:
        answer = self._adapter.get(path, microversion=_MICROVERSION)
        self._check(answer)
        return answer.json()

    @staticmethod
    def _check(answer: typing.Any) -> None:
        openstack.exceptions.raise_from_response(answer)


def _device(
    drc_index: str,
    item: dict[str, typing.Any],
    provider: dict[str, typing.Any],
) -> Device:
    return Device(
        uuid=item['uuid'],
        hostname=item['hostname'],
        vendor=item['vendor'],
        model=item['model'],
        status=item['status'],
        drc_index=drc_index,
        provider=provider['name'],
        provider_uuid=provider['rp_uuid'],
    )
