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

"""Kills nova-compute at each REST request of operations on a shared pool.

    python -m tests.cloud.pool_kills [--seed S --cases N] [--operation NAME]

Runs one cloud with two hosts. An operation is run once without a fault; the
journal of the emulator then lists its requests. For each of them, the
operation is run again, and nova-compute is killed before the request is
handled; if it changes something, also afterwards. Then nova-compute starts
again, and what :mod:`.pool_checks` states has to become true. At the end of
each case the server is deleted, and nothing may be left.
The exit status is 1 if anything is wrong.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time
import traceback

from tests.cloud import move_kills
from tests.cloud import pool_site

NAMES = (
    *('cold_boot', 'boot', 'delete', 'evacuate'),
    *('migrate', 'resize', 'resize_in_place', 'confirm', 'revert'),
)


def run_case(operations, name, point):
    """Run a case, print a line, and return whether nothing was wrong."""
    began = time.monotonic()
    operations.faults, operations.is_reached = [], False
    try:
        getattr(operations, name)(point)
    except Exception:
        operations.faults.append(traceback.format_exc())
    if operations.faults:
        try:
            operations.recover()
        except Exception:
            operations.faults.append(traceback.format_exc())
    wrong = 'WRONG' if operations.faults else 'ok'
    reached = '' if operations.is_reached or not point else ', not reached'
    where = f'{point} of host {point.side + 1}' if point else 'without a kill'
    print(
        f'{wrong:5} {name} {where}{reached}: {time.monotonic() - began:.1f} s',
        flush=True,
    )
    for fault in operations.faults:
        print(f'      {fault}', flush=True)
    return not operations.faults


def choose(cases, arguments):
    """Return the cases of a sample, or all of them."""
    if arguments.cases is None:
        return cases
    generator = random.Random(arguments.seed)  # noqa: S311
    return generator.sample(cases, min(arguments.cases, len(cases)))


def main():
    """Run the cases, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--cases', type=int)
    parser.add_argument('--operation', choices=NAMES, action='append')
    parser.add_argument('--state-dir', type=pathlib.Path)
    arguments = parser.parse_args()
    state = arguments.state_dir or pathlib.Path(tempfile.mkdtemp()) / 'cloud'
    wrong = reached = 0
    with pool_site.running(state) as site:
        began = time.monotonic()
        operations = move_kills.MoveOperations(site)
        cases = []
        # The first one writes the image to the pool.
        wrong += not run_case(operations, 'boot', None)
        for name in arguments.operation or NAMES:
            wrong += not run_case(operations, name, None)
            cases += [(name, point) for point in operations.points]
        chosen = choose(cases, arguments)
        print(f'{len(chosen)} of {len(cases)} cases', flush=True)
        for name, point in chosen:
            wrong += not run_case(operations, name, point)
            reached += operations.is_reached
    print(
        f'{len(chosen)} cases, {reached} kills, {wrong} wrong, '
        f'{time.monotonic() - began:.0f} s; the logs are in {state / "log"}'
    )
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
