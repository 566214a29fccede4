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

"""Listens to Nova's notifications of deleted servers.

A notification is a hint only. What waits for cleaning is read from Placement,
so nothing is forgotten if one is lost.
"""

import re
import threading
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Nova sends it before it deletes the allocations.
EVENT = 'instance.delete.end'

#: As in Nova.
_TOPICS = cfg.ListOpt(
    'versioned_notifications_topics', default=['versioned_notifications']
)


class Endpoint:
    """Takes the notifications of the servers that a node has deleted.

    :param node: Name of the compute node.
    :param tell: Is called for each.
    """

    def __init__(self, node: str, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.filter_rule = oslo_messaging.NotificationFilter(
            event_type=f'^{re.escape(EVENT)}$',
            publisher_id=f'^nova-compute:{re.escape(node)}$',
        )

    def info(
        self,
        context: Any,
        publisher_id: str,
        event_type: str,
        payload: dict[str, Any],
        metadata: dict[str, Any],
    ) -> None:
        """Take a notification; oslo.messaging calls this."""
        LOG.info(
            'Instance %s was deleted.', payload['nova_object.data']['uuid']
        )
        self._tell()


def start(
    conf: cfg.ConfigOpts, node: str, tell: Callable[[], None]
) -> threading.Thread:
    """Listen in a thread of its own: a broker that is down blocks it.

    :param conf: Configuration with the transport of the notifications.
    :param node: Name of the compute node.
    :param tell: Is called for each server that the node has deleted.
    """
    conf.register_opts([_TOPICS], group='notifications')
    transport = oslo_messaging.get_notification_transport(conf)
    topic = conf.notifications.versioned_notifications_topics[0]
    thread = threading.Thread(
        target=listen,
        args=(transport, topic, node, tell),
        name='powervm-deletions',
        daemon=True,
    )
    thread.start()
    return thread


def listen(
    transport: Any, topic: str, node: str, tell: Callable[[], None]
) -> Any:
    """Listen until the server that is returned is stopped.

    A pool of its own keeps others, such as telemetry, from losing what this
    takes.
    """
    server = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(topic=topic)],
        [Endpoint(node, tell)],
        executor='threading',
        pool=f'powervm-clean-{node}',
    )
    server.start()
    return server
