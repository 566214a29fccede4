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

"""Runs the benchmark: one process for each driver and number of devices."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

from tests.benchmark import report

CONTENDERS = ('libvirt-pci', 'powervm', 'powervm-skip')


def main():
    """Measure, print the table, write the JSON file.

    :returns: 0; 1 if something could not be measured, 2 if a target is
        missed.
    """
    options = _options()
    print(
        f'{platform.machine()}, {os.cpu_count()} processors, Python '
        f'{platform.python_version()}, load {os.getloadavg()[0]:.1f}'
    )
    runs = {name: {} for name in CONTENDERS}
    for number in options.devices:
        for name in CONTENDERS:
            print(f'{name}, {number} devices ...', file=sys.stderr)
            found = _measured(name, number, options)
            if found is None:
                return 1
            runs[name][number] = found
    rows = _policies()
    print(*report.table(runs), sep='\n')
    print(*report.policy_table(rows), sep='\n')
    print('\ntargets')
    met = [_print_target(*target) for target in report.targets(runs, rows)]
    print(f'\nload at the end {os.getloadavg()[0]:.1f}')
    with open(options.output, 'w') as file:
        json.dump({'runs': runs, 'policies': rows}, file, indent=2)
    print(f'All figures are in {options.output}.')
    return 0 if all(met) else 2


def _options():
    parser = argparse.ArgumentParser(
        prog='python -m tests.benchmark', description=__doc__
    )
    parser.add_argument(
        '--devices',
        type=lambda text: [int(number) for number in text.split(',')],
        default=[4, 16, 64, 256],
        help='numbers of devices, with commas (default: 4,16,64,256)',
    )
    parser.add_argument(
        '--repeats', type=int, default=7, help='cycles of each (default: 7)'
    )
    parser.add_argument(
        '--output', default='benchmark.json', help='file for all figures'
    )
    return parser.parse_args()


def _measured(name, number, options):
    from tests.benchmark import measuring  # noqa: PLC0415  loads nova

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'outcome.json')
        arguments = [name, str(number), str(options.repeats), path]
        run = subprocess.run(
            [sys.executable, '-m', 'tests.benchmark.one', *arguments],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode:
            print(run.stderr[-3000:], file=sys.stderr)
            return None
        with open(path) as file:
            return measuring.summary(json.load(file))


def _policies():
    from tests.benchmark import policies  # noqa: PLC0415  loads nova

    return policies.measure()


def _print_target(name, value, limit):
    met = value <= limit
    print(
        f'  {"met" if met else "MISSED":8}{name:52}{value:10.3f}'
        f'  (at most {limit:g})'
    )
    return met


if __name__ == '__main__':
    sys.exit(main())
