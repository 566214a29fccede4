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

"""The steps of the demonstration, for people and for programs."""

import collections.abc
import dataclasses
import json
import pathlib
import sys
import typing

#: What json.dumps can write; both sides of a step are made of it.
Json = typing.Any


@dataclasses.dataclass(frozen=True)
class Step:
    """A step: what it must come to, and what it came to.

    ``shown`` are lines that let a person see it for themselves.
    """

    step: str
    expected: Json
    observed: Json
    shown: collections.abc.Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return bool(self.expected == self.observed)

    def document(self) -> dict[str, Json]:
        """Return the step as ``--json`` has it."""
        return {
            'step': self.step,
            'expected': self.expected,
            'observed': self.observed,
            'ok': self.ok,
        }


def differences(expected: Json, observed: Json, at: str = '') -> list[str]:
    """Return a line per place where ``observed`` is not as expected."""
    if isinstance(expected, dict) and isinstance(observed, dict):
        lines = []
        for key in [*expected, *(key for key in observed)]:
            place = f'{at}.{key}' if at else str(key)
            if key not in observed:
                lines.append(f'{place}: missing, expected {expected[key]!r}')
            elif key not in expected:
                lines.append(f'{place}: not expected, is {observed[key]!r}')
            else:
                lines += differences(expected[key], observed[key], place)
        return list(dict.fromkeys(lines))
    if expected == observed:
        return []
    return [f'{at or "it"}: expected {expected!r}, is {observed!r}']


def reason(error: Exception) -> str:
    """Return what a failed request says of itself."""
    return f'{type(error).__name__}: {error}'


def show(step: Step, number: int, out: typing.TextIO = sys.stdout) -> None:
    """Print a step: its heading, what is to be seen, and the verdict."""
    heading = f'{number}. {step.step}'
    print(f'\n{heading}\n{"-" * len(heading)}', file=out)
    for line in step.shown:
        print(f'  {line}'.rstrip(), file=out)
    if step.ok:
        print('  ok', file=out, flush=True)
        return
    print('  WRONG', file=out)
    for line in differences(step.expected, step.observed):
        print(f'    {line}', file=out, flush=True)


def write(path: pathlib.Path, steps: collections.abc.Iterable[Step]) -> None:
    """Write the steps as a JSON list of their documents."""
    documents = [step.document() for step in steps]
    path.write_text(json.dumps(documents, indent=2) + '\n')
