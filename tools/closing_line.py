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

"""Prints the last line of a test run: ``N passed, N failed, N skipped``.

Reads a subunit stream from standard input; exits 1 if a test failed or none
ran.
"""

import collections
import sys

import subunit
import testtools

_PASSED = ('success', 'xfail')
_SKIPPED = ('skip',)


def main() -> int:
    """Count the stream's outcomes and print them."""
    outcomes: collections.Counter[str] = collections.Counter()

    def count(test: dict[str, str]) -> None:
        status = test['status']
        if status in _PASSED:
            outcomes['passed'] += 1
        elif status in _SKIPPED:
            outcomes['skipped'] += 1
        else:
            outcomes['failed'] += 1

    stream = subunit.ByteStreamToStreamResult(
        sys.stdin.buffer, non_subunit_name='stdout'
    )
    result = testtools.StreamToDict(count)
    result.startTestRun()
    stream.run(result)
    result.stopTestRun()
    print(
        f'{outcomes["passed"]} passed, {outcomes["failed"]} failed, '
        f'{outcomes["skipped"]} skipped'
    )
    return 1 if outcomes['failed'] or not outcomes['passed'] else 0


if __name__ == '__main__':
    sys.exit(main())
