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

"""Messages between services in several processes, on one machine.

:mod:`demo.services.broker` has the queues in its memory: when it ends, they
are lost, and so is the cloud. A deployment needs a real broker, such as
RabbitMQ.

Redis does not replace it: oslo.messaging says that ``kombu+redis`` is not
supported, and starts with it only after two changes to kombu in each process.
Its server is on PyPI for x86_64 alone, and not as source.

:mod:`.driver` is a transport driver of oslo.messaging for these queues. The
services of OpenStack load it through the entry point ``demo-tcp``, which is
in the directory :data:`METADATA`, for transport URLs like
``demo-tcp://:PASSWORD@127.0.0.1:PORT/``. No distribution has this package or
the entry point, so a process finds the driver only if this directory and the
checkout are on its ``PYTHONPATH``. That serves programs of other projects,
too, and stevedore, which caches the entry points of each path on disk.

The protocol consists of JSON values on lines. The first line of a client is
the password. Each later line is a request, an object with the key ``op``. The
answer is ``{}``, or an object with the key ``error``.

``put``
   Append ``message`` to ``queue``, which may be full.

``publish``
   Give ``message`` to all consumers that are in ``group`` now.

``consume``
   Consume the messages of ``queues`` and those for ``group``, which may be
   null. After the answer come messages, one at a time, as
   ``{"message": ...}``. Nothing but ``acknowledge`` may follow.

``acknowledge``
   Take the message that was delivered last out of its queue. There is no
   answer but the next message. If the connection ends without it, the message
   returns to the head of its queue.
"""

import os
import pathlib
import secrets
import sys

from demo import stack

#: The name of the transport, as in transport URLs.
SCHEME = 'demo-tcp'

#: The directory with the metadata of a distribution that has the entry point.
METADATA = pathlib.Path(__file__).parent / 'metadata'

_PATH = 'PYTHONPATH'


def url(port: int) -> str:
    """Return a transport URL for a broker on a port, with a new password."""
    return f'{SCHEME}://:{secrets.token_hex(16)}@{stack.ADDRESS}:{port}/'


def environment(transport_url: str) -> dict[str, str]:
    """Return the variables that a process needs for a transport URL."""
    if not transport_url.startswith(f'{SCHEME}:'):
        return {}
    path = os.environ.get(_PATH)
    found = [str(METADATA), str(stack.CHECKOUT), *([path] if path else [])]
    return {_PATH: os.pathsep.join(found)}


def find_driver() -> None:
    """Let this process find the driver, whatever its ``PYTHONPATH``."""
    if str(METADATA) not in sys.path:
        sys.path.append(str(METADATA))
