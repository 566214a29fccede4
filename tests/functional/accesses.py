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

"""Something happens at an access of a nova-compute that starts."""

import re
import threading

import fixtures
from nova import objects
from nova.compute import manager
from nova.compute import resource_tracker
from nova.scheduler.client import report
from pypowervm import adapter

#: The session, and events, which come at any time.
_NOT_COUNTED = re.compile('/Logon|APPLICATIONID')
_READS = (
    (objects.MigrationList, 'get_by_filters'),
    (objects.InstanceList, 'get_by_filters'),
    (objects.InstanceList, 'get_by_host'),
    (objects.Instance, 'get_by_uuid'),
    (report.SchedulerReportClient, 'get'),
)
_WRITES = (
    (objects.Migration, 'save'),
    (objects.Instance, 'save'),
    (report.SchedulerReportClient, 'put'),
    (report.SchedulerReportClient, 'post'),
    (report.SchedulerReportClient, 'delete'),
)


class StartAccesses(fixtures.Fixture):
    """Acts before one of the accesses of a start by this thread.

    The thread of its first cycle, which it waits for, belongs to it, too.
    Writes to Nova's records and to Placement count, which other hosts see,
    too. Nova's lock of the resource tracker, which its services share in a
    test, ends the counting: another start would wait for it for ever.

    :ivar access: The one that was reached; empty if none was.
    :param number: Which access, counted from 1.
    :param act: What to do. It may start another nova-compute.
    :param counts_all: Whether to count reads, too, and requests to the host.
    """

    def __init__(self, number, act, *, counts_all):
        super().__init__()
        self._left = number
        self._act = act
        self._counts_all = counts_all
        self._threads = {threading.get_ident()}
        self.access = ''

    def _setUp(self):
        for owner, name in _WRITES + (_READS if self._counts_all else ()):
            self._patch(owner, name, self._counting(owner, name))
        if self._counts_all:
            self._patch(adapter.Session, 'request', self._counting_requests())
        self._patch(
            manager.ComputeManager,
            '_update_available_resource_for_node',
            self._joining(),
        )
        self._patch(
            resource_tracker.ResourceTracker,
            '_update_available_resource',
            self._ending(),
        )

    def _patch(self, owner, name, function):
        self.useFixture(fixtures.MockPatchObject(owner, name, new=function))

    def _counting(self, owner, name):
        original = getattr(owner, name)

        def access(*args, **options):
            self._count(f'{owner.__name__}.{name}')
            return original(*args, **options)

        is_bound = hasattr(original, '__self__')
        return staticmethod(access) if is_bound else access

    def _counting_requests(self):
        original = adapter.Session.request

        def request(session, method, path, *args, **options):
            if not _NOT_COUNTED.search(path):
                self._count(f'{method} {path}')
            return original(session, method, path, *args, **options)

        return request

    def _joining(self):
        original = manager.ComputeManager._update_available_resource_for_node

        def update(*args, **options):
            self._threads.add(threading.get_ident())
            return original(*args, **options)

        return update

    def _ending(self):
        original = resource_tracker.ResourceTracker._update_available_resource

        def update(*args, **options):
            self._left = 0
            return original(*args, **options)

        return update

    def _count(self, access):
        if not self._left or threading.get_ident() not in self._threads:
            return
        self._left -= 1
        if not self._left:
            self.access = access
            self._act()
