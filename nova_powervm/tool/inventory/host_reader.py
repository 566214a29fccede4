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
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host_values
from nova_powervm.powervm import captures
from nova_powervm.powervm import partitions
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.tool import wait_notice

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


@dataclasses.dataclass(frozen=True, slots=True)
class HostReading:
    """State of the host at one point in time.

    :param system: The managed system with its slots.
    :param source: URL or files that were read, for messages.
    :param owners_known: False if a slot without an owner may have one.
    :param lpars: LPAR UUID in upper case to LPAR name; None if not requested.
    """

    system: host_values.ManagedSystem
    source: str
    owners_known: bool = True
    lpars: Mapping[str, str] | None = None


def add_host_options(
    parser: argparse.ArgumentParser, offline: bool = False
) -> None:
    """Add the options that select the source of the host's state.

    :param parser: The parser of the command.
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
    """Add the options of a command that only the host itself can answer.

    :param parser: The parser of the command.
    """
    _add_timeout(
        parser.add_argument_group(
            'host',
            'the PowerVM REST API that the [powervm] options in nova.conf '
            'name is asked who owns the slots',
        )
    )
    parser.set_defaults(host_cure='', system_xml=None)


def _add_timeout(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        '--timeout',
        type=_seconds,
        metavar='SECONDS',
        help='fail if the host does not answer for this long (default: '
        '[powervm]rest_read_timeout in nova.conf, or '
        f'{options.READ_TIMEOUT})',
    )


def read_host(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    lpars: bool = False,
) -> HostReading:
    """Read the host from the source that the options select.

    :param app: The application, for its configuration.
    :param parsed_args: Arguments with the options of :func:`add_host_options`
        or :func:`add_live_host_options`.
    :param lpars: Whether to read the LPARs, too; the REST API is needed.
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
    server = app.config.settings.server
    # A user is waiting, so try only once.
    once = dataclasses.replace(
        server,
        connect_timeout=0,
        read_timeout=parsed_args.timeout or server.read_timeout,
    )
    with wait_notice.announce_wait(
        once, app.NAME, app.stderr, '--timeout, or [powervm]rest_read_timeout'
    ):
        return _read_server(app, once, lpars, parsed_args.host_cure)


def _seconds(text: str) -> int:
    """Parse the value of --timeout.

    :raises argparse.ArgumentTypeError: It is not a number of 1 or more.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of seconds'
        )
    return int(text)


def _read_server(
    app: 'base.App', server: options.Server, lpars: bool, cure: str
) -> HostReading:
    try:
        adapter = session.connect(server)
        try:
            managed = system.RestSystem(adapter, server)
            found = HostReading(managed.read(), str(server))
            if lpars:
                listed = partitions.RestPartitions(adapter, managed).names()
                found = dataclasses.replace(found, lpars=listed)
        finally:
            adapter.session.close()
    except exception.RestUnreachable as error:
        raise exception.ConfigurationError(
            reason=f'The PowerVM REST server cannot be read: {server} does '
            f'not answer ({_shortest(error)}). Check [powervm]rest_url in '
            f'{" and ".join(app.config.files) or "nova.conf"}{cure}.'
        ) from error
    return found


def _shortest(error: BaseException) -> str:
    """Return the root cause, without the text that libraries add."""
    text = str(error.__cause__ or error)
    return text.rpartition(': ')[2].rstrip('\')"') or text
