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

"""Common parts of the emulator's tests: an emulator and a pypowervm client."""

import copy
import functools
import json
import logging
import re
import unittest
import warnings

from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions
from pypowervm.utils import lpar_builder
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import managed_system as ms

from powervm_emulator import app
from powervm_emulator import fixture
from powervm_emulator.control import verbs
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.state import hosts

# Slots of the default world.
GPUS = (0x21010020, 0x21010021, 0x21010022, 0x21020024)
NVME = 0x21010030
EMPTY = 0x21010040
SRIOV = 0x21010023
VIOS_SLOT = 0x21010011
FOREIGN_SLOT = 0x2101002B

EVENTS = (
    '/rest/api/uom/Event?QUEUE_CLIENTKEY_METHOD=USE_APPLICATIONID'
    '&QUEUE_APPLICATIONID=test'
)
# What was built of each world, by its text.
_SAVED = {}


class EmulatorTestCase(unittest.TestCase):
    """Starts an emulator and opens a pypowervm session for each test.

    :cvar is_alone: Whether it has a server of its own and has logged on over
        HTTP, for tests about sessions, and about the end of an emulator. The
        others take turns with one server.
    """

    world = None
    is_alone = False

    def setUp(self):
        super().setUp()
        quieten(self)
        if self.is_alone:
            self.emulator = start(self, world=self.world)
            session = session_for(self.emulator)
            self.addCleanup(forget, session)
        else:
            self.emulator, session = take(self, self.world)
        self.control = self.emulator.control
        self.adapter = pvm_adapter.Adapter(session)

    def system(self):
        """Read and return the only managed system."""
        (system,) = ms.System.get(self.adapter)
        return system

    def slot(self, drc_index):
        """Read and return an I/O slot of the system."""
        (found,) = (
            slot
            for slot in self.system().asio_config.io_slots
            if slot.drc_index == drc_index
        )
        return found

    def build(self, name='vm1', slots=(), required=True, **attributes):
        """Build an LPAR without creating it."""
        values = {
            'name': name,
            'memory': 2048,
            'vcpu': 2,
            'proc_units': 0.5,
            'phys_io_slots': [
                bp.IOSlot.bld(self.adapter, False, slot, required=required)
                for slot in slots
            ],
            **attributes,
        }
        standardize = lpar_builder.DefaultStandardize(self.system())
        return lpar_builder.LPARBuilder(
            self.adapter, values, standardize
        ).build()

    def create(self, name='vm1', slots=(), **attributes):
        """Create an LPAR and return it."""
        return self.build(name, slots, **attributes).create()

    def read(self, uuid):
        """Read and return an LPAR."""
        return lpar.LPAR.get(self.adapter, uuid=uuid)

    def assert_refused(self, status, message, function, *args, **kwargs):
        """Assert that the emulator refuses a call; return the exception."""
        with self.assertRaises(exceptions.HttpError) as caught:
            function(*args, **kwargs)
        self.assertEqual(status, caught.exception.response.status)
        self.assertRegex(str(caught.exception), message)
        return caught.exception

    def assert_each_refused(self, *cases):
        """Assert that each (status, message, function, *args) is refused."""
        for status, message, function, *args in cases:
            with self.subTest(message=message, args=args):
                self.assert_refused(status, message, function, *args)


@functools.cache
def _served():
    """Start a server for this process, and log on to what it serves."""
    emulator = fixture.Emulator().start()
    session = session_for(emulator)
    forget(session)
    return emulator, session


def _application(world):
    """Return a new emulator with a world as if that had been built for it.

    To build it takes ten times as long as to load what was saved then. Like
    that it is done in a thread of its own, see ``load_world``.
    """
    text = repr(world)
    if text not in _SAVED:
        built = app.make_app(world)
        _SAVED[text] = json.dumps(hosts.save([built.emulation]))
        built.close()
    emulation = app.make_emulation(
        username='admin',
        password='abc123',
        seed=0,
        event_wait=emulation_module.EVENT_WAIT,
        site=None,
        host_root=None,
    )
    saved = json.loads(_SAVED[text])
    verbs._run_in_thread(hosts.load, emulation, saved, 0)
    return app.Application(emulation)


def take(test, world=None):
    """Let the server of this process serve a new emulator until a test ends.

    :returns: the emulator, which nobody may stop, and a session.
    """
    emulator, session = map(copy.copy, _served())
    emulator._application = application = _application(world)
    test.addCleanup(application.close)
    emulator._server.serve(application)
    session._sessToken = application.emulation.host.sessions.open()
    return emulator, session


def quieten(test):
    """Keep pypowervm's warnings and log lines out of the test's output."""
    context = warnings.catch_warnings()
    context.__enter__()
    test.addCleanup(context.__exit__, None, None, None)
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    test.addCleanup(logging.disable, logging.NOTSET)


def start(test, world=None, **options):
    """Start an emulator that stops when the test ends."""
    emulator = fixture.Emulator(world, **options)
    emulator.start()
    test.addCleanup(emulator.stop)
    return emulator


def session_for(emulator, password=True):
    """Log on with the password, or by file if password is false."""
    return pvm_adapter.Session(
        emulator.host,
        emulator.username if password else None,
        emulator.password if password else None,
        protocol='http',
        port=emulator.port,
        certpath=None,
    )


def forget(session):
    """Keep a session from logging off when it is collected.

    The emulator may have stopped by then.
    """
    session._init_by = None


def adapter_for(emulator, password=True):
    """Return an adapter with its own session."""
    return pvm_adapter.Adapter(session_for(emulator, password))


def without_host(text):
    """Remove the scheme and host from REST URLs in a text."""
    return re.sub(r'https?://[^/]+(?=/rest/api/)', '', text)
