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

"""A process with consoles, which has few file descriptors.

It stands for nova-compute, and does what a line of its input says: see
:class:`Process`. The answer is a line, too; the log goes to stderr.
"""

import json
import logging
import os
import resource
import sys

from pypowervm import adapter as pvm_adapter

from nova_powervm.ops import consoles


class Terminals:
    """Terminals that are all served at one port, and never say a word.

    :param port: Of the loopback interface.
    """

    def __init__(self, port):
        self._port = port

    def open(self, _lpar_uuid):
        """Return the port."""
        return self._port

    def close(self, _lpar_uuid):
        """Close nothing."""


class Process:
    """What the process can be told to do.

    :param rest: What pypowervm's session takes: the host's REST API.
    :param port: Where the consoles are to be served.
    :param terminal: The port of the terminals.
    """

    def __init__(self, rest, port, terminal):
        self._rest = rest
        self._consoles = consoles.Consoles(
            Terminals(terminal), consoles.Address('127.0.0.1', port)
        )
        self._spent = []

    def open(self, *paths):
        """Open consoles, as Nova does when a user asks."""
        for path in paths:
            self._consoles.open(path, path)

    def ask(self):
        """Log on to the host, and read from it."""
        session = pvm_adapter.Session(**self._rest)
        pvm_adapter.Adapter(session).read('ManagedSystem')

    def spend(self):
        """Use all file descriptors for something else."""
        try:
            while True:
                self._spent.append(os.open('/dev/null', os.O_RDONLY))
        except OSError:
            pass

    def give_back(self):
        """Give back the file descriptors."""
        while self._spent:
            os.close(self._spent.pop())

    def count(self):
        """Return how many file descriptors are in use."""
        return len(os.listdir('/proc/self/fd')) - 1


def main():
    """Do what the input says; the first line has the arguments."""
    logging.basicConfig(format='%(levelname)s %(name)s %(message)s')
    options = json.loads(sys.stdin.readline())
    limit = options.pop('descriptors')
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    process = Process(**options)
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            answer = getattr(process, name)(*args)
        except Exception as error:
            answer = f'{type(error).__name__}: {error}'
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
