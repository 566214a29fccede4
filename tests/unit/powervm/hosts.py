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

"""Emulated hosts, and the driver's own session on them."""

from emulator.tests import base
from nova_powervm.conf import powervm as options
from nova_powervm.powervm import session
from powervm_emulator import fixture


def start(test, world=None, **changes):
    """Start the emulator of a host until the end of a test.

    Without more arguments a test has only one at a time.

    :param changes: More arguments of the emulator.
    """
    if changes:
        return test.enterContext(fixture.Emulator(world, **changes))
    return base.take(test, world)[0]


def server_of(emulator):
    """Return the options for a host."""
    return options.Server(
        url=emulator.url,
        username=emulator.username,
        password=emulator.password,
        connect_timeout=0,
    )


def connect(test, emulator):
    """Log on to a host until the end of a test; return the adapter."""
    adapter = session.connect(server_of(emulator))
    test.addCleanup(adapter.session.close)
    return adapter
