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

"""Reads Virtual I/O Servers with their storage, or without a sick one's.

A host answers 500 to the feed if one server cannot deliver its data, for
example because its file system is full. The others are usable then, and the
sick one is taken for one that is off.
"""

from collections.abc import Collection
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.powervm import rest_errors

LOG = logging.getLogger(__name__)

_VIOS = virtual_io_server.VIOS
_INTERNAL_ERROR = 500
# One error may pass, and would cost a guest a path.
_TRIES = 2


def read_all(
    adapter: pvm_adapter.Adapter, groups: Collection[str]
) -> list[Any]:
    """Read all servers, one by one if the host refuses their feed.

    :param groups: Extended groups, with the storage.
    :returns: pypowervm's wrappers. A sick server has the state ``not
        available`` and shows no storage.
    :raises pypowervm.exceptions.HttpError: None can be read.
    """
    try:
        return list(_VIOS.get(adapter, xag=groups))
    except pvm.HttpError as error:
        if not _may_be_sick(error):
            raise
        servers = [
            read(adapter, server.uuid, groups) for server in _VIOS.get(adapter)
        ]
        if all(map(_is_sick, servers)):
            raise
        return servers


def read(
    adapter: pvm_adapter.Adapter, uuid: str, groups: Collection[str]
) -> Any:
    """Read a server; see :func:`read_all`."""
    for _ in range(_TRIES):
        try:
            return _VIOS.get(adapter, uuid=uuid, xag=groups)
        except pvm.HttpError as error:
            if not _may_be_sick(error):
                raise
            problem = error
    server = _VIOS.get(adapter, uuid=uuid)
    LOG.warning(
        'Virtual I/O Server %(name)s does not report its storage, and is '
        'treated as one that is off: %(error)s',
        {'name': server.name, 'error': problem},
    )
    server.set_parm_value('PartitionState', bp.LPARState.NOT_AVAILBLE)
    return server


def _may_be_sick(error: pvm.HttpError) -> bool:
    """Return whether the host tried, but has not got the data."""
    is_busy = rest_errors.class_of_status(error) is exception.ViosBusy
    return error.response.status == _INTERNAL_ERROR and not is_busy


def _is_sick(server: Any) -> bool:
    return bool(server.state == bp.LPARState.NOT_AVAILBLE)
