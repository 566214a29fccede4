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

"""Measure Placement and Nova's scheduler in a large cloud.

``python -m tests.benchmark scale``: Placement and the scheduler's code run in
this process, on SQLite and without HTTP, so that seconds are those of the
processor. Read the ratios: to the same cloud without slots, and to a table
without traits of locations.
"""

import argparse
import logging
import multiprocessing
import os
import statistics
import time

from nova_powervm.tool.rules import flavor_lint
from tests.benchmark import clouds

#: What ``placement.conf`` has to have beside ``max_allocation_candidates``.
_WIDE = {
    'allocation_candidates_generation_strategy': 'breadth-first',
    'optimize_for_wide_provider_trees': True,
}
_FILTER = {'enabled_filters': ['PowerVMDeviceOrderFilter']}
_SHUFFLE = {'shuffle_best_same_weighed_hosts': True}
#: Hosts, equal devices of each, and groups of each server.
_BOOTS = ((100, 8, 1), (7, 8, 1), (13, 8, 2), (1, 50, 1))


def main(arguments):
    """Measure everything and print the tables; return 0."""
    options = _options(arguments)
    # A claim that is refused is an error in Nova's log.
    logging.disable(logging.CRITICAL)
    clouds.prepare_nova()
    _print_candidates(options)
    _print_explosion(options)
    _print_traits(options)
    _print_boots(options)
    print(f'\nload at the end {os.getloadavg()[0]:.1f}')
    return 0


def _options(arguments):
    parser = argparse.ArgumentParser(
        prog='python -m tests.benchmark scale', description=__doc__
    )
    for name, default, text in (
        ('hosts', 1000, 'compute nodes'),
        ('slots', 16, 'slots of each, of which half are equal GPUs'),
        ('repeats', 3, 'repetitions of each request'),
        ('boots', 50, 'servers at once'),
    ):
        parser.add_argument(
            f'--{name}',
            type=int,
            default=default,
            help=f'{text} (default: {default})',
        )
    parser.add_argument(
        '--traits',
        type=lambda text: [int(number) for number in text.split(',')],
        default=[0, 16_000, 32_000],
        help='traits of locations, with commas (default: 0,16000,32000)',
    )
    return parser.parse_args(arguments)


def _print_candidates(options):
    hosts, slots = options.hosts, options.slots
    print(
        f'allocation candidates, {hosts} hosts with {slots} slots, '
        f'{slots // 2} of them equal'
    )
    print(f'  {"":40}{"CPU s":>8}{"ratio":>8}{"MB":>8}{"hosts":>8}')
    with clouds.Cloud(hosts, 0, 0) as cloud:
        cloud.configure(1000)
        first = _candidates(cloud, 0, options.repeats)
    _print_answer('no device, hosts without slots', first, first)
    with clouds.Cloud(hosts, slots, slots // 2) as cloud:
        for name, limit, conf in _settings(hosts):
            cloud.configure(limit, **conf)
            for groups in (0, 1, 2):
                found = _candidates(cloud, groups, options.repeats)
                _print_answer(f'{_count(groups)}, {name}', found, first)
        found = _candidates(cloud, 0, options.repeats, zone=True)
        _print_answer('no device, a zone of a tenth', found, first)


def _settings(hosts):
    """Return what is compared: a name, Nova's limit, Placement's options."""
    most = flavor_lint.max_candidates(hosts)
    return (
        ('defaults', 1000, {}),
        ('always 1000', 1000, {'max_allocation_candidates': 1000, **_WIDE}),
        (
            f'formula {most}',
            most,
            {'max_allocation_candidates': most, **_WIDE},
        ),
    )


def _count(groups):
    return f'{groups or "no"} device{"s" * (groups > 1)}'


def _print_explosion(options):
    hosts, slots, groups = options.hosts // 10, options.slots, 3
    estimate = flavor_lint.Explosion(groups, slots, hosts)
    print(
        f'\n{groups} of {slots} equal devices, {hosts} hosts; '
        f'"flavor lint" says {estimate}'
    )
    print(f'  {"":40}{"CPU s":>8}{"MB more at the peak":>24}')
    with clouds.Cloud(hosts, slots, slots) as cloud:
        for name, limit, conf in _settings(hosts):
            cloud.configure(limit, **conf)
            found = _candidates(cloud, groups, 1)
            print(f'  {name:40}{found["seconds"]:8.2f}{found["peak"]:24.0f}')


def _candidates(cloud, groups, repeats, zone=False):
    url = clouds.candidates_url(groups, zone)

    def ask():
        answer = cloud.get(url)
        summaries = answer.json()['provider_summaries'].values()
        return {
            'size': len(answer.content) / 1e6,
            'hosts': len({s['root_provider_uuid'] for s in summaries}),
        }

    return _measured(ask, repeats)


def _measured(ask, repeats):
    """Measure a request in a process of its own, for its peak of memory.

    :param ask: Sends it, and returns what is known of the answer.
    """
    ours, theirs = multiprocessing.Pipe()

    def measure():
        before, seconds = _peak(), []
        for _ in range(repeats):
            started = time.process_time()
            found = ask()
            seconds.append(time.process_time() - started)
        middle = statistics.median(seconds)
        theirs.send({'seconds': middle, 'peak': _peak() - before, **found})

    child = multiprocessing.get_context('fork').Process(target=measure)
    child.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        child.join()


def _peak():
    """Return the most memory that this process had, in MB."""
    with open('/proc/self/status') as status:
        (line,) = [line for line in status if line.startswith('VmHWM')]
    return int(line.split()[1]) / 1024


def _print_answer(name, found, first):
    print(
        f'  {name:40}{found["seconds"]:8.2f}'
        f'{found["seconds"] / first["seconds"]:8.1f}'
        f'{found["size"]:8.1f}{found["hosts"]:8}'
    )


def _print_traits(options):
    print('\nrequests with traits, CPU ms')
    print(f'  {"traits of locations":24}{"GET":>8}{"PUT":>8}{"new trait":>12}')
    for number in options.traits:
        with clouds.Cloud(1, 1, 1, locations=number) as cloud:
            found = [
                _measured(ask, 20)['seconds'] * 1000
                for ask in _trait_requests(cloud)
            ]
        print('  {:<24}{:8.1f}{:8.1f}{:12.1f}'.format(number, *found))


def _trait_requests(cloud):
    """Return functions that read, replace and create traits of a slot."""
    url = f'/resource_providers/{cloud.uuid_of(2)}/traits'
    found = cloud.get(url).json()

    def create():
        return cloud.put(f'/traits/CUSTOM_{time.monotonic_ns()}')

    return (
        lambda: _expect(200, cloud.get(url)),
        lambda: _expect(200, cloud.put(url, json=found)),
        lambda: _expect(201, create()),
    )


def _expect(status, answer):
    if answer.status_code != status:
        raise ValueError(answer.text)
    return {}


def _print_boots(options):
    print(
        f'\n{options.boots} servers at once by two schedulers: how many get '
        'a host / claims tried'
    )
    for hosts, devices, groups in _BOOTS:
        size = f'{hosts} x {devices}, {_count(groups)}'
        most = flavor_lint.max_candidates(hosts)
        for name, number, conf in (
            ('no filter', most, {}),
            ('filter', most, _FILTER),
            ('filter, shuffle', most, _FILTER | _SHUFFLE),
            ('the same, one candidate a host', hosts, _FILTER | _SHUFFLE),
        ):
            with clouds.Cloud(hosts, devices, devices) as cloud:
                cloud.configure(
                    number, max_allocation_candidates=number, **_WIDE
                )
                landed, tried = clouds.boot_at_once(
                    cloud, options.boots, groups, **conf
                )
            print(f'  {size:24}{name:34}{landed:4} /{tried:6}', flush=True)
