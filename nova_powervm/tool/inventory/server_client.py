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

"""Asks the compute API which servers exist."""

from collections.abc import Iterable
from typing import Any

import openstack.exceptions
from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import cloud_connection

_NOT_FOUND = 404


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
        a user gets an error, whatever is asked.

        :param uuids: Uuids of servers.
        :raises errors.ComputeApiError: The API can't be reached, or the user
            may not read the servers of all projects.
        """
        with _translated('reading the servers of all projects'):
            openstack.exceptions.raise_from_response(
                self._api.get('/servers?all_tenants=1&limit=1')
            )
        return frozenset(
            uuid for uuid in sorted(set(uuids)) if not self._exists(uuid)
        )

    def _exists(self, uuid: str) -> bool:
        with _translated(f'reading server {uuid}'):
            answer = self._api.get(f'/servers/{uuid}')
            if answer.status_code == _NOT_FOUND:
                return False
            openstack.exceptions.raise_from_response(answer)
            return True


def _translated(action: str) -> Any:
    return cloud_connection.translated(errors.ComputeApiError, action)
