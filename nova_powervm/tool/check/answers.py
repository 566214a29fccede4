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

"""Checks, and their answers.

An answer has a value of a few types, whose schema its check declares: numbers,
yes or no, and words of the API. Names, addresses, serial numbers and other
texts of the host are in the details only, which are printed and not reported.
"""

import dataclasses
import enum
import functools
import operator
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_powervm.powervm.check import inspection
from nova_powervm.tool import errors

_Host = TypeVar('_Host')

#: Part of a JSON schema.
Schema = Mapping[str, Any]

YES_OR_NO: Schema = {'type': 'boolean'}
COUNT: Schema = {'type': 'integer', 'minimum': 0}
SECONDS: Schema = {'type': 'number', 'minimum': 0}


def word_of(*words: str) -> Schema:
    """Return the schema of a word of the API."""
    return {'enum': list(words)}


def counts_of(*names: str) -> Schema:
    """Return the schema of several numbers."""
    return {
        'type': 'object',
        'properties': dict.fromkeys(names, COUNT),
        'required': list(names),
        'additionalProperties': False,
    }


class Meaning(enum.StrEnum):
    """What it means to the driver if a host is not as it assumes."""

    COPES = 'the driver copes'
    OFF = 'a feature is off'
    UNFIT = 'do not use'


class Outcome(enum.StrEnum):
    """What a check has found."""

    AGREES = 'as assumed'
    DIFFERS = 'different'
    UNKNOWN = 'cannot tell'
    #: The host refused to be read for it, or did not answer.
    ERROR = 'no answer'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a check has found on a host.

    :param outcome: Whether the host is as the driver assumes.
    :param value: What was found, as the schema of the check says; None if
        nothing was.
    :param detail: What was found, in words, with names.
    :param status: The HTTP status of an error.
    """

    outcome: Outcome
    value: Any = None
    detail: str = ''
    status: int | None = None


def judged(agrees: bool, value: Any, detail: str = '') -> Answer:
    """Return the answer of a check that has found something."""
    outcome = Outcome.AGREES if agrees else Outcome.DIFFERS
    return Answer(outcome, value, detail)


def unknown(why: str, value: Any = None) -> Answer:
    """Return the answer of a check that found nothing to judge by."""
    return Answer(Outcome.UNKNOWN, value, why)


def refused(status: int | None) -> Answer:
    """Return the answer about something that is to be refused.

    :param status: The HTTP status of the refusal; None without one.
    """
    outcome = Outcome.DIFFERS if status is None else Outcome.AGREES
    detail = 'accepted' if status is None else f'refused (HTTP {status})'
    return Answer(outcome, status is not None, detail, status)


def needs(
    part: str, why: str
) -> Callable[[Callable[[_Host], Answer]], Callable[[_Host], Answer]]:
    """Return what makes a check depend on a part of what it looks at.

    :param part: An attribute, which is false if the part is missing; dots
        lead further.
    :param why: Why the check cannot tell then.
    """
    find = operator.attrgetter(part)

    def decorate(
        judge: Callable[[_Host], Answer],
    ) -> Callable[[_Host], Answer]:
        @functools.wraps(judge)
        def judge_if_there(host: _Host) -> Answer:
            return judge(host) if find(host) else unknown(why)

        return judge_if_there

    return decorate


@dataclasses.dataclass(frozen=True, slots=True)
class Check(Generic[_Host]):
    """One check.

    :param name: Stable name of the check, for reports.
    :param title: What it is about.
    :param assumes: What the driver assumes, as a sentence.
    :param seen: How that is seen.
    :param meaning: What it means if the host differs.
    :param otherwise: The same in words, with what to do.
    :param value: The schema of the value.
    :param judge: Looks at the host.
    """

    name: str
    title: str
    assumes: str
    seen: str
    meaning: Meaning
    otherwise: str
    value: Schema
    judge: Callable[[_Host], Answer]

    def ask(self, host: _Host) -> Answer:
        """Return the answer, also if the host cannot be read for it.

        A host that is unlike all that are known may break any code here, and
        the other checks are to be made all the same.
        """
        try:
            return self.judge(host)
        except errors.EXPECTED as error:
            return Answer(
                Outcome.ERROR,
                detail=errors.one_line(error),
                status=inspection.status_of(error),
            )
        except Exception as error:
            kind = type(error).__name__
            return Answer(Outcome.ERROR, detail=f'{kind}: {error}')


@dataclasses.dataclass(frozen=True, slots=True)
class Result(Generic[_Host]):
    """The answer of one check of a run.

    :param number: The number of the check.
    :param seconds: How long it took, with the requests that were not made by
        an earlier one.
    """

    number: int
    check: Check[_Host]
    answer: Answer
    seconds: float

    @property
    def meaning(self) -> Meaning | None:
        """What it means to the driver; None if nothing follows from it."""
        if self.answer.outcome in (Outcome.DIFFERS, Outcome.ERROR):
            return self.check.meaning
        return None


def run(
    checks: Sequence[Check[_Host]],
    host: _Host,
    before: Callable[[int, Check[_Host]], None],
    after: Callable[[Result[_Host]], None],
) -> list[Result[_Host]]:
    """Make checks, one after the other.

    :param before: Is called before each check, with its number.
    :param after: Is called with its result.
    """
    results = []
    for number, check in enumerate(checks, 1):
        before(number, check)
        started = time.monotonic()
        answer = check.ask(host)
        seconds = time.monotonic() - started
        results.append(Result(number, check, answer, seconds))
        after(results[-1])
    return results


def listed(items: Iterable[object], most: int = 8) -> str:
    """Return items in words, and the number of those beyond the most."""
    texts = [str(item) for item in items]
    more = f' and {len(texts) - most} more' if len(texts) > most else ''
    return ', '.join(texts[:most]) + more
