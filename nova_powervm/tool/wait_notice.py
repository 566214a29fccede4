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

"""Notice that a command is waiting for a host that does not answer."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import TextIO

from nova_powervm.conf import powervm as options

#: Seconds after which the notice is printed.
NOTICE_DELAY = 3.0


@contextlib.contextmanager
def announce_wait(
    server: options.Server, program: str, stream: TextIO, how: str
) -> Iterator[None]:
    """Print a notice if the block takes longer than :data:`NOTICE_DELAY`.

    :param server: The server that the block sends requests to.
    :param program: Name of the command.
    :param stream: Stream for the notice.
    :param how: Option that sets the timeout.
    """
    line = (
        f'{program}: waiting for the PowerVM REST server at {server}; the '
        f'request fails if there is no answer for {server.read_timeout:g} '
        f'seconds ({how})'
    )
    timer = threading.Timer(
        NOTICE_DELAY, functools.partial(print, line, file=stream, flush=True)
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
