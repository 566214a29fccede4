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

"""A sample: cleans used devices of this host and releases them.

It runs beside nova-compute and listens to Nova's versioned notifications. When
an instance of this host has been deleted, it asks ``nova-powervm-inventory
release`` which devices wait, runs your command for each, and releases the
device if the command succeeds::

    clean_and_release.py --config-file /etc/nova/nova.conf \\
        -- /usr/local/sbin/wipe-device

The command gets the DRC index as its last argument. If it fails, the device
stays reserved, and the next round tries again.

A notification is a hint only: what is to be cleaned is read from Placement,
and there is a round now and then without any. So nothing is forgotten that
was deleted while this was not running, or whose notification got lost.
"""

import argparse
import json
import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

LOG = logging.getLogger('clean_and_release')

#: Nova sends it before it deletes the allocations.
EVENT = 'instance.delete.end'


class Rounds:
    """Cleans and releases, one round after the other.

    :param clean: The command that cleans, with its arguments.
    :param inventory: The command nova-powervm-inventory, with options.
    :param interval: Seconds between rounds without a notification.
    :param delay: Seconds from a notification to its round.
    """

    def __init__(
        self,
        clean: Sequence[str],
        inventory: Sequence[str],
        interval: float = 300,
        delay: float = 10,
    ) -> None:
        self._clean = clean
        self._inventory = inventory
        self._interval = interval
        self._delay = delay
        self._wanted = threading.Event()
        self._stopping = threading.Event()

    def ask(self) -> None:
        """Ask for a round; one that runs is followed by another."""
        self._wanted.set()

    def stop(self) -> None:
        """End after the device that is being cleaned."""
        self._stopping.set()
        self._wanted.set()

    def run(self) -> None:
        """Go round until it is stopped."""
        while not self._stopping.is_set():
            self.once()
            if self._wanted.wait(self._interval):
                # The allocations go after the notification.
                self._stopping.wait(self._delay)
            self._wanted.clear()

    def once(self) -> None:
        """Clean and release all that waits now."""
        for slot in self._waiting():
            if self._stopping.is_set():
                return
            LOG.info('Cleaning slot %s.', slot)
            if self._call([*self._clean, slot]) is None:
                LOG.error('Slot %s was not cleaned; it stays reserved.', slot)
            elif self._call([*self._inventory, 'release', slot, '--yes']):
                LOG.info('Slot %s was cleaned and released.', slot)

    def _waiting(self) -> list[str]:
        text = self._call([*self._inventory, 'release', '-f', 'json'])
        return [row['Slot'] for row in json.loads(text)] if text else []

    def _call(self, command: Sequence[str]) -> str | None:
        """Run a command; give its output, or None if it failed."""
        try:
            done = subprocess.run(
                command, check=False, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            LOG.error('%s can not be run: %s', command[0], error)
            return None
        if done.returncode:
            LOG.error(
                '%s failed with exit code %d.',
                ' '.join(command),
                done.returncode,
            )
            return None
        return done.stdout


class Endpoint:
    """Takes the notifications of the instances that this host deleted.

    :param rounds: Is asked for a round.
    :param host: ``[DEFAULT]host`` of the nova-compute of this host.
    """

    def __init__(self, rounds: Rounds, host: str) -> None:
        self._rounds = rounds
        self.filter_rule = oslo_messaging.NotificationFilter(
            event_type=f'^{re.escape(EVENT)}$',
            publisher_id=f'^nova-compute:{re.escape(host)}$',
        )

    def info(
        self,
        context: Any,
        publisher_id: str,
        event_type: str,
        payload: dict[str, Any],
        metadata: dict[str, Any],
    ) -> None:
        """Take one; oslo.messaging calls this."""
        LOG.info(
            'Instance %s was deleted.',
            payload['nova_object.data']['uuid'],
        )
        self._rounds.ask()


def listen(
    transport: Any, topic: str, host: str, rounds: Rounds
) -> oslo_messaging.notify.listener.NotificationServer:
    """Start to listen.

    A pool of its own keeps others, such as telemetry, from losing what this
    takes.

    :param transport: oslo.messaging's transport of notifications.
    :param topic: See ``[notifications]versioned_notifications_topics``.
    :param host: See Endpoint.
    :param rounds: See Endpoint.
    """
    server = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(topic=topic)],
        [Endpoint(rounds, host)],
        executor='threading',
        pool=f'powervm-clean-{host}',
    )
    server.start()
    return server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s')
    files = [f'--config-file={path}' for path in options.config_file]
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.HostAddressOpt('host'))
    conf(files, project='nova')
    rounds = Rounds(
        options.command,
        [options.inventory, *files],
        options.interval,
        options.delay,
    )
    transport = oslo_messaging.get_notification_transport(conf)
    host = options.host or conf.host
    if not host:
        LOG.error('Give --host, as the configuration has no [DEFAULT]host.')
        return 2
    server = listen(transport, options.topic, host, rounds)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: rounds.stop())
    rounds.run()
    server.stop()
    server.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add('--config-file', action='append', default=[], help='nova.conf')
    add('--host', help='[DEFAULT]host of nova-compute, if not in a file')
    add('--topic', default='versioned_notifications')
    add('--interval', type=float, default=300, help='seconds between rounds')
    add('--delay', type=float, default=10, help='seconds after a deletion')
    add('--inventory', default='nova-powervm-inventory', metavar='PROGRAM')
    add('command', nargs='+', help='what cleans; it gets the DRC index')
    return parser


if __name__ == '__main__':
    sys.exit(main())
