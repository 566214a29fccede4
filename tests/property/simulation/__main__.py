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

"""Runs the simulation for long, outside of the test suite."""

import argparse
import sys

import hypothesis
from hypothesis import stateful

from tests.property.simulation import machine
from tests.property.simulation import run_statistics

_MACHINES = (
    machine.Simulation,
    machine.MoveSimulation,
    machine.CleaningSimulation,
)
#: Steps of one run at the most.
_STEPS = 60


def main():
    parser = argparse.ArgumentParser(
        prog='python3 -m tests.property.simulation', description=__doc__
    )
    parser.add_argument('--steps', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument(
        '--no-shrink',
        dest='shrink',
        action='store_false',
        help='show what fails as it was found, not the shortest way to it',
    )
    options = parser.parse_args()
    seed = options.seed
    while run_statistics.TOTALS.steps < options.steps:
        _run(seed, options.steps - run_statistics.TOTALS.steps, options.shrink)
        seed += 1
    print('\n'.join(run_statistics.TOTALS.lines()))
    return 0


def _run(seed, steps, shrink):
    phases = {hypothesis.Phase.generate}
    if shrink:
        phases.add(hypothesis.Phase.shrink)
    stateful.run_state_machine_as_test(
        hypothesis.seed(seed)(_MACHINES[seed % len(_MACHINES)]),
        settings=hypothesis.settings(
            max_examples=max(1, min(100, steps // 30)),
            stateful_step_count=_STEPS,
            derandomize=False,
            database=None,
            deadline=None,
            print_blob=True,
            phases=phases,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


sys.exit(main())
