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

"""Reads Virtual I/O Servers, and is the only writer of their mappings.

A host answers 500 to the feed if one server cannot deliver its data, for
example because its file system is full. The other servers are usable then, and
the sick server is treated as if it were off.

All virtual SCSI mappings of a server are in one document, those of disks and
media as well as those of volumes. So a change of some mappings writes all of
them, with the document's ETag, and starts again if this is outdated. A lock
for each server keeps the threads of this service from outdating each other's
readings.
"""

import collections
from collections.abc import Callable
from collections.abc import Collection
from typing import Any

from oslo_concurrency import lockutils
from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import exceptions as pvm
from pypowervm import util
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session

LOG = logging.getLogger(__name__)

#: Changes the mappings of a server in memory, and returns whether it did. It
#: is called again with each new reading.
Change = Callable[[virtual_io_server.VIOS], bool]

_VIOS = virtual_io_server.VIOS
_MAPPINGS = (const.XAG.VIO_SMAP,)
_INTERNAL_ERROR = 500
# A single error may be gone at once, and would cost a guest a path.
_TRIES = 2
#: How often this service has written the mappings of each server, by uuid.
_writes: collections.Counter[str] = collections.Counter()


def read_all(
    adapter: pvm_adapter.Adapter, groups: Collection[str]
) -> list[Any]:
    """Read all servers, one by one if the host refuses their feed.

    :param groups: Extended groups, with the storage.
    :returns: pypowervm's wrappers. A sick server has the state ``not
        available`` and shows no storage.
    :raises pypowervm.exceptions.HttpError: No server can be read.
    """
    try:
        return list(_VIOS.get(adapter, xag=groups))
    except pvm.HttpError as error:
        if not _may_be_sick(error):
            raise
        servers = [
            read(adapter, server.uuid, groups) for server in _VIOS.get(adapter)
        ]
        if all(map(is_sick, servers)):
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


def is_sick(server: Any) -> bool:
    """Return whether a server did not report its storage when it was read."""
    return bool(server.state == bp.LPARState.NOT_AVAILBLE)


def client_of(mapping: virtual_io_server.VSCSIMapping) -> str:
    """Return the upper-case uuid of a mapping's LPAR; empty if it is gone."""
    uuid = util.get_req_path_uuid(mapping.client_lpar_href or '')
    return (uuid or '').upper()


@rest_errors.retried_on_conflict
def change_mappings(
    adapter: pvm_adapter.Adapter,
    uuid: str,
    action: str,
    change: Change,
    changed: tuple[Any, int] = (None, -1),
) -> Any:
    """Read a server with its mappings, change these, and write them.

    :param uuid: The server's uuid.
    :param action: What this does, for errors.
    :param change: Changes the mappings. A write whose answer was lost is
        repeated, so this has to recognize a change that was made.
    :param changed: A server that has been read and changed, with the number of
        writes before it was read: it is read again only after another write.
    :returns: pypowervm's wrapper of the server after the change.
    :raises exception.RestError: The host refused.
    """
    key = uuid.upper()
    server, number = changed
    with (
        lockutils.lock(f'powervm-mappings-{key}'),
        rest_errors.translated(action),
    ):
        if number != _writes[key]:
            server = read(adapter, uuid, _MAPPINGS)
            if not change(server):
                return server
        try:
            return server.update(timeout=session.ANSWER_SECONDS)
        finally:
            _writes[key] += 1


def change_all_mappings(
    adapter: pvm_adapter.Adapter, action: str, change: Change
) -> None:
    """Change the mappings of all servers; see :func:`change_mappings`.

    Servers without a change are not written.
    """
    writes = _writes.copy()
    for server in _read_mappings(adapter, action):
        if change(server):
            changed = server, writes[server.uuid.upper()]
            change_mappings(adapter, server.uuid, action, change, changed)


@rest_errors.retried
def _read_mappings(adapter: pvm_adapter.Adapter, action: str) -> list[Any]:
    with rest_errors.translated(action):
        return read_all(adapter, _MAPPINGS)


def _may_be_sick(error: pvm.HttpError) -> bool:
    """Return whether the host tried, but could not get the data."""
    is_busy = rest_errors.class_of_status(error) is exception.ViosBusy
    return error.response.status == _INTERNAL_ERROR and not is_busy
