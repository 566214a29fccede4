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

"""A server of remote procedure calls, for tests."""

import os
import sys
import threading
import time

import oslo_messaging
from oslo_config import cfg

TOPIC = 'echo'

#: Set when a call of this process has begun to wait.
WAITING = threading.Event()


class UnknownError(Exception):
    """An exception that the client may not import."""


class Endpoint:
    target = oslo_messaging.Target(version='1.0')

    def __init__(self, name):
        self.name = name
        self.noted = []

    def echo(self, context, value):
        return {'value': value, 'context': context}

    def who(self, context):
        return [self.name, os.getpid()]

    def note(self, context, value):
        self.noted.append(value)

    def notes(self, context):
        return self.noted

    def fail(self, context, kind):
        raise {'known': ValueError, 'unknown': UnknownError}[kind]('reason')

    def wait(self, context, seconds):
        WAITING.set()
        time.sleep(seconds)
        return seconds


def start(url, name):
    """Start a server in this process; return it."""
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url)
    server = oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic=TOPIC, server=name),
        [Endpoint(name)],
    )
    server.start()
    return server


if __name__ == '__main__':
    cfg.CONF([])
    running = start(*sys.argv[1:])
    print('ready', flush=True)
    running.wait()
