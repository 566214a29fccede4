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

"""The results of the steps, as text and as JSON."""

import collections.abc
import dataclasses
import json
import pathlib
import typing

#: A value that json.dumps can write.
Json = typing.Any


@dataclasses.dataclass(frozen=True)
class Step:
    """The expected and the observed result of a step.

    ``shown`` are lines that show the result to a person.
    """

    step: str
    expected: Json
    observed: Json
    shown: collections.abc.Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether the observed result is the expected one."""
        return bool(self.expected == self.observed)

    def document(self) -> dict[str, Json]:
        """Return the step as ``--json`` writes it."""
        return {
            'step': self.step,
            'expected': self.expected,
            'observed': self.observed,
            'ok': self.ok,
        }


def differences(expected: Json, observed: Json, at: str = '') -> list[str]:
    """Return one line per difference between two results.

    :param at: the path of the values within the result.
    """
    if isinstance(expected, dict) and isinstance(observed, dict):
        lines = []
        for key in [*expected, *observed]:
            place = f'{at}.{key}' if at else str(key)
            if key not in observed:
                lines.append(f'{place}: missing, expected {expected[key]!r}')
            elif key not in expected:
                lines.append(f'{place}: unexpected, is {observed[key]!r}')
            else:
                lines += differences(expected[key], observed[key], place)
        return list(dict.fromkeys(lines))
    if expected == observed:
        return []
    return [f'{at or "result"}: expected {expected!r}, is {observed!r}']


def reason(error: Exception) -> str:
    """Return the type and message of an error."""
    return f'{type(error).__name__}: {error}'


def show(step: Step, number: int) -> None:
    """Print the heading of a step, its result and the verdict."""
    show_lines(f'{number}. {step.step}', step.shown)
    if step.ok:
        print('  ok', flush=True)
        return
    print('  WRONG')
    for line in differences(step.expected, step.observed):
        print(f'    {line}', flush=True)


def show_lines(heading: str, lines: collections.abc.Iterable[str]) -> None:
    """Print a heading and, indented, lines."""
    print(f'\n{heading}\n{"-" * len(heading)}')
    for line in lines:
        print(f'  {line}'.rstrip())


def write(path: pathlib.Path, steps: collections.abc.Iterable[Step]) -> None:
    """Write the steps to a file as a JSON list of their documents."""
    documents = [step.document() for step in steps]
    path.write_text(json.dumps(documents, indent=2) + '\n')
