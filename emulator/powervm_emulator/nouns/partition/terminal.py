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

"""The terminal of a partition."""

from collections.abc import Sequence

from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.nouns.partition import model as partition_module

Host = host_module.Host
Partition = partition_module.Partition
_RETURN, _BACKSPACE = 0xFF0D, 0xFF08
_PROMPT = '> '


class Screen:
    """Shows what a partition is and does, and what is typed.

    There is no guest behind it.
    """

    def __init__(self, host: Host, partition: Partition) -> None:
        self._host = host
        self._partition = partition
        self._typed = ['']

    @property
    def name(self) -> str:
        """The name of the partition."""
        return self._partition.name

    def lines(self) -> Sequence[str]:
        """Return what the partition reports, and the last lines typed."""
        with self._host.condition:
            reported = (
                self._partition.name,
                f'state {self._partition.state}',
                f'code {self._partition.text("ReferenceCode")}',
                '',
            )
        return (*reported, *(_PROMPT + line for line in self._typed[-4:]))

    def press(self, keysym: int) -> None:
        """Type a letter, end the line, or take back a letter."""
        if keysym == _RETURN:
            self._typed.append('')
        elif keysym == _BACKSPACE:
            self._typed[-1] = self._typed[-1][:-1]
        elif 0x20 <= keysym < 0x7F:
            self._typed[-1] += chr(keysym)


class CloseVterm(jobs_module.Operation):
    """Close the terminal of a partition, whoever has opened it."""

    target: Partition

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self.host.terminals.close(self.target.uuid)
        return {'returnCode': '0'}


BY_NAME: dict[str, type[jobs_module.Operation]] = {'CloseVterm': CloseVterm}
