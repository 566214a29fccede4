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

"""The host's slots: from the REST API, or from captured answers of it."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import host
from nova_powervm.powervm import captures
from nova_powervm.powervm import partitions
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.tool import wait_notice

if TYPE_CHECKING:
    from nova_powervm.tool.inventory import base


@dataclasses.dataclass(frozen=True, slots=True)
class HostReading:
    """A reading of the host.

    :param view: The managed system with its slots.
    :param source: Where it is from, for messages.
    :param owners_known: False if a slot without an owner may have one.
    :param lpars: Upper-case uuid to name of each LPAR; None if not asked for.
    """

    view: host.HostView
    source: str
    owners_known: bool = True
    lpars: Mapping[str, str] | None = None


def add_host_options(
    parser: argparse.ArgumentParser, offline: bool = False
) -> None:
    """Add the options that say where the host is read.

    :param parser: Of the command.
    :param offline: Whether the command can do without a host.
    """
    group = parser.add_argument_group(
        'host',
        'where the slots are read; by default from the PowerVM REST API that '
        'the [powervm] options of nova.conf name',
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        '--system-xml',
        action='append',
        metavar='FILE',
        help='read a stored answer of the REST API for ManagedSystem instead '
        'of asking the host; can be given more than once, to add the '
        'answers for LogicalPartition and VirtualIOServer',
    )
    group.add_argument(
        '--system-name',
        metavar='NAME',
        help='which system, if the stored answer holds more than one',
    )
    group.add_argument(
        '--timeout',
        type=_seconds,
        metavar='SECONDS',
        help='give the host up when it has said nothing for so long (default: '
        '[powervm]rest_read_timeout of nova.conf, which is '
        f'{options.READ_TIMEOUT})',
    )
    if offline:
        where.add_argument(
            '--offline', action='store_true', help='read no host at all'
        )


def read_host(
    app: 'base.App',
    parsed_args: argparse.Namespace,
    lpars: bool = False,
    or_offline: bool = False,
) -> HostReading:
    """Read the host as the options say.

    :param app: Has the configuration.
    :param parsed_args: With the options of :func:`add_host_options`.
    :param lpars: Whether to list the LPARs of a host that is asked, too.
    :param or_offline: Whether the command can do without a host.
    :raises nova_powervm.exception.PowerVMError: It can't be read.
    """
    if parsed_args.system_xml:
        capture = captures.read(
            parsed_args.system_xml, parsed_args.system_name
        )
        if not capture.owners_known:
            app.warn(
                f'{parsed_args.system_xml[0]} does not tell who owns each '
                'slot: those without an owner look free, and may not be. Give '
                "the stored answers for the same system's LogicalPartition "
                'and VirtualIOServer with --system-xml, too.'
            )
        return HostReading(
            capture.view,
            ', '.join(parsed_args.system_xml),
            capture.owners_known,
        )
    server = app.config.settings.server
    # A person waits: one try must do.
    once = dataclasses.replace(
        server,
        connect_timeout=0,
        read_timeout=parsed_args.timeout or server.read_timeout,
    )
    with wait_notice.announce_wait(
        once, app.NAME, app.stderr, '--timeout, or [powervm]rest_read_timeout'
    ):
        return _read_server(
            app, once, lpars, ', or --offline' if or_offline else ''
        )


def _seconds(text: str) -> int:
    """Read the value of --timeout.

    :raises argparse.ArgumentTypeError: It is no number from 1 on.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f'{text!r} is no number of seconds')
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
            reason=f'The PowerVM REST server can not be read: {server} does '
            f'not answer ({_shortest(error)}). Look at [powervm]rest_url in '
            f'{" and ".join(app.config.files) or "nova.conf"}, or give a '
            f'stored answer with --system-xml{cure}.'
        ) from error
    return found


def _shortest(error: BaseException) -> str:
    """Give the cause behind what three libraries wrap around it."""
    text = str(error.__cause__ or error)
    return text.rpartition(': ')[2].rstrip('\')"') or text
