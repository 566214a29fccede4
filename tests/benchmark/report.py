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

"""The table, the growth, and which targets are met."""

import math
import statistics

FIGURES = (
    'first publish',
    'no-change cycle',
    'refresh',
    'boot without a device',
    'boot with a device',
)
_NAMES = {
    'powervm': 'nova-powervm',
    'powervm-skip': 'nova-powervm, free reads skipped',
    'libvirt-pci': 'nova, PCI in Placement',
}


def exponent(values):
    """Give the slope of the logarithms: 1 is linear growth.

    :param values: Number to seconds; at least two numbers.
    """
    points = [(math.log(n), math.log(s)) for n, s in values.items() if s > 0]
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def table(runs):
    """Give the lines of the table.

    :param runs: Contender to number of devices to summary.
    """
    for figure in FIGURES:
        yield f'\n{figure}'
        yield (
            f'  {"":34}{"devices":>8}{"seconds":>10}{"(range)":>17}'
            f'{"driver ms":>11}{"Placement":>11}{"host":>6}'
        )
        for contender, sizes in runs.items():
            for number, found in sizes.items():
                values = found[figure]
                seconds = values['seconds']
                spread = f'({seconds["least"]:.2f}-{seconds["most"]:.2f})'
                yield (
                    f'  {_NAMES[contender]:34}{number:8}'
                    f'{seconds["median"]:10.3f}{spread:>17}'
                    f'{values["driver"]["median"] * 1000:11.2f}'
                    f'{values["placement"]["median"]:11g}'
                    f'{values["host"]["median"]:6g}'
                )
            yield f'  {"growth":>34}{"":8}{_growth(sizes, figure)}'


def _growth(sizes, figure):
    grown = [
        exponent({n: found[figure][key]['median'] for n, found in s.items()})
        for s, key in ((sizes, 'seconds'), (sizes, 'driver'))
    ]
    return ', '.join(
        f'{what}: N^{value:.2f}'
        for what, value in zip(('seconds', 'driver'), grown, strict=True)
        if value is not None
    )


def policy_table(rows):
    """Give the lines about policies."""
    yield '\nfinding the paragraphs of all slots, seconds of the processor'
    yield (
        f'  {"paragraphs":>10}{"slots":>8}{"nova-powervm":>14}'
        f'{"10% wildcards":>15}{"nova":>10}{"faster by":>11}'
    )
    for row in rows:
        yield (
            f'  {row["paragraphs"]:10}{row["slots"]:8}{row["powervm"]:14.4f}'
            f'{row["powervm_wildcards"]:15.4f}{row["nova"]:10.2f}'
            f'{row["nova"] / row["powervm"]:11.0f}'
        )


def targets(runs, rows):
    """Give each target with whether it is met; None if it was not measured."""
    ours, theirs = runs.get('powervm', {}), runs.get('libvirt-pci', {})
    skipping = runs.get('powervm-skip', {})
    both = sorted(set(ours) & set(theirs))

    def median(sizes, number, figure, key):
        return sizes[number][figure][key]['median']

    def ratio(sizes, number, figure, key):
        return median(sizes, number, figure, key) / median(
            theirs, number, figure, key
        )

    idle = 'no-change cycle'
    for n in both:
        value = ratio(ours, n, idle, 'driver')
        yield f'driver, no-change cycle, N={n}: 1/10 of nova', value, 0.1
    for n in both:
        value = ratio(ours, n, 'first publish', 'seconds')
        yield f'first publish, N={n}: 1.4 of nova', value, 1.4
    yield from _each_more(ours, theirs, both)
    if 256 in ours:
        value = median(ours, 256, idle, 'driver') * 1000
        yield 'driver, no-change cycle, N=256: 5 ms', value, 5
    if 256 in both:
        value = ratio(ours, 256, idle, 'seconds')
        yield 'no-change cycle, N=256: 1.0 of nova', value, 1.0
    if 256 in theirs and 256 in skipping:
        value = ratio(skipping, 256, idle, 'seconds')
        yield 'the same, free reads skipped: 0.2 of nova', value, 0.2
    for n, found in ours.items():
        for key in ('host', 'placement'):
            more = (
                found['boot with a device'][key]['median']
                - found['boot without a device'][key]['median']
            )
            limit = 1 if key == 'host' else 0
            yield f'a device in a boot, N={n}: requests, {key}', more, limit
    yield from _policy_targets(rows)


def _each_more(ours, theirs, numbers):
    """Hold against nova's what one device more takes at a first publish."""
    if len(numbers) < 2:
        return
    least, most = numbers[0], numbers[-1]

    def grown(sizes):
        first = [
            sizes[n]['first publish']['seconds']['median']
            for n in (least, most)
        ]
        return first[1] - first[0]

    value = grown(ours) / grown(theirs)
    yield 'first publish, each device more: 1.4 of nova', value, 1.4


def _policy_targets(rows):
    for row in rows:
        size = f'{row["paragraphs"]} x {row["slots"]}'
        value = row['powervm'] / row['nova']
        yield f'policy {size}: 1/20 of nova', value, 1 / 20
    growth = exponent(
        {row['paragraphs'] + row['slots']: row['powervm'] for row in rows}
    )
    if growth is not None:
        yield 'policy: grows with paragraphs + slots', growth, 1.25
