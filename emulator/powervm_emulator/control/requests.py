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

"""The verbs about requests: faults, and the journal."""

import dataclasses
from typing import Any

from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import faults as faults_module

JSON = dict[str, Any]


class Requests:
    """The verbs that make requests fail and tell which there were."""

    _emulation: emulation_module.Emulation

    def add_fault(  # noqa: PLR0913 - the fields of a fault
        self,
        *,
        method: str = '',
        match: str = '',
        nth: int = 1,
        every: bool = False,
        phase: str = 'before',
        status: int = 0,
        message: str = 'Injected by a test.',
        drop: bool = False,
        delay: float = 0.0,
    ) -> JSON:
        """Make a future request fail, as :class:`core.faults.Fault` describes.

        :returns: the fault, with its number.
        """
        fault = faults_module.Fault(
            method=method.upper(),
            match=match,
            nth=nth,
            every=every,
            phase=phase,
            status=status,
            message=message,
            drop=drop,
            delay=delay,
        )
        return dataclasses.asdict(self._emulation.faults.add(fault))

    def faults(self) -> list[JSON]:
        """Return the faults, with the number of times each was applied."""
        installed = self._emulation.faults.all()
        return [dataclasses.asdict(fault) for fault in installed]

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._emulation.faults.clear()

    def journal(self) -> list[JSON]:
        """Return the latest 2000 requests, oldest first."""
        records = self._emulation.journal.records()
        return [dataclasses.asdict(record) for record in records]

    def journal_counts(self) -> dict[str, int]:
        """Return the number of all requests, listed or not, per label."""
        return self._emulation.journal.counts()

    def clear_journal(self) -> None:
        """Clear the journal; the numbering continues."""
        self._emulation.journal.clear()
