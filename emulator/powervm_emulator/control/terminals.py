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

"""The verbs about terminals, which stand for mkvterm and rmvterm."""

from typing import Any

from powervm_emulator.control import lookup
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.nouns.partition import terminal

JSON = dict[str, Any]
#: What mkvterm returns if the terminal is open, and if anything is wrong.
_IS_OPEN, _FAILED = 3, 1


class Terminals:
    """The verbs that open and close the terminals of partitions."""

    _emulation: emulation_module.Emulation

    def open_terminal(
        self,
        partition: str | int,
        vnc: bool = True,
        system: str | None = None,
    ) -> JSON:
        """Open the terminal of a partition, as mkvterm does.

        :param partition: UUID, name or id.
        :param vnc: whether viewers can connect to a port; without, it is what
            an administrator has open in a shell.
        :param system: UUID or name; required if there are several.
        :returns: the ``code`` that mkvterm returns, the ``port`` or None, and
            a ``message``.
        """
        host = self._emulation.host
        with host.changing():
            target = lookup.system(host, system)
            found = lookup.partition(host, partition, target)
            terminals = host.terminals
            if terminals.failures:
                return _result(_FAILED, None, terminals.failures.pop(0))
            if found.uuid in terminals:
                port = terminals.port(found.uuid)
                return _result(_IS_OPEN, port, 'The terminal is open.')
            shown = terminal.Screen(host, found) if vnc else None
            terminals.open(found.uuid, shown)
            return _result(0, terminals.port(found.uuid), '')

    def close_terminal(
        self, partition: str | int, system: str | None = None
    ) -> None:
        """Close the terminal of a partition, as rmvterm does.

        :param partition: UUID, name or id.
        :param system: UUID or name; required if there are several.
        """
        host = self._emulation.host
        with host.changing():
            target = lookup.system(host, system)
            found = lookup.partition(host, partition, target)
            host.terminals.close(found.uuid)

    def plan_terminal(self, message: str) -> None:
        """Make the next call of mkvterm fail with code 1."""
        with self._emulation.host.condition:
            self._emulation.host.terminals.failures.append(message)


def _result(code: int, port: int | None, message: str) -> JSON:
    return {'code': code, 'port': port, 'message': message}
