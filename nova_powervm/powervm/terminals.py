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

"""The terminals of LPARs, which only the management partition can open.

pypowervm can also listen for clients from outside, but a single silent client
ends its thread for good. Therefore only pypowervm's calls for the terminal
itself are used here; :mod:`nova_powervm.ops.console_listener` does the rest.
"""

import contextlib
from collections.abc import Iterator

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions as pvm
from pypowervm.tasks import vterm

from nova_powervm import exception
from nova_powervm.ops import consoles
from nova_powervm.powervm import rest_errors


class LocalTerminals(consoles.Terminals):
    """Opens and closes terminals with the commands mkvterm and rmvterm.

    :param adapter: An adapter with a session that has logged on.
    :param closes_others: Whether to close a terminal that somebody else has
        open, in order to open it.
    """

    def __init__(
        self, adapter: pvm_adapter.Adapter, *, closes_others: bool
    ) -> None:
        self._adapter = adapter
        self._closes_others = closes_others

    def open(self, lpar_uuid: str) -> int:
        port = self._make(lpar_uuid, closes_others=self._closes_others)
        if port is None:
            raise exception.ConsoleUnavailable(
                lpar_uuid=lpar_uuid,
                reason='an administrator of the host has its only terminal '
                'open. Wait until it is closed (rmvterm), or set '
                '[powervm]vnc_close_other_terminals, which closes it',
            )
        return port

    def close(self, lpar_uuid: str) -> None:
        """Close the terminal of an LPAR, but not one opened in a shell.

        Only mkvterm tells them apart: it reports no port for a terminal that
        was opened in a shell. If no terminal is open, it opens one.
        """
        try:
            if self._make(lpar_uuid, closes_others=False) is not None:
                with _translated(lpar_uuid):
                    vterm.close_vterm(self._adapter, lpar_uuid)
        except exception.PartitionNotFound:
            # The terminal has gone with its LPAR.
            return

    def _make(self, lpar_uuid: str, *, closes_others: bool) -> int | None:
        if not self._adapter.traits.local_api:
            raise exception.ConsoleUnavailable(
                lpar_uuid=lpar_uuid,
                reason='nova-compute logs on to the REST API with a '
                'password. Only on the management partition (NovaLink) '
                'itself, without [powervm]rest_username and rest_password, '
                'can it open terminals',
            )
        with _translated(lpar_uuid):
            port: int | None = vterm.open_localhost_vnc_vterm(
                self._adapter, lpar_uuid, force=closes_others
            )
        return port


@contextlib.contextmanager
def _translated(lpar_uuid: str) -> Iterator[None]:
    """Translate the errors of the commands, and of requests for them."""
    try:
        with rest_errors.translated(f'using the terminal of LPAR {lpar_uuid}'):
            yield
    except FileNotFoundError as error:
        raise exception.ConsoleUnavailable(
            lpar_uuid=lpar_uuid,
            reason=exception.PrivateText(
                f'the command {error.filename} is not in the PATH of '
                'nova-compute. It belongs to NovaLink',
                'a command of NovaLink is missing',
            ),
        ) from error
    except OSError as error:
        # Such as a lack of file descriptors or processes.
        raise exception.ConsoleUnavailable(
            lpar_uuid=lpar_uuid,
            reason=exception.PrivateText(
                f'nova-compute cannot run mkvterm ({error.strerror})',
                'the host cannot open it now',
            ),
        ) from error
    except exception.RestError as error:
        below = error.__cause__
        if isinstance(below, pvm.HttpNotFound):
            raise exception.PartitionNotFound(uuid=lpar_uuid) from error
        if isinstance(below, pvm.VNCBasedTerminalFailedToOpen):
            reason = str(below)
            raise exception.ConsoleUnavailable(
                lpar_uuid=lpar_uuid,
                reason=exception.PrivateText(
                    reason.rstrip('.'), 'the host cannot open its terminal'
                ),
            ) from error
        raise
