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


"""The options of the demonstration."""

import argparse
import pathlib

from demo import command_guide


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        prog=command_guide.demo_command(),
        description='Start a small OpenStack cloud with the PowerVM driver '
        'and an emulated PowerVM host, and demonstrate device passthrough '
        'on it.',
    )
    parser.add_argument(
        '--json',
        type=pathlib.Path,
        metavar='FILE',
        help='write the results of the steps to this file: step, expected, '
        'observed, ok',
    )
    parser.add_argument(
        '--keep',
        action='store_true',
        help='keep the cloud running afterwards, until Ctrl-C stops and '
        'deletes it',
    )
    parser.add_argument(
        '--no-steps',
        action='store_true',
        help='leave out the steps, for a cloud without servers of others; '
        'implies --keep',
    )
    _add_parts(parser)
    parser.add_argument(
        '--transport-url',
        metavar='URL',
        help='message broker for all services, such as '
        'rabbit://user:password@host:5672/; by default the demonstration '
        'needs none',
    )
    parser.add_argument(
        '--state-dir',
        type=pathlib.Path,
        metavar='DIR',
        help='new or empty directory for databases, configuration and logs, '
        'which is not deleted; by default a temporary directory, which is '
        'deleted unless something failed',
    )
    return parser


def _add_parts(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the cloud consists of."""
    parser.add_argument(
        '--hosts',
        type=int,
        choices=(1, 2),
        default=1,
        help='number of compute hosts, 1 by default. With 2, each has a '
        'nova-compute of its own, and a server is evacuated when one fails',
    )
    parser.add_argument(
        '--inventory',
        type=pathlib.Path,
        metavar='FILE',
        help='inventory file for nova-compute. The steps are left out: the '
        'cloud starts, publishes its devices and keeps running as with '
        '--keep',
    )
    parser.add_argument(
        '--cyborg',
        action='store_true',
        help='run Cyborg, too, and demonstrate slots that it manages',
    )
    parser.add_argument(
        '--console',
        action='store_true',
        help='show the consoles of servers in a browser: run '
        'nova-novncproxy, too, and fetch noVNC with npm or apt-get. With '
        '--keep, a URL is printed',
    )
    parser.add_argument(
        '--cinder',
        action='store_true',
        help='run Cinder with a simulated storage array, too, and '
        'demonstrate volumes by Fibre Channel; with --hosts 2, also servers '
        'that move with their volumes',
    )
    parser.add_argument(
        '--accelerators',
        type=pathlib.Path,
        metavar='FILE',
        help='inventory file for cyborg-agent; implies --cyborg. The steps '
        'are left out as with --inventory',
    )
    parser.add_argument(
        '--world',
        type=pathlib.Path,
        metavar='FILE',
        help='world document that describes the emulated host. The steps '
        'are left out as with --inventory',
    )
