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

#: The least number of devices from which a boot with one is held against
#: Nova's.
BOOTS_FROM = 16
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


def targets(runs):
    """Give each target: what it is, the value, and the most it may be."""
    ours, theirs = runs.get('powervm', {}), runs.get('libvirt-pci', {})
    both = sorted(set(ours) & set(theirs))

    def ratio(number, figure):
        mine, others = (
            sizes[number][figure]['seconds']['median']
            for sizes in (ours, theirs)
        )
        return mine / others

    idle = 'no-change cycle'
    for n in both:
        yield f'{idle}, N={n}: seconds to nova', ratio(n, idle), 1.0
    for n, found in sorted(ours.items()):
        value = found[idle]['host']['most']
        yield f'{idle}, N={n}: requests to the host', value, 2
        value = found[idle]['host_changed']['most']
        yield f'{idle}, N={n}: answers other than 304', value, 0
    for n in both:
        more = (
            ours[n][idle]['placement']['most']
            - theirs[n][idle]['placement']['least']
        )
        yield f'{idle}, N={n}: Placement requests more', more, 0
    for n in both:
        if n >= BOOTS_FROM:
            value = ratio(n, 'boot with a device')
            yield f'boot with a device, N={n}: seconds to nova', value, 1.0
    for n in both:
        value = ratio(n, 'first publish')
        yield f'first publish, N={n}: seconds to nova', value, 1.2


def other_ratios(runs, rows):
    """Give further figures with the values that are worth a look."""
    ours, theirs = runs.get('powervm', {}), runs.get('libvirt-pci', {})
    skipping = runs.get('powervm-skip', {})
    both = sorted(set(ours) & set(theirs))

    def ratio(sizes, number, figure):
        return (
            sizes[number][figure]['seconds']['median']
            / theirs[number][figure]['seconds']['median']
        )

    yield from _each_more(ours, theirs, both)
    for n in sorted(set(theirs) & set(skipping)):
        value = ratio(skipping, n, 'no-change cycle')
        yield f'no-change cycle, free reads skipped, N={n}', value, 1.0
    for n, found in ours.items():
        for key in ('host', 'placement'):
            more = (
                found['boot with a device'][key]['median']
                - found['boot without a device'][key]['median']
            )
            limit = 1 if key == 'host' else 0
            yield f'a device in a boot, N={n}: requests, {key}', more, limit
    yield from _policy_ratios(rows)


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
    yield 'first publish, each device more: seconds to nova', value, 1.2


def _policy_ratios(rows):
    for row in rows:
        size = f'{row["paragraphs"]} x {row["slots"]}'
        value = row['powervm'] / row['nova']
        yield f'policy {size}: 1/20 of nova', value, 1 / 20
    growth = exponent(
        {row['paragraphs'] + row['slots']: row['powervm'] for row in rows}
    )
    if growth is not None:
        yield 'policy: grows with paragraphs + slots', growth, 1.25
