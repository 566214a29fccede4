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

"""Messages that arrive at a server."""

import logging
import time
import types
import typing

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common

from demo.messaging import connection
from demo.messaging import subscription

_LOG = logging.getLogger(__name__)

# How long a reply waits for the server of the queues, in seconds.
_REPLY_TIMEOUT = 60.0

_ExceptionInfo = tuple[
    type[BaseException], BaseException, types.TracebackType | None
]


class Incoming(base.RpcIncomingMessage):
    """A message from :class:`.driver.Driver`.

    :param connections: for the reply.
    :param message: what the driver put into the queue.
    """

    def __init__(
        self,
        connections: connection.Connections,
        message: dict[str, typing.Any],
    ) -> None:
        super().__init__(message['context'], message['message'], message['id'])
        self.client_timeout = message['silence']
        self._connections = connections
        self._queue = message['reply_queue']

    def reply(
        self,
        reply: typing.Any = None,
        failure: _ExceptionInfo | None = None,
    ) -> None:
        """Send a result or an exception; a cast gets none."""
        serialized = failure and common.serialize_remote_exception(failure)
        self._send(result=reply, failure=serialized)

    def heartbeat(self) -> None:
        """Tell the caller that the server is at work."""
        self._send(is_heartbeat=True)

    def requeue(self) -> None:
        """Do nothing: :meth:`base.BaseDriver.require_features` refuses it."""

    def _send(
        self,
        result: typing.Any = None,
        failure: str | None = None,
        is_heartbeat: bool = False,
    ) -> None:
        if self._queue is None:
            return
        reply = {
            'id': self.msg_id,
            'result': result,
            'failure': failure,
            'is_heartbeat': is_heartbeat,
        }
        try:
            self._connections.request(
                {'op': 'put', 'queue': self._queue, 'message': reply},
                deadline=time.monotonic() + _REPLY_TIMEOUT,
            )
        except oslo_messaging.MessageDeliveryFailure as error:
            _LOG.error('The reply to %s is lost: %s', self.msg_id, error)


class Listener(base.PollStyleListener):
    """Polls a subscription.

    :param connections: for replies.
    """

    def __init__(
        self,
        connections: connection.Connections,
        subscribed: subscription.Subscription,
    ) -> None:
        super().__init__()
        self._connections = connections
        self._subscription = subscribed

    @base.batch_poll_helper  # type: ignore[untyped-decorator]
    def poll(self, timeout: float | None = None) -> Incoming | None:
        """Return the next message, or None after a timeout or a stop."""
        message = self._subscription.receive(timeout)
        if message is None:
            return None
        return Incoming(self._connections, message)

    def stop(self) -> None:
        """End the subscription, and a poll in another thread."""
        self._subscription.stop()
