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
import os
import time
import typing
import uuid

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common

from demo.messaging import connection
from demo.messaging import listener
from demo.messaging import queues
from demo.messaging import replies
from demo.messaging import subscription

_Context = dict[str, typing.Any]
_Message = dict[str, typing.Any]


class _Client:
    """What a process needs to send messages."""

    def __init__(self, address: connection.Address) -> None:
        self.connections = connection.Connections(address)
        self.replies = replies.Replies(address)

    def close(self) -> None:
        self.connections.close()
        self.replies.close()


class Driver(base.BaseDriver):
    """Transports messages through the queues of :mod:`.server`.

    A message to a server that is not there waits in its queue, in which
    :mod:`.queues` limits the number of messages and their time. While the
    server of the queues is away, senders wait as ``retry`` and ``timeout``
    say. Calls that it forgot when it was restarted time out.
    """

    def __init__(
        self,
        conf: typing.Any,
        url: oslo_messaging.TransportURL,
        default_exchange: str | None = None,
        allowed_remote_exmods: collections.abc.Sequence[str] | None = None,
    ) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        (host,) = url.hosts
        self._address = connection.Address(
            host.hostname, host.port, host.password or ''
        )
        # By process: a forked one can use neither the connections nor the
        # threads of its parent.
        self._clients: dict[int, _Client] = {}

    def send(
        self,
        target: oslo_messaging.Target,
        ctxt: _Context,
        message: _Message,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: object = None,
    ) -> typing.Any:
        """Send a message, and return the result of a call.

        :param timeout: how long a call may take, in seconds.
        :param call_monitor_timeout: how long the server may be silent.
        :param retry: how often to try again while the server of the queues
            is away; None or a negative number for ever.
        :raises oslo_messaging.MessagingTimeout: there is no reply in time.
        :raises oslo_messaging.MessageDeliveryFailure: the message could not
            be put into a queue.
        :raises Exception: what the called method raised.
        """
        client = self._client()
        envelope: _Message = {
            'id': uuid.uuid4().hex,
            'context': ctxt,
            'message': message,
            'silence': call_monitor_timeout,
            'reply_queue': client.replies.queue if wait_for_reply else None,
        }
        frame = self._frame(target, envelope)
        if not wait_for_reply:
            client.connections.request(frame, retry)
            return None
        deadline = None if timeout is None else time.monotonic() + timeout
        with client.replies.expect(envelope['id']) as inbox:
            client.connections.request(frame, retry, deadline)
            reply = replies.wait(
                inbox,
                f'{message.get("method")} on {_queue(frame)}',
                timeout,
                call_monitor_timeout,
            )
        if reply['failure']:
            raise common.deserialize_remote_exception(
                reply['failure'], self._allowed_remote_exmods
            )
        return reply['result']

    def send_notification(
        self,
        target: oslo_messaging.Target,
        ctxt: _Context,
        message: _Message,
        version: float,
        retry: int | None = None,
    ) -> None:
        """Send a notification, which waits in its queue for a listener."""
        self.send(target, ctxt, message, retry=retry)

    def listen(
        self,
        target: oslo_messaging.Target,
        batch_size: int,
        batch_timeout: float | None,
    ) -> base.PollStyleListenerAdapter:
        """Listen to a topic, to one server of it and to its fanouts."""
        topic = self._name(target.exchange, target.topic)
        return self._listen(
            [f'{topic}/{target.server}', topic],
            topic,
            batch_size,
            batch_timeout,
        )

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
        subscribed = subscription.Subscription(self._address, names, group)
        subscribed.connect()
        return base.PollStyleListenerAdapter(
            listener.Listener(self._client().connections, subscribed),
            batch_size,
            batch_timeout,
        )

    def _client(self) -> _Client:
        process = os.getpid()
        if process not in self._clients:
            self._clients.setdefault(process, _Client(self._address))
        return self._clients[process]

    def _frame(
        self, target: oslo_messaging.Target, envelope: _Message
    ) -> connection.Frame:
        topic = self._name(target.exchange, target.topic)
        if target.fanout:
            return {'op': 'publish', 'group': topic, 'message': envelope}
        queue = f'{topic}/{target.server}' if target.server else topic
        return {'op': 'put', 'queue': queue, 'message': envelope}

    def _name(self, exchange: str | None, topic: str) -> str:
        return f'{exchange or self._default_exchange or ""}/{topic}'


def _queue(frame: connection.Frame) -> str:
    return str(frame.get('queue') or frame.get('group'))
