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

"""Reports of Cyborg's agent at the time when they are wanted.

The agent reports its devices every 60 seconds, which no option changes.
``python -m demo.cyborg_reports`` has it report now.
"""

import argparse
import collections.abc
import pathlib
import sys

import oslo_messaging
from oslo_config import cfg

from demo import messaging
from demo import stack as stack_lib

_TOPIC = 'cyborg-agent'
_EXCHANGE = 'cyborg'


def report_devices(stack: stack_lib.Stack, seconds: int = 60) -> None:
    """Have the agent of a cloud report its devices now, and wait for it.

    The periodic task of the agent is one of its remote procedures. Cyborg
    can't be loaded here, in a process with Nova's configuration.

    :param seconds: how long to wait.
    :raises oslo_messaging.MessagingTimeout: the agent is away.
    :raises oslo_messaging.RemoteError: the report failed.
    """
    messaging.find_driver()
    # Options of oslo.messaging exist only in the global configuration.
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, stack.transport_url)
    target = oslo_messaging.Target(
        exchange=_EXCHANGE, topic=_TOPIC, server=stack_lib.NODE, version='1.0'
    )
    try:
        client = oslo_messaging.get_rpc_client(
            transport, target, timeout=seconds
        )
        client.call({}, 'update_available_resource')
    finally:
        transport.cleanup()


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Have the agent report its devices.

    :param argv: the command line without the program's name; by default that
        of the process.
    :returns: the exit status: 0, or 1 if the agent is away or fails.
    """
    parser = argparse.ArgumentParser(
        prog='python -m demo.cyborg_reports',
        description='Have cyborg-agent report its devices now.',
    )
    parser.add_argument(
        '--state-dir',
        type=pathlib.Path,
        required=True,
        help='state directory of a cloud that runs Cyborg',
    )
    try:
        report_devices(stack_lib.load(parser.parse_args(argv).state_dir))
    except (OSError, oslo_messaging.MessagingException) as error:
        print(f'cyborg-agent has not reported: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
