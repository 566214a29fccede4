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

"""What is measured of one compute service, whichever driver it has."""

import contextlib
import statistics
import threading
import time

import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects

from tests.benchmark import turns
from tests.functional import requests_seen


class Stopwatch:
    """Adds up the time that threads spend in some methods.

    The time of the processor is taken, which other processes do not lengthen.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._inside = threading.local()
        self.seconds = 0.0

    def timed(self, function):
        """Wrap a function; what it calls of the others counts once."""

        def wrapped(*args, **kwargs):
            if getattr(self._inside, 'now', False):
                return function(*args, **kwargs)
            self._inside.now = True
            started = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._inside.now = False
                with self._lock:
                    self.seconds += time.thread_time() - started

        return wrapped

    def take(self):
        """Give the seconds since the last call."""
        taken, self.seconds = self.seconds, 0.0
        return taken


class MeasuringMixin:
    """Mixed into one of nova's functional test cases.

    A subclass has ``driver_parts``: an object and the names of its methods
    that are the driver's side; and ``prepare``, which makes the host,
    ``start``, ``service``, ``flavor``, ``send`` and ``host_requests``.
    """

    devices = 4
    repeats = 5
    outcome = None

    def test_measure_everything(self):
        """Measure everything into ``outcome``: figure to values."""
        self.outcome.clear()
        self.stopwatch = Stopwatch()
        for owner, names in self.driver_parts():
            for name in names:
                timed = self.stopwatch.timed(getattr(owner, name))
                self.useFixture(
                    fixtures.MonkeyPatch(_path(owner, name), timed)
                )
        self.recorder = self.useFixture(
            requests_seen.Recorder(self.placement.fixture)
        )
        self.prepare()
        with self.measured('first publish'):
            self.start()
        if not self.repeats:
            return
        self.cycle()
        for _ in range(self.repeats):
            with self.measured('no-change cycle'):
                self.cycle()
        for _ in range(max(1, self.repeats // 2)):
            client = self.service().manager.reportclient
            # What the passing of resource_provider_association_refresh does.
            client._association_refresh_time.clear()
            with self.measured('refresh'):
                self.cycle()
        plain, device = self.flavor(None), self.flavor('device')
        # The first one has to find out more.
        for name, flavor in (
            (None, plain),
            ('boot without a device', plain),
            ('boot with a device', device),
        ):
            for _ in range(max(1, self.repeats // 2)):
                server = self.boot(name, flavor)
                self.api.delete_server(server)
                self.wait(lambda uuid=server: not self.exists(uuid))
                self.cycle()

    @contextlib.contextmanager
    def measured(self, figure):
        """Note what a block costs, when it is this contender's turn."""
        turns.take()
        self.recorder.take()
        self.host_requests()
        self.stopwatch.take()
        started = time.monotonic()
        yield
        seconds = time.monotonic() - started
        requests, changed = self.host_requests()
        found = {
            'seconds': seconds,
            'driver': self.stopwatch.take(),
            'placement': len(self.recorder.take()),
            'host': requests,
            'host_changed': changed,
        }
        self.outcome.setdefault(figure, []).append(found)

    def cycle(self):
        """Run Nova's periodic task."""
        self.service().manager.update_available_resource(
            nova_context.get_admin_context()
        )

    def boot(self, figure, flavor):
        """Build a server; give its uuid."""
        with self.measured(figure) if figure else contextlib.nullcontext():
            uuid = self.send(flavor)
            self.wait(lambda: self.state(uuid) in ('active', 'error'))
        if self.state(uuid) != 'active':
            raise AssertionError(self.api.get_server(uuid).get('fault'))
        return uuid

    def wait(self, condition):
        """Look often: the answers of the API would be in the way."""
        deadline = time.monotonic() + 300
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError('it has no end')
            time.sleep(0.01)

    def state(self, uuid):
        """Give Nova's state of a server; None if it has no record yet."""
        try:
            return objects.Instance.get_by_uuid(
                nova_context.get_admin_context(), uuid, expected_attrs=[]
            ).vm_state
        except nova_exception.InstanceNotFound:
            return None

    def exists(self, uuid):
        """Whether Nova still has a server."""
        return self.state(uuid) is not None


def _path(owner, name):
    return (
        f'{owner.__module__}.{owner.__name__}.{name}'
        if isinstance(owner, type)
        else f'{owner.__name__}.{name}'
    )


def summary(outcomes):
    """Give the median of each figure, and how far the values are apart.

    :param outcomes: Figure to a list of what was measured each time.
    """
    return {
        figure: {
            key: {
                'median': statistics.median(v[key] for v in values),
                'least': min(v[key] for v in values),
                'most': max(v[key] for v in values),
            }
            for key in values[0]
        }
        for figure, values in outcomes.items()
    }
