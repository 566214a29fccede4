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

"""One step of a hand-over, and the order of steps."""

import dataclasses
import enum
from collections.abc import Iterable


class State(enum.StrEnum):
    """How far a step is."""

    DONE = 'done'
    TO_DO = 'to do'
    BLOCKED = 'blocked'


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a hand-over.

    :param goal: What is so once the step is done.
    :param state: How far it is.
    :param why: What was found, and what to do.
    :param commands: Commands that do the step, complete.
    :param waits: Whether it has to wait until all steps before it are done.
    """

    goal: str
    state: State
    why: str = ''
    commands: tuple[str, ...] = ()
    waits: bool = True


def done(goal: str, why: str = '') -> Step:
    """Return a step that is done."""
    return Step(goal, State.DONE, why)


def to_do(goal: str, why: str, *commands: str) -> Step:
    """Return a step that can be done now; empty commands are left out."""
    return Step(goal, State.TO_DO, why, tuple(filter(None, commands)))


def blocked(goal: str, why: str, *commands: str) -> Step:
    """Return a step that can't be done before something else is."""
    return Step(goal, State.BLOCKED, why, tuple(filter(None, commands)))


def at_any_time(step: Step) -> Step:
    """Return a step that waits for no other one."""
    return dataclasses.replace(step, waits=False)


def put_in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Block the steps that have to wait for one that is not done.

    :param steps: The steps, each judged by itself.
    """
    ordered: list[Step] = []
    first_open = 0
    for number, step in enumerate(steps, start=1):
        if step.waits and step.state is State.TO_DO and first_open:
            ordered.append(
                dataclasses.replace(
                    step,
                    state=State.BLOCKED,
                    why=f'after step {first_open}',
                    commands=(),
                )
            )
        else:
            ordered.append(step)
        if step.state is not State.DONE:
            first_open = first_open or number
    return tuple(ordered)
