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

"""Reads what a host shows of itself, for the command ``nova-powervm-check``.

Nothing here writes to the host or starts a job. What is read is read once,
when a check asks for it: the checks are about one moment of the host, and a
part that it refuses to report is not asked for by each of them.
"""

import contextlib
import pathlib
import re
import tempfile
import time
import uuid
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import exceptions as pvm
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import cluster
from pypowervm.wrappers import event
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import managed_system
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host_values
from nova_powervm.powervm import captures
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import partitions
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm import virtual_io_servers
from nova_powervm.powervm.vif import virtual_ethernet

_R = TypeVar('_R')

OFF = bp.LPARState.NOT_ACTIVATED
#: The state of a Virtual I/O Server that does not report its storage.
SICK = bp.LPARState.NOT_AVAILBLE

#: Header of each answer: which kind of server this is.
_KIND = 'X-MC-Type'
_SCHEMA = 'X-HMC-Schema-Version'
HMC = session.HMC
_CONSOLE = 'ManagementConsole'
_SYSTEM = managed_system.System.schema_type
_LPAR = logical_partition.LPAR
_EVENTS = f'{const.API_BASE_PATH}uom/{event.Event.schema_type}'
#: What a path ends with, but for a uuid and the query.
_WORD = re.compile(r'/([A-Z][A-Za-z]+)(?=[/?]|$)')
#: Requests without an answer after which the host is not asked any more.
_MOST_SILENCES = 3
#: An upper limit for one poll, which the server answers by itself.
_POLL_SECONDS = 60


class ReadingSession(session.Session):
    """A session that only reads, and so may be one with an HMC."""

    refuses_hmc = False

    def request(
        self, method: str, path: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Send a request that reads, or one to log on or off.

        :raises pypowervm.exceptions.Error: It is another one.
        """
        if method != 'GET' and not path.startswith(const.LOGON_PATH):
            raise pvm.Error(f'{method} {path} is not sent: it does not read')
        return super().request(method, path, *args, **kwargs)


class Inspection:
    """One host, as the driver would see it.

    :param adapter: An adapter of the driver, with a session that has logged
        on. It is for this object alone, which counts its requests.
    :param server: The options that the session was opened with.
    :param wanted: Name of the managed system, or machine type, model and
        serial number (``9009-22A*EMU0001``); None for the only one.
    :ivar durations: Noun, job or property to the seconds of the slowest read
        that was answered, without polls for events.
    :ivar kinds: What each answer says of the kind of the server; None for one
        that does not say it.
    :ivar schemas: The version of the schema that each answer names; None for
        one without it.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        server: options.Server,
        wanted: str | None = None,
    ) -> None:
        self._adapter = adapter
        self.server = server
        self.wanted = wanted
        self.durations: dict[str, float] = {}
        self.kinds: set[str | None] = set()
        self.schemas: set[str | None] = set()
        self._known: dict[str, Any] = {}
        # Requests without an answer, since the last answer.
        self._silences = 0
        self._managed = system.RestSystem(adapter, server)
        self._send = adapter.session.request
        adapter.session.request = self._timed

    def _timed(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Send a request, and note what is known of its answer.

        The host holds polls on purpose. One that has not answered several
        times in a row is not waited for again.

        :raises pypowervm.exceptions.ConnectionError: It was not asked.
        """
        if self._silences >= _MOST_SILENCES:
            raise pvm.ConnectionError(
                f'not asked, as {_MOST_SILENCES} requests got no answer'
            )
        started = time.monotonic()
        try:
            answer = self._send(method, path, *args, **kwargs)
        except (pvm.ConnectionError, pvm.TimeoutError):
            self._silences += 1
            raise
        except pvm.Error:
            self._silences = 0
            raise
        self._silences = 0
        words = _WORD.findall(path)
        if method == 'GET' and words and not path.startswith(_EVENTS):
            seconds = time.monotonic() - started
            slowest = self.durations.get(words[-1], 0.0)
            self.durations[words[-1]] = max(seconds, slowest)
        self.kinds.add(answer.headers.get(_KIND))
        self.schemas.add(answer.headers.get(_SCHEMA))
        return answer

    def _once(self, what: str, read: Callable[[], _R]) -> _R:
        """Read a part of the host, or raise the error of the first time."""
        if what not in self._known:
            try:
                with rest_errors.translated(f'reading {what}', self.server):
                    self._known[what] = read()
            except exception.PowerVMError as error:
                self._known[what] = error
        found: Any = self._known[what]
        if isinstance(found, Exception):
            raise found
        result: _R = found
        return result

    @property
    def kind(self) -> str:
        """What the session takes the server for, as the driver's does."""
        return str(self._adapter.session.mc_type)

    @property
    def schema_version(self) -> str:
        """The version of the API's schema, from the answer to the logon."""
        return str(self._adapter.session.schema_version)

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is encrypted, and so was verified."""
        return str(self._adapter.session.dest).startswith('https:')

    @property
    def systems(self) -> Sequence[Any]:
        """All managed systems of the server."""
        return self._once(
            'the managed systems',
            lambda: list(managed_system.System.get(self._adapter)),
        )

    @property
    def system(self) -> Any:
        """The first managed system, the only one of a NovaLink partition."""
        if not self.systems:
            raise exception.RestError(
                action='reading the managed systems', reason='there is none'
            )
        if self.wanted is None:
            return self.systems[0]
        return self.choose()

    def choose(self) -> Any:
        """Return the managed system that is wanted, or the only one.

        :raises exception.ConfigurationError: There is none, or several.
        """
        found = [
            each
            for each in self.systems
            if self.wanted in (None, each.system_name, each.mtms.mtms_str)
        ]
        if len(found) == 1:
            return found[0]
        names = ', '.join(
            f'{each.system_name} ({each.mtms.mtms_str})'
            for each in self.systems
        )
        wanted = '' if self.wanted is None else f' called {self.wanted}'
        raise exception.ConfigurationError(
            reason=f'{self.server} manages {len(found)} systems{wanted}. '
            f'Choose one with --system NAME: {names or "there is none"}'
        )

    @property
    def managed(self) -> host_values.ManagedSystem:
        """The managed system as the driver reads it."""
        return self._once('the slots', self._managed.read)

    @property
    def stored(self) -> host_values.ManagedSystem:
        """The managed system as a stored response shows it."""
        return self._once('the stored response', self._read_stored)

    def _read_stored(self) -> host_values.ManagedSystem:
        nouns = [_SYSTEM]
        if not self.reports_owners:
            nouns += [_LPAR.schema_type, virtual_io_server.VIOS.schema_type]
        with tempfile.TemporaryDirectory() as folder:
            paths = [f'{folder}/{noun}.xml' for noun in nouns]
            for noun, path in zip(nouns, paths, strict=True):
                body = self._read_noun(noun).body
                pathlib.Path(path).write_text(body, encoding='utf-8')
            return captures.read(paths).system

    def _read_noun(self, noun: str) -> Any:
        """Read all resources of a noun."""
        return self._adapter.read(noun)

    @property
    def reports_owners(self) -> bool:
        """Whether the system claims to name the owners of all slots."""
        return self._managed.reports_owners

    @property
    def uptime(self) -> int:
        """The seconds since the start of the management partition."""
        return self._once('the uptime', self._managed.uptime)

    @property
    def slots(self) -> Sequence[Any]:
        """All physical I/O slots."""
        return list(self.system.asio_config.io_slots)

    @property
    def sriov_adapters(self) -> Sequence[Any]:
        """All adapters that can be in SR-IOV mode."""
        return list(self.system.asio_config.sriov_adapters)

    @property
    def lpars(self) -> Sequence[Any]:
        """All partitions but Virtual I/O Servers."""
        return self._once('the LPARs', lambda: list(_LPAR.get(self._adapter)))

    @property
    def servers(self) -> Sequence[Any]:
        """All Virtual I/O Servers with their storage, as the driver reads it.

        One that is sick has the state ``not available``.
        """
        groups = (const.XAG.VIO_STOR, const.XAG.VIO_SMAP)
        return self._once(
            'the Virtual I/O Servers',
            lambda: virtual_io_servers.read_all(self._adapter, groups),
        )

    @property
    def managers(self) -> Sequence[Any]:
        """The management partition, which may be a Virtual I/O Server."""
        return [
            partition
            for partition in (*self.lpars, *self.servers)
            if partition.is_mgmt_partition
        ]

    @property
    def volume_groups(self) -> Sequence[Any]:
        """The volume groups of the Virtual I/O Servers that answer."""
        return self._once('the volume groups', self._read_groups)

    def _read_groups(self) -> list[Any]:
        return [
            group
            for server in self.servers
            if answers(server)
            for group in storage.VG.get(
                self._adapter,
                parent_type=server.schema_type,
                parent_uuid=server.uuid,
            )
        ]

    @property
    def pools(self) -> Sequence[tuple[Any, Sequence[Any]]]:
        """The shared storage pool of each cluster, with its tiers."""
        return self._once('the shared storage pools', self._read_pools)

    def _read_pools(self) -> list[tuple[Any, list[Any]]]:
        pools = [
            storage.SSP.get(self._adapter, uuid=one.ssp_uuid)
            for one in cluster.Cluster.get(self._adapter)
        ]
        return [
            (
                pool,
                storage.Tier.get(
                    self._adapter,
                    parent_type=pool.schema_type,
                    parent_uuid=pool.uuid,
                ),
            )
            for pool in pools
        ]

    @property
    def switches(self) -> Sequence[Any]:
        """All virtual switches."""
        return self._once(
            'the virtual switches', lambda: self._of_system(network.VSwitch)
        )

    @property
    def bridges(self) -> Sequence[Any]:
        """All Shared Ethernet bridges."""
        return self._once(
            'the Shared Ethernet bridges',
            lambda: self._of_system(network.NetBridge),
        )

    @property
    def usable_bridges(self) -> Sequence[Any]:
        """The bridges that the driver would use."""
        ethernet = virtual_ethernet.VirtualEthernet(
            self._adapter, self._managed
        )
        return self._once('the bridges', ethernet.bridges)

    def _of_system(self, noun: Any) -> list[Any]:
        return list(
            noun.get(
                self._adapter,
                parent_type=_SYSTEM,
                parent_uuid=self.system.uuid,
            )
        )

    def adapters_of(self, partition: Any) -> Sequence[Any]:
        """Return the client network adapters of a partition."""
        return self._once(
            f'the adapters of {partition.name}',
            lambda: list(
                network.CNA.get(
                    self._adapter,
                    parent_type=partition.schema_type,
                    parent_uuid=partition.uuid,
                )
            ),
        )

    def nvram_of(self, lpar: Any) -> str | None:
        """Return the NVRAM of an LPAR, which may hold secrets."""
        reader = partitions.RestPartitions(self._adapter, self._managed)
        return self._once(
            f'the NVRAM of {lpar.name}', lambda: reader.nvram(lpar.uuid)
        )

    def state_of(self, lpar: Any) -> str:
        """Return the state of an LPAR alone."""
        reader = partitions.RestPartitions(self._adapter, self._managed)
        return self._once(
            f'the state of {lpar.name}', lambda: reader.state(lpar.uuid)
        )

    def lacks_job(self, resource: Any, name: str) -> bool:
        """Return whether a resource has no job with a name.

        Only the template is read, which starts nothing.
        """

        def read() -> bool:
            try:
                self._adapter.read(
                    resource.schema_type,
                    root_id=resource.uuid,
                    suffix_type=const.SUFFIX_TYPE_DO,
                    suffix_parm=name,
                )
            except pvm.HttpNotFound:
                return True
            return False

        return self._once(f'the job {name} of {resource.schema_type}', read)

    def is_unchanged(self) -> bool:
        """Return whether a conditional reading of the system gets 304."""
        with rest_errors.translated('reading the managed system again'):
            before = self.system.refresh(use_etag=False)
            return bool(before.refresh(use_etag=True) is before)

    def status_without_session(self) -> int:
        """Return the HTTP status for an unknown session."""
        session = self._adapter.session
        with http_limits.Client() as client:
            return client.get(
                f'{session.dest}{const.API_BASE_PATH}uom/{_SYSTEM}',
                headers={'X-API-Session': 'unknown'},
                timeout=self.server.read_timeout,
                verify=session.verify,
            ).status_code

    def files(self) -> int:
        """Return how many descriptions of uploads the server has."""
        return self._once('the files', self._read_files)

    def _read_files(self) -> int:
        answer = self._adapter.read('File', service='web')
        return len(answer.feed.entries)

    def poll(self, name: str) -> tuple[int, float]:
        """Poll for events; return how many there are, and the seconds.

        :param name: See :meth:`events`.
        """
        started = time.monotonic()
        return len(self.events(name)), time.monotonic() - started

    def events(self, name: str) -> Sequence[Any]:
        """Poll for events once.

        :param name: The name of the queue, which the server makes, and drops
            some time after the last poll.
        """
        with rest_errors.translated('polling for events', self.server):
            answer = self._adapter.read(
                event.Event.schema_type,
                xag=[],
                add_qp=[
                    ('QUEUE_CLIENTKEY_METHOD', 'USE_APPLICATIONID'),
                    ('QUEUE_APPLICATIONID', name),
                ],
                timeout=_POLL_SECONDS,
            )
        return list(event.Event.wrap(answer))


def kind_of(adapter: pvm_adapter.Adapter) -> str | None:
    """Return what a server says that it is; None if it does not answer.

    An HMC may say it in a description only, which the session reads then.
    """
    with contextlib.suppress(pvm.Error):
        if adapter.session.kind is None:
            adapter.read(_CONSOLE)
    kind: str | None = adapter.session.kind
    return kind


def answers(server: Any) -> bool:
    """Return whether a Virtual I/O Server runs and has RMC."""
    return bool(
        server.state == bp.LPARState.RUNNING
        and server.rmc_state == bp.RMCState.ACTIVE
    )


def new_queue() -> str:
    """Return the name of a queue for events that nobody else has."""
    return f'nova-check-{uuid.uuid4().hex}'


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error is about, if it is about one."""
    answer = getattr(error.__cause__, 'response', None)
    status = getattr(answer, 'status', None)
    return status if isinstance(status, int) else None
