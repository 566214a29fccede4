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

"""How long the long tests take, for a checkout whose stestr has no timings.

``durations.py read`` writes ``tests/durations`` as a subunit stream, which
stestr can load. ``durations.py write`` writes the file from the subunit stream
of a run on its standard input.
"""

import datetime
import pathlib
import sys

import subunit
import testtools

FILE = pathlib.Path(__file__).parents[1] / 'tests' / 'durations'

#: Seconds; tests that take less make no difference.
_LEAST = 5
_BEGIN = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


def known() -> dict[str, int]:
    """Return the seconds of each test in the file, by its id."""
    lines = FILE.read_text().splitlines()
    return {name: int(seconds) for seconds, name in map(str.split, lines)}


def read() -> None:
    """Write a stream in which each test of the file takes its time."""
    stream = subunit.StreamResultToBytes(sys.stdout.buffer)
    for name, seconds in known().items():
        end = _BEGIN + datetime.timedelta(seconds=seconds)
        for status, time in (('inprogress', _BEGIN), ('success', end)):
            stream.status(test_id=name, test_status=status, timestamp=time)


def write() -> None:
    """Write the file from the stream of a run."""
    found = []

    def note(test: dict[str, list[datetime.datetime]]) -> None:
        begin, end = test['timestamps']
        if begin and end:
            found.append((round((end - begin).total_seconds()), test['id']))

    stream = subunit.ByteStreamToStreamResult(
        sys.stdin.buffer, non_subunit_name='stdout'
    )
    result = testtools.StreamToDict(note)
    result.startTestRun()
    stream.run(result)
    result.stopTestRun()
    long = sorted((one for one in found if one[0] >= _LEAST), reverse=True)
    FILE.write_text(''.join(f'{seconds} {name}\n' for seconds, name in long))


if __name__ == '__main__':
    {'read': read, 'write': write}[sys.argv[1]]()
