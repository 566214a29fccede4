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

"""The command line: ``python -m tests.tempest``."""

import argparse
import collections.abc
import contextlib
import os
import pathlib
import sys
import textwrap
import time

from demo import config
from demo import stack as stack_lib
from tests.cloud import demonstration
from tests.tempest import program
from tests.tempest import resources
from tests.tempest import results

_FILE = 'results.json'
_CLOUD = 'cloud'

#: The name of a compute driver -> the variables that make nova-compute load
#: it. oslo.config prefers the environment to its files.
_DRIVERS = {
    'powervm': {},
    'fake': {'OS_DEFAULT__COMPUTE_DRIVER': 'fake.FakeDriver'},
}
#: The name of a compute driver -> the files with the tests to leave out.
_EXCLUDED = {
    'powervm': ('excluded.txt', 'unsupported.txt'),
    'fake': ('excluded.txt', 'fake.txt'),
}

# Tests of servers on the same and on different hosts need two filters more
# than the cloud has.
_FILTERS = ('DifferentHostFilter', 'SameHostFilter', *config.FILTERS)


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run Tempest, or compare two runs.

    :returns: the exit status: 1 if a test failed, or if a difference between
        the runs has no known cause.
    """
    arguments = _make_parser().parse_args(argv)
    return arguments.action(arguments)


def _make_parser():
    parser = argparse.ArgumentParser(
        prog='tools/tempest.sh',
        description='Run Tempest against the cloud of the demonstration.',
    )
    parser.add_argument(
        '--tempest',
        required=True,
        type=pathlib.Path,
        metavar='PROGRAM',
        # tools/tempest.sh gives it.
        help=argparse.SUPPRESS,
    )
    commands = parser.add_subparsers(required=True, metavar='COMMAND')
    run = commands.add_parser(
        'run', help='run the tests, and write their results to a directory'
    )
    run.set_defaults(action=_run)
    run.add_argument(
        'results',
        type=pathlib.Path,
        metavar='DIR',
        help='new or empty directory for the results, the configuration of '
        'Tempest, and the cloud, if this command starts it',
    )
    run.add_argument(
        '--driver',
        choices=tuple(_DRIVERS),
        default='powervm',
        help="the compute driver of the cloud: this project's, or the fake "
        'driver of Nova; powervm by default',
    )
    run.add_argument(
        '--cinder',
        action='store_true',
        help='also run the tests with volumes, in a cloud with Cinder',
    )
    run.add_argument(
        '--state-dir',
        type=pathlib.Path,
        metavar='CLOUD',
        help='state directory of a running cloud (tools/demo.sh --no-steps '
        '--hosts 2 --console --state-dir CLOUD). By default the command '
        'starts one, and stops it at the end',
    )
    run.add_argument(
        '--concurrency',
        type=int,
        default=2,
        metavar='NUMBER',
        help='processes that run tests; 2 by default',
    )
    run.add_argument(
        '--regex',
        metavar='REGEX',
        help='run the tests that match this regular expression, in place of '
        'those of tests/tempest/included.txt',
    )
    run.add_argument(
        '--property',
        action='append',
        default=[],
        type=_read_property,
        metavar='KEY=VALUE',
        help='extra spec of the flavors of the tests, such as '
        'resources1:CUSTOM_GPU=1; can be given several times',
    )
    compare = commands.add_parser(
        'compare', help='compare the results of two runs, test by test'
    )
    compare.set_defaults(action=_compare)
    compare.add_argument('first', type=pathlib.Path, metavar='DIR')
    compare.add_argument('second', type=pathlib.Path, metavar='DIR')
    return parser


def _read_property(text):
    """Return the key and the value of an extra spec.

    :raises argparse.ArgumentTypeError: one of them is missing.
    """
    key, _, value = text.partition('=')
    if not (key and value):
        raise argparse.ArgumentTypeError(f'{text!r} is not KEY=VALUE')
    return key, value


def _run(arguments):
    directory = arguments.results.absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        print(f'{directory} is not empty', file=sys.stderr)
        return 2
    with _cloud(arguments, directory) as state_dir:
        stack = stack_lib.load(state_dir)
        # Requests to the cloud must not go through a proxy.
        os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
        api = resources.connect(stack)
        filters = config.FILTERS if arguments.state_dir else _FILTERS
        resources.write_configuration(
            stack, api, directory, filters, dict(arguments.property)
        )
        hypervisors = resources.hypervisor_types(api)
        began = time.monotonic()
        tempest = program.Tempest(
            arguments.tempest.absolute(),
            directory,
            arguments.regex,
            _EXCLUDED[arguments.driver],
        )
        tempest.run(arguments.concurrency)
        minutes = (time.monotonic() - began) / 60
    found = results.read(tempest.last_results(), tempest.names())
    results.save(directory / _FILE, hypervisors, found)
    _show_failures(found)
    print(f'{results.summary(found)}, in {minutes:.0f} minutes')
    failed = any(item.status == results.FAILED for item in found.values())
    return int(failed)


@contextlib.contextmanager
def _cloud(arguments, directory):
    """Give the state directory of a running cloud, which may be started."""
    if arguments.state_dir:
        yield arguments.state_dir.absolute()
        return
    print('starting the cloud', flush=True)
    state_dir = directory / _CLOUD
    with demonstration.running(
        state_dir,
        *('--no-steps', '--hosts', '2', '--console'),
        *(('--cinder',) if arguments.cinder else ()),
        environment={
            **_DRIVERS[arguments.driver],
            'OS_FILTER_SCHEDULER__ENABLED_FILTERS': ','.join(_FILTERS),
            # By which files of the user reach a server that does not ask for
            # one.
            'OS_DEFAULT__FORCE_CONFIG_DRIVE': 'True',
        },
    ):
        yield state_dir


def _show_failures(found):
    for name, result in found.items():
        if result.status == results.FAILED:
            print(f'\n{name} failed:')
            print(textwrap.indent(result.reason, '    '))
    print()


def _compare(arguments):
    labels, runs = [], []
    for directory in (arguments.first, arguments.second):
        hypervisors, found = results.load(directory / _FILE)
        label = f'{directory.name} ({", ".join(hypervisors)})'
        print(f'{label}: {results.summary(found)}')
        labels.append(label)
        runs.append(found)
    differences = results.compare(*runs)
    for difference in differences:
        print(f'\n{difference.test}')
        pairs = zip(labels, (difference.first, difference.second), strict=True)
        for label, result in pairs:
            print(f'  {label}: {result.status}')
            if result.reason:
                print(textwrap.indent(result.reason, '      '))
        print(f'  cause: {difference.cause or "unknown"}')
    unknown = sum(not difference.cause for difference in differences)
    tests = {name for run in runs for name in run}
    print(
        f'\n{len(tests) - len(differences)} tests have the same result, '
        f'{len(differences)} differ, {unknown} of them for unknown causes'
    )
    return int(unknown > 0)


if __name__ == '__main__':
    sys.exit(main())
