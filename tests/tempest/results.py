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

"""The results of Tempest's tests, and how those of two runs differ."""

import collections
import dataclasses
import json
import pathlib
import re

import subunit
import testtools
import yaml

PASSED, FAILED, SKIPPED, ABSENT = 'passed', 'failed', 'skipped', 'not run'

_DIFFERENCES = pathlib.Path(__file__).with_name('differences.yaml')
_STATUSES = {
    'success': PASSED,
    'xfail': PASSED,
    'skip': SKIPPED,
}
#: What stands for a whole class that was skipped or could not be set up.
_CLASS = re.compile(r'(?:setUpClass|tearDownClass) \((.+)\)')
# Tempest appends the UUID and the attributes of a test to its name.
_ATTRIBUTES = re.compile(r'\[[^\]]*\]$')
_REASON_LINES = 12


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a test.

    :ivar status: one of the words of this module.
    :ivar reason: why it was skipped, or the end of what it said in failing.
    """

    status: str
    reason: str = ''


@dataclasses.dataclass(frozen=True)
class Difference:
    """A test that did not fare alike in two runs.

    :ivar first: its result in the first run.
    :ivar second: its result in the second run.
    :ivar cause: why this is expected; empty if nobody has explained it.
    """

    test: str
    first: Result
    second: Result
    cause: str


def read(stream, names):
    """Return the results of a run, by the names of the tests.

    :param stream: what Tempest reported, in subunit's binary form.
    :param names: the tests that were to run. Those of a class that was
        skipped have the result of the class.
    """
    found = {}

    def add(test):
        found[test['id']] = _result(test)

    reader = subunit.ByteStreamToStreamResult(stream, 'stdout')
    converter = testtools.StreamToDict(add)
    converter.startTestRun()
    reader.run(converter)
    converter.stopTestRun()
    classes = {
        match[1]: result
        for test, result in found.items()
        if (match := _CLASS.fullmatch(test))
    }
    return {
        _ATTRIBUTES.sub('', name): found.get(name)
        or classes.get(_ATTRIBUTES.sub('', name).rpartition('.')[0])
        or Result(ABSENT)
        for name in names
    }


def _result(test):
    status = _STATUSES.get(test['status'], FAILED)
    details = {
        name: content.as_text().strip()
        for name, content in test['details'].items()
    }
    if status == SKIPPED:
        return Result(status, details.get('reason', ''))
    if status == FAILED:
        said = details.get('traceback') or '\n'.join(details.values())
        return Result(status, '\n'.join(said.splitlines()[-_REASON_LINES:]))
    return Result(status)


def save(path, hypervisors, found):
    """Write the results of a run on these types of hypervisors."""
    document = {
        'hypervisors': hypervisors,
        'tests': {
            name: dataclasses.asdict(result) for name, result in found.items()
        },
    }
    path.write_text(json.dumps(document, indent=1) + '\n')


def load(path):
    """Return what :func:`save` wrote: the hypervisors and the results."""
    document = json.loads(path.read_text())
    found = {
        name: Result(**result) for name, result in document['tests'].items()
    }
    return document['hypervisors'], found


def summary(found):
    """Return how many tests have each status, as a line."""
    counts = collections.Counter(result.status for result in found.values())
    parts = [
        f'{counts[status]} {status}'
        for status in (PASSED, FAILED, SKIPPED, ABSENT)
        if counts[status]
    ]
    return f'{len(found)} tests: {", ".join(parts)}'


def compare(first, second, causes=None):
    """Return the tests whose status differs between two runs, sorted.

    :param causes: (pattern of names, cause); by default those of
        ``differences.yaml``.
    """
    if causes is None:
        causes = read_causes()
    differences = []
    for test in sorted({*first, *second}):
        one, other = (run.get(test, Result(ABSENT)) for run in (first, second))
        if one.status != other.status:
            cause = next(
                (cause for pattern, cause in causes if pattern.search(test)),
                '',
            )
            differences.append(Difference(test, one, other, cause))
    return differences


def read_causes(path=_DIFFERENCES):
    """Return the causes of the differences that are expected."""
    return [
        (re.compile(entry['tests']), ' '.join(entry['cause'].split()))
        for entry in yaml.safe_load(path.read_text()) or ()
    ]
