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

"""The transport driver for oslo.messaging."""

import collections.abc
import logging
import os
import queue
import threading
import time
import types
import typing
import uuid

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common

from demo.messaging import client as client_lib
from demo.messaging import queues

_LOG = logging.getLogger(__name__)

_ExceptionInfo = tuple[
    type[BaseException], BaseException, types.TracebackType | None
]


class Driver(base.BaseDriver):
    """Transports messages through the queues of the broker.

    A message to a server that is not there waits in its queue. Without the
    broker, nothing can be sent: it is not tried again.
    """

    def __init__(
        self,
        conf: typing.Any,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: collections.abc.Sequence[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        # By process: a forked one can use neither the connections nor the
        # threads of its parent.
        self._clients: dict[int, client_lib.Client] = {}

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: dict[str, typing.Any],
        message: dict[str, typing.Any],
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: object = None,
    ) -> typing.Any:
        """Send a message, and return the result of a call.

        :param timeout: how long a call may take, in seconds.
        :param call_monitor_timeout: how long the server may be silent.
        :raises oslo_messaging.MessagingTimeout: there is no reply in time.
        :raises oslo_messaging.MessageDeliveryFailure: the message could not
            be put into a queue.
        :raises Exception: what the called method raised.
        """
        client = self._client()
        identifier = uuid.uuid4().hex
        envelope = {
            'id': identifier,
            'context': ctxt,
            'message': message,
            'silence': call_monitor_timeout,
            'reply_queue': client.reply_queue if wait_for_reply else None,
        }
        frame = self._frame(target, envelope)
        if not wait_for_reply:
            client.request(frame)
            return None
        with client.expect(identifier) as inbox:
            client.request(frame)
            reply = _wait(inbox, timeout, call_monitor_timeout)
        if reply is None:
            raise oslo_messaging.MessagingTimeout(
                f'no reply to {message.get("method")} on {frame.get("queue")}'
            )
        if reply['failure']:
            raise common.deserialize_remote_exception(
                reply['failure'], self._allowed_remote_exmods
            )
        return reply['result']

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: dict[str, typing.Any],
        message: dict[str, typing.Any],
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send a notification, which waits in its queue for a listener."""
        self.send(target, ctxt, message)

    def listen(
        self,
        target: oslo_messaging.Target,
        batch_size: int,
        batch_timeout: float | None,
    ) -> base.PollStyleListenerAdapter:
        """Listen to a topic, to one server of it and to its fanouts."""
        topic = self._name(target.exchange, target.topic)
        names = [f'{topic}/{target.server}', topic]
        return self._listen(names, topic, batch_size, batch_timeout)

    def listen_for_notifications(
        self,
        targets_and_priorities: collections.abc.Iterable[
            tuple[oslo_messaging.Target, str]
        ],
        pool: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> base.PollStyleListenerAdapter:
        """Listen for notifications.

        :param pool: each pool gets all notifications, whoever else listens.
        """
        names = [
            self._name(target.exchange, f'{target.topic}.{priority}')
            for target, priority in targets_and_priorities
        ]
        if pool:
            names = [queues.pool_queue(name, pool) for name in names]
        return self._listen(names, None, batch_size, batch_timeout)

    def cleanup(self) -> None:
        """End all connections of this process but those of listeners."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def _listen(
        self,
        names: collections.abc.Sequence[str],
        group: str | None,
        batch_size: int,
        batch_timeout: float | None,
    ) -> base.PollStyleListenerAdapter:
        messages = client_lib.consume(self._url, names, group)
        return base.PollStyleListenerAdapter(
            Listener(self._client(), messages), batch_size, batch_timeout
        )

    def _client(self) -> client_lib.Client:
        process = os.getpid()
        if process not in self._clients:
            self._clients.setdefault(process, client_lib.Client(self._url))
        return self._clients[process]

    def _frame(
        self,
        target: oslo_messaging.Target,
        envelope: dict[str, typing.Any],
    ) -> client_lib.Frame:
        topic = self._name(target.exchange, target.topic)
        if target.fanout:
            return {'op': 'publish', 'group': topic, 'message': envelope}
        name = f'{topic}/{target.server}' if target.server else topic
        return {'op': 'put', 'queue': name, 'message': envelope}

    def _name(self, exchange: str | None, topic: str) -> str:
        return f'{exchange or self._default_exchange or ""}/{topic}'


def _wait(
    inbox: client_lib.Inbox, timeout: float | None, silence: float | None
) -> client_lib.Frame | None:
    """Return the reply to a call, or None if it does not come in time.

    :param timeout: how long to wait, in seconds, or None.
    :param silence: how long to wait for a sign of life of the server, which
        then sends them, or None.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        limits = [] if end is None else [max(0.0, end - time.monotonic())]
        if silence:
            limits.append(silence)
        try:
            reply = inbox.get(timeout=min(limits, default=None))
        except queue.Empty:
            return None
        if not reply['is_heartbeat']:
            return reply


class Incoming(base.RpcIncomingMessage):
    """A message from :class:`Driver`.

    :param client: sends the reply.
    :param message: what the driver put into the queue.
    """

    def __init__(
        self, client: client_lib.Client, message: dict[str, typing.Any]
    ) -> None:
        super().__init__(message['context'], message['message'], message['id'])
        self.client_timeout = message['silence']
        self._client = client
        self._queue = message['reply_queue']

    def reply(
        self,
        reply: typing.Any = None,
        failure: _ExceptionInfo | None = None,
    ) -> None:
        """Send a result or an exception; a cast gets none."""
        serialized = failure and common.serialize_remote_exception(failure)
        self._send(reply, serialized, is_heartbeat=False)

    def heartbeat(self) -> None:
        """Tell the caller that the server is at work."""
        self._send(None, None, is_heartbeat=True)

    def requeue(self) -> None:
        """Do nothing: :meth:`base.BaseDriver.require_features` refuses it."""

    def _send(
        self, result: typing.Any, failure: str | None, *, is_heartbeat: bool
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
            self._client.request(
                {'op': 'put', 'queue': self._queue, 'message': reply}
            )
        except oslo_messaging.MessageDeliveryFailure as error:
            _LOG.error('The reply to %s is lost: %s', self.msg_id, error)


class Listener(base.PollStyleListener):
    """Polls a connection on which messages come.

    :param client: sends replies.
    """

    def __init__(
        self, client: client_lib.Client, messages: client_lib.Connection
    ) -> None:
        super().__init__()
        self._client = client
        self._messages = messages
        self._stopped = threading.Event()

    @base.batch_poll_helper  # type: ignore[untyped-decorator]
    def poll(self, timeout: float | None = None) -> Incoming | None:
        """Return the next message, or None after a stop.

        No service here has a time limit for it.
        """
        try:
            message = self._messages.next_message()
        except OSError as error:
            if not self._stopped.is_set():
                _LOG.error('No more messages come: %s', error)
                # The caller polls again until it is stopped.
                self._stopped.wait()
            return None
        return Incoming(self._client, message)

    def stop(self) -> None:
        """End a poll in another thread."""
        self._stopped.set()
        self._messages.close()
