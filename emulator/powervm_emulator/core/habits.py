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

"""What a host does in every answer, other than most hosts."""

import contextvars
import dataclasses
from collections.abc import Mapping

from powervm_emulator.core import errors


@dataclasses.dataclass(frozen=True)
class Habits:
    """The habits of one host; those of most hosts by default.

    :ivar unknown_session: the status for a request without a session.
    :ivar names_kind: whether answers have the header ``X-MC-Type``.
    :ivar answers_unchanged: whether a conditional read of what is unchanged
        gets 304.
    :ivar accepts: the rules that the host does not have; see :func:`refuse`.
    :ivar statuses: the status of a refusal, by rule.
    :ivar orders: what is listed to its order; see :mod:`.reshaping`.
    :ivar hidden: what Virtual I/O Servers that are silent do not show; see
        :mod:`.reshaping`.
    """

    unknown_session: int = 401
    names_kind: bool = True
    answers_unchanged: bool = True
    accepts: frozenset[str] = frozenset()
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)
    orders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


_current: contextvars.ContextVar[Habits] = contextvars.ContextVar('habits')


def use(habits: Habits) -> None:
    """Answer the request of this thread with habits."""
    _current.set(habits)


def hides(what: str) -> bool:
    """Return whether silent Virtual I/O Servers do not show something."""
    return what in _current.get(Habits()).hidden


def refuse(rule: str, error: errors.RestError) -> None:
    """Refuse a request, unless the host does not have the rule.

    :param rule: the name of the check of ``nova-powervm-check`` for it.
    :raises errors.RestError: the host has it; the status is the host's.
    """
    habits = _current.get(Habits())
    if rule not in habits.accepts:
        error.status = habits.statuses.get(rule, error.status)
        raise error
