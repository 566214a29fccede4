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

"""Failures that a test asks for."""

import dataclasses
import re
import threading

from powervm_emulator.core import errors

MAX_DELAY = 600
PHASES = ('before', 'after')


@dataclasses.dataclass
class Fault:
    """A failure of a request that is still to come.

    :ivar method: of the request, in upper case; empty for any.
    :ivar match: a regular expression that is searched in the path with its
        query, or a route's label as a whole; empty for any.
    :ivar nth: which matching request it is, 1 for the next one.
    :ivar every: whether each one from the nth on fails.
    :ivar phase: ``before`` the request is handled, or ``after``: the change
        is made and its answer lost.
    :ivar status: of the error that is answered; 0 for none.
    :ivar message: of the error.
    :ivar drop: close the connection without an answer.
    :ivar delay: seconds to wait, before the request is handled or after it
        as the phase says; with neither status nor drop the request is then
        answered as usual.
    :ivar seen: how many requests have matched so far.
    :ivar applied: how many of them failed.
    """

    number: int = 0
    method: str = ''
    match: str = ''
    nth: int = 1
    every: bool = False
    phase: str = 'before'
    status: int = 0
    message: str = 'Injected by a test.'
    drop: bool = False
    delay: float = 0.0
    seen: int = 0
    applied: int = 0

    def check(self) -> None:
        """Refuse a fault that could not happen or would do nothing.

        :raises errors.ControlError: says what is wrong.
        """
        if self.phase not in PHASES:
            raise errors.ControlError(f'phase {self.phase!r} not in {PHASES}')
        if self.nth < 1:
            raise errors.ControlError('nth counts from 1')
        if not 0 <= self.delay <= MAX_DELAY:
            raise errors.ControlError(f'delay is 0 to {MAX_DELAY} seconds')
        if not (self.status or self.drop or self.delay):
            raise errors.ControlError('give a status, drop or a delay')
        if self.status and not 400 <= self.status <= 599:
            raise errors.ControlError(
                f'{self.status} is not the status of an error'
            )
        try:
            re.compile(self.match)
        except re.error as error:
            raise errors.ControlError(f'match: {error}') from error

    def matches(self, method: str, path: str, label: str) -> bool:
        """Whether a request is one of those that it counts."""
        if self.method and self.method != method:
            return False
        return self.match in ('', label) or bool(re.search(self.match, path))

    def count(self) -> bool:
        """Count a matching request and say whether it is to fail."""
        self.seen += 1
        return self.seen == self.nth or (self.every and self.seen > self.nth)


class Faults:
    """The faults that are installed, safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._last = 0

    def add(self, fault: Fault) -> Fault:
        """Install a fault and give it its number.

        :raises errors.ControlError: it could not happen.
        """
        fault.check()
        with self._lock:
            self._last += 1
            fault.number = self._last
            self._faults.append(fault)
        return fault

    def take(self, method: str, path: str, label: str) -> Fault | None:
        """Count a request and return the fault that is to befall it.

        Every matching fault counts it; the oldest that is due is returned.
        """
        with self._lock:
            due = [
                fault
                for fault in self._faults
                if fault.matches(method, path, label) and fault.count()
            ]
            if not due:
                return None
            due[0].applied += 1
            return due[0]

    def all(self) -> list[Fault]:
        """Return copies of the installed faults."""
        with self._lock:
            return [dataclasses.replace(fault) for fault in self._faults]

    def clear(self) -> None:
        """Take every fault out."""
        with self._lock:
            self._faults.clear()
