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

"""Threads of nova-compute that end as if the process had been killed."""

import collections
import contextlib
import functools
import inspect
import re
import threading
import time

import fixtures
import oslo_messaging
from nova import objects
from nova.compute import manager
from nova.scheduler.client import report
from oslo_messaging.rpc import dispatcher
from pypowervm import adapter

#: How many methods of nova-compute a thread is in, by its ident.
_depths = collections.Counter()
#: The host of the nova-compute that a thread works for, or has worked for.
_hosts = {}


class Killed(BaseException):
    """Ends a thread like the end of the process: nothing handles it."""


class Threads(fixtures.Fixture):
    """Knows which threads have been killed, so that they write no more."""

    def _setUp(self):
        self._killed = set()
        client = report.SchedulerReportClient
        for owner, name in (
            (objects.BlockDeviceMapping, 'save'),
            (objects.BlockDeviceMapping, 'destroy'),
            (objects.Instance, 'save'),
            (objects.Migration, 'save'),
            (client, 'put'),
            (client, 'post'),
            (client, 'delete'),
            (adapter.Session, 'request'),
        ):
            self.useFixture(
                fixtures.MockPatchObject(
                    owner, name, new=self.guard(getattr(owner, name))
                )
            )

    def kill(self):
        """End the current thread."""
        self._killed.add(threading.get_ident())
        raise Killed

    def kill_all(self, host):
        """End all threads of the nova-compute of a host.

        This thread ends now if it is one of them, others when they write.
        """
        own = {one for one in _busy_threads() if _hosts[one] == host}
        self._killed |= own
        if threading.get_ident() in own:
            raise Killed

    @contextlib.contextmanager
    def killed(self, owner, name, after=None, when=lambda: True):
        """Kill nova-compute in a function.

        :param when: Tells whether it is to be killed yet.
        :param after: Tells by the function's first argument, once the
            function has returned, whether to kill it; None to kill it before.
        """
        died = threading.Event()
        original = getattr(owner, name)

        def die(*args, **options):
            if after or not when():
                result = original(*args, **options)
                if not (after and after(args[0])):
                    return result
            died.set()
            return self.kill()

        with fixtures.MockPatchObject(owner, name, new=die):
            yield
            if not died.wait(60):
                raise AssertionError(f'{name} was not reached')
            self.revive()

    def revive(self):
        """Let Nova use the threads again, once their steps have ended."""
        for ident in self._killed:
            wait_for_step(ident)
        self._killed.clear()

    def guard(self, write):
        """Return a function that killed threads do not reach."""

        def guarded(*args, **options):
            if threading.get_ident() in self._killed:
                raise Killed
            return write(*args, **options)

        return guarded


def wait_for_step(ident):
    """Wait until a thread of nova-compute has nothing to do."""
    for _ in range(600):
        if ident not in _busy_threads():
            return
        time.sleep(0.1)
    raise AssertionError('the step has no end')


def are_idle():
    """Return whether no other thread of nova-compute has anything to do."""
    return _busy_threads() <= {threading.get_ident()}


def _busy_threads():
    """Return the threads that run methods of nova-compute."""
    return {ident for ident, depth in list(_depths.items()) if depth}


def _count_steps():
    """Let each method of nova-compute count the threads in it.

    The frames of running threads would tell the same, but to walk them
    crashes Python 3.11 now and then.
    """
    for name, method in list(vars(manager.ComputeManager).items()):
        if inspect.isfunction(method) and not name.startswith('__'):
            setattr(manager.ComputeManager, name, _counted(method))


def _counted(method):
    @functools.wraps(method)
    def counted(*args, **kwargs):
        ident = threading.get_ident()
        _hosts[ident] = args[0].host
        _depths[ident] += 1
        try:
            return method(*args, **kwargs)
        finally:
            _depths[ident] -= 1

    return counted


_count_steps()


class SilentServices(fixtures.Fixture):
    """Has calls time out at once that a killed nova-compute cannot answer.

    Nova would wait for half an hour, as its driver for tests has no
    heartbeats.

    :ivar hosts: Hosts that no nova-compute runs on.
    """

    def _setUp(self):
        self.hosts = set()
        self._dispatch = dispatcher.RPCDispatcher.dispatch

        def dispatch(*args):
            return self._answer(*args)

        self.useFixture(
            fixtures.MockPatchObject(
                dispatcher.RPCDispatcher, 'dispatch', new=dispatch
            )
        )

    def _answer(self, receiver, message):
        names = {getattr(one, 'host', '') for one in receiver.endpoints}
        try:
            if self.hosts.isdisjoint(names):
                return self._dispatch(receiver, message)
        except Killed:
            pass
        raise oslo_messaging.MessagingTimeout('nova-compute was killed')


class RequestKills(fixtures.Fixture):
    """Kills the thread that sends a request to a host.

    :ivar request: Method and path of the last request that was reached.
    :ivar killed: Set when it was reached.
    :param threads: The fixture that ends threads.
    :param not_counted: Paths of requests that are not counted.
    """

    def __init__(self, threads, not_counted):
        self._threads = threads
        self._not_counted = re.compile(not_counted)
        self._lock = threading.Lock()
        self.request = ''
        self.disarm()

    def _setUp(self):
        self._request = adapter.Session.request

        def request(session, *args, **options):
            return self._send(session, *args, **options)

        self.useFixture(
            fixtures.MockPatchObject(adapter.Session, 'request', new=request)
        )

    def arm(self, url, number, *, after, act=None):
        """Kill the thread of a request, or do something else in it.

        :param url: The host's.
        :param number: Which of its requests, counted from 1.
        :param after: Whether the host handles the request first.
        :param act: What to do; None to kill the thread.
        """
        with self._lock:
            self._url, self._left, self._after = url, number, after
            self._act = act or self._threads.kill
            self.request = ''
            self.killed.clear()

    def disarm(self):
        self._url, self._left, self._after = '', 0, False
        self.killed = threading.Event()

    def _send(self, session, method, path, *args, **options):
        with self._lock:
            is_counted = session.dest == self._url and not (
                self._not_counted.search(path)
            )
            self._left -= is_counted
            is_last = is_counted and self._left == 0
            after = self._after
        if is_last:
            self.request = f'{method} {path}'
        if is_last and not after:
            self._reach()
        result = self._request(session, method, path, *args, **options)
        if is_last and after:
            self._reach()
        return result

    def _reach(self):
        self.killed.set()
        self._act()
