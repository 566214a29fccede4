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

"""Runs the benchmark: a process for each driver and number of devices."""

import argparse
import json
import os
import platform
import sys

from tests.benchmark import report
from tests.benchmark import turns

CONTENDERS = ('libvirt-pci', 'powervm', 'powervm-skip')


def main():
    """Measure, print the table, write the JSON file.

    :returns: 0; 1 if something could not be measured, 2 if a target is
        missed.
    """
    if sys.argv[1:2] == ['scale']:
        from tests.benchmark import scale  # noqa: PLC0415  loads nova

        return scale.main(sys.argv[2:])
    options = _options()
    print(
        f'{platform.machine()}, {os.cpu_count()} processors, Python '
        f'{platform.python_version()}, load {os.getloadavg()[0]:.1f}'
    )
    runs = {name: {} for name in CONTENDERS}
    for number in options.devices:
        found = _measured(number, options)
        if found is None:
            return 1
        for name in CONTENDERS:
            runs[name][number] = found[name]
    rows = _policies()
    print(*report.table(runs), sep='\n')
    print(*report.policy_table(rows), sep='\n')
    print('\ntargets')
    met = [_print_target(*target) for target in report.targets(runs)]
    print('\nother figures, with what is worth a look')
    for other in report.other_ratios(runs, rows):
        _print_target(*other, words=('', 'LOOK'))
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
        '--starts', type=int, default=3, help='starts of each (default: 3)'
    )
    parser.add_argument(
        '--output', default='benchmark.json', help='file for all figures'
    )
    return parser.parse_args()


def _measured(number, options):
    """Measure all contenders; give the summary of each, or None."""
    from tests.benchmark import measuring  # noqa: PLC0415  loads nova

    outcomes = {name: {} for name in CONTENDERS}
    # A start is measured once in a process, so there are some that do no more.
    for repeats in (0,) * (options.starts - 1) + (options.repeats,):
        print(f'{number} devices, {repeats} cycles ...', file=sys.stderr)
        contenders = {
            name: turns.Contender(name, number, repeats) for name in CONTENDERS
        }
        turns.take_turns(contenders.values())
        complaints = [contender.close() for contender in contenders.values()]
        if any(complaints):
            print(*(c[-3000:] for c in complaints if c), file=sys.stderr)
            return None
        for name, contender in contenders.items():
            with open(contender.path) as file:
                for figure, values in json.load(file).items():
                    outcomes[name].setdefault(figure, []).extend(values)
    return {name: measuring.summary(found) for name, found in outcomes.items()}


def _policies():
    from tests.benchmark import policies  # noqa: PLC0415  loads nova

    return policies.measure()


def _print_target(name, value, limit, words=('met', 'MISSED')):
    met = value <= limit
    print(f'  {words[not met]:8}{name:52}{value:10.3f}  (at most {limit:g})')
    return met


if __name__ == '__main__':
    sys.exit(main())
