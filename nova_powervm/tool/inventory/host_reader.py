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

"""Reads the slots of the host from the REST API or from stored responses."""

import argparse
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TextIO
from typing import TypeAlias

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host_values
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.powervm import captures
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import partitions
from nova_powervm.powervm import plugins
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.tool.inventory import base

_DiskReader: TypeAlias = Callable[
    [Any, system.RestSystem], host_values.DiskCapacity | None
]

#: Seconds after which a command says that it waits for the host.
NOTICE_DELAY = 3.0
#: How a user names a slot.
SLOT_HELP = (
    'DRC index of the slot, its location code, or the end of the location '
    'code (C3, P1-C3), with the wildcards of the inventory file if needed'
)


@dataclasses.dataclass(frozen=True, slots=True)
class HostReading:
    """State of the host at one point in time.

    :param system: The managed system with its slots.
    :param source: URL or files that were read, for messages.
    :param owners_known: False if a slot without an owner may have one.
    :param derives_owners: Whether owners come from the partitions' profiles.
    :param lpar_names: LPAR UUID in upper case to LPAR name; None if not
        requested.
    :param disk: The storage for disks of instances; None if not requested, or
        if it can't be read.
    """

    system: host_values.ManagedSystem
    source: str
    owners_known: bool = True
    derives_owners: bool = False
    lpar_names: Mapping[str, str] | None = None
    disk: host_values.DiskCapacity | None = None

    def find_slot(self, name: str) -> slots.Slot:
        """Find the slot that a user names.

        :param name: See :data:`SLOT_HELP`.
        :raises exception.ConfigurationError: There is none, or several.
        """
        named = [
            slot
            for slot in self.system.io_slots
            if is_named(name, slot.drc_index, slot.drc_name)
        ]
        if len(named) == 1:
            return named[0]
        several = f'several slots {name}: {", ".join(map(str, named))}'
        raise exception.ConfigurationError(
            reason=f'{self.source} has '
            f'{several if named else f"no slot {name}"}. '
            '"nova-powervm-inventory show" lists all slots.'
        )


def is_named(name: str, drc_index: int, location: str | None) -> bool:
    """Return whether a name from the command line matches a slot.

    :param name: See :data:`SLOT_HELP`.
    """
    return policies.value_matches(
        name.upper(), slots.format_drc_index(drc_index)
    ) or any(
        policies.value_matches(pattern, location or '')
        for pattern in (name, f'*-{name}')
    )


def add_host_options(
    parser: argparse.ArgumentParser, offline: bool = False
) -> None:
    """Add the options that select the source of the host's state.

    :param offline: Whether the command can work without a host.
    """
    group = parser.add_argument_group(
        'host',
        'source of the slots; by default the PowerVM REST API that the '
        '[powervm] options in nova.conf name',
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        '--system-xml',
        action='append',
        metavar='FILE',
        help='read a stored response of the REST API for ManagedSystem '
        'instead of asking the host; can be repeated, to add the responses '
        'for LogicalPartition and VirtualIOServer',
    )
    group.add_argument(
        '--system-name',
        metavar='NAME',
        help='name of the system, if the stored response has several',
    )
    _add_timeout(group)
    cure = ', or give a stored response with --system-xml'
    if offline:
        cure += ', or --offline'
        where.add_argument(
            '--offline', action='store_true', help='do not read a host'
        )
    parser.set_defaults(host_cure=cure)


def add_live_host_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that only the host itself can answer."""
    _add_timeout(
        parser.add_argument_group(
            'host',
            'the PowerVM REST API that the [powervm] options in nova.conf '
            'name is asked',
        )
    )
    parser.set_defaults(host_cure='', system_xml=None)


def _add_timeout(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        '--timeout',
        type=base.parse_positive,
        metavar='SECONDS',
        help='fail if the host does not answer for this long (default: '
        '[powervm]rest_read_timeout in nova.conf, or '
        f'{options.Server().read_timeout})',
    )


def read_host(
    app: base.App,
    parsed_args: argparse.Namespace,
    with_lpars: bool = False,
    with_disk: bool = False,
) -> HostReading:
    """Read the host from the source that the options select.

    :param with_lpars: Whether to read the LPARs, too; the REST API is needed.
    :param with_disk: Whether to read the storage, too; the REST API is needed.
        It is a warning if the storage can't be read.
    :raises nova_powervm.exception.PowerVMError: The host can't be read.
    """
    if parsed_args.system_xml:
        capture = captures.read(
            parsed_args.system_xml, parsed_args.system_name
        )
        if not capture.owners_known:
            app.warn(
                f'{parsed_args.system_xml[0]} does not report the owners of '
                'all slots: a slot without an owner may not be free. Add the '
                "stored responses for the same system's LogicalPartition and "
                'VirtualIOServer with --system-xml.'
            )
        return HostReading(
            capture.system,
            ', '.join(parsed_args.system_xml),
            capture.owners_known,
        )
    with asking(app, parsed_args) as server:
        return read_server(
            server,
            with_lpars,
            functools.partial(_read_disk, app) if with_disk else None,
        )


@contextlib.contextmanager
def asking(
    app: base.App, parsed_args: argparse.Namespace
) -> Iterator[options.Server]:
    """Yield the REST server to ask, and say so if a user waits for it.

    :raises exception.ConfigurationError: It does not answer in the block.
    """
    server = app.config.settings.server
    if parsed_args.timeout:
        server = dataclasses.replace(server, read_timeout=parsed_args.timeout)
    how = '--timeout, or [powervm]rest_read_timeout'
    try:
        with announce_wait(server, app.NAME, app.stderr, how):
            yield server
    except exception.RestUnreachable as error:
        raise exception.ConfigurationError(
            reason=f'The PowerVM REST server cannot be read: {server} does '
            f'not answer ({_shortest(error)}). Check [powervm]rest_url in '
            f'{" and ".join(app.config.files) or "nova.conf"}'
            f'{parsed_args.host_cure}.'
        ) from error


@contextlib.contextmanager
def logged_on(
    server: options.Server,
    kind: type[session.Session] = session.Session,
) -> Iterator[tuple[Any, system.RestSystem]]:
    """Log on to the host, and yield an adapter of pypowervm and the system.

    Do not try again: a user is waiting.

    :param kind: The class of the session.
    """
    server = dataclasses.replace(server, connect_timeout=0)
    adapter = session.connect(server, kind=kind)
    try:
        yield adapter, system.RestSystem(adapter, server)
    finally:
        adapter.session.close()


def read_server(
    server: options.Server,
    with_lpars: bool = False,
    read_disk: _DiskReader | None = None,
) -> HostReading:
    """Log on to the host and read it once.

    :param with_lpars: Whether to read the LPARs, too.
    :param read_disk: Reads the storage; None to leave it out.
    :raises exception.PowerVMError: The host can't be read.
    """
    with logged_on(server) as (adapter, managed):
        return HostReading(
            managed.read(),
            str(server),
            lpar_names=partitions.RestPartitions(adapter, managed).names()
            if with_lpars
            else None,
            disk=read_disk(adapter, managed) if read_disk else None,
            derives_owners=not managed.reports_owners,
        )


def _read_disk(
    app: base.App, adapter: Any, managed: system.RestSystem
) -> host_values.DiskCapacity | None:
    """Read the storage that ``[powervm]disk_driver`` uses."""
    context = disk_drivers.Context(adapter, managed, app.config.settings)
    try:
        disks = plugins.load_disk_driver(context)
        return None if disks.unavailable else disks.capacity()
    except exception.PowerVMError as error:
        app.warn(f'{error} The output has nothing of the disks.')
        return None


@contextlib.contextmanager
def announce_wait(
    server: options.Server, program: str, stream: TextIO, how: str
) -> Iterator[None]:
    """Print a notice if the block takes longer than :data:`NOTICE_DELAY`."""
    line = (
        f'{program}: waiting for the PowerVM REST server at {server}; the '
        f'request fails if there is no answer for {server.read_timeout:g} '
        f'seconds ({how})'
    )
    timer = threading.Timer(
        NOTICE_DELAY, functools.partial(print, line, file=stream, flush=True)
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shortest(error: BaseException) -> str:
    """Return the root cause, without the text that libraries add."""
    text = str(error.__cause__ or error)
    return text.rpartition(': ')[2].rstrip('\')"') or text
