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

"""Disks and volumes change the mappings of a server at the same time."""

import contextlib
import threading
from concurrent import futures
from unittest import mock

from pypowervm import adapter as pvm_adapter

from nova_powervm import exception
from nova_powervm.powervm.volume import volume_mappings
from tests.ops import base
from tests.ops import volumes

V1 = volumes.volume('v1')
#: How long a writer waits for another one, which comes at once if it can.
_SECONDS = 0.5


class MappingWritersTest(volumes.VolumesTestCase):
    """All changes of a server's mappings in this service wait for each other.

    Otherwise two of them read the same document, and the host refuses what
    the slower one writes.
    """

    def setUp(self):
        super().setUp()
        self.lpar_uuid = self.spawn().lpar_uuid
        self.partition = self.partitions.find(self.lpar_uuid)

    def at_the_same_time(self, *changes):
        """Run changes, and have the first two writes wait for each other."""
        # A thread of its own logs on for none of them.
        self.volumes.connected(self.lpar_uuid, [V1])
        self.forget()
        send = pvm_adapter.Session.request
        meeting = threading.Barrier(2)

        def meet(session, method, path, *args, **options):
            if method == 'POST' and '/VirtualIOServer/' in path:
                with contextlib.suppress(threading.BrokenBarrierError):
                    meeting.wait(_SECONDS)
            return send(session, method, path, *args, **options)

        with (
            mock.patch.object(pvm_adapter.Session, 'request', new=meet),
            futures.ThreadPoolExecutor() as pool,
        ):
            for done in [pool.submit(change) for change in changes]:
                done.result()

    def outdated(self):
        """Return the writes that were refused as outdated."""
        return [
            record['label']
            for record in self.control.journal()
            if record['status'] == 412
        ]

    def found_volume(self):
        """Have the servers find a volume."""
        return self.volumes.find(V1, self.lpar_uuid)

    def test_disk_and_volume_are_connected_without_conflict(self):
        found = self.found_volume()
        stored = self.disks.make_blank(self.lpar_uuid, base.EPHEMERAL)

        self.at_the_same_time(
            lambda: self.disks.attach(self.lpar_uuid, [stored]),
            lambda: self.volumes.connect(found, self.partition),
        )

        self.assertEqual([], self.outdated())
        self.assertEqual('r0', self.mapped_disks())
        self.assertEqual({64: 'v1'}, self.connected()['vios1'])

    def test_disks_and_volume_are_disconnected_without_conflict(self):
        self.attach(V1)

        # A server that forgets a disk changes its document, too.
        with mock.patch.object(volume_mappings.VolumeMappings, 'forget'):
            self.at_the_same_time(
                lambda: self.disks.remove(self.lpar_uuid, delete=False),
                lambda: self.volumes.disconnect(V1, self.lpar_uuid),
            )

        self.assertEqual([], self.outdated())
        self.assertEqual('', self.mapped_disks())
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())

    def test_server_that_hides_its_mappings_gets_no_volume(self):
        found = self.found_volume()
        self.sicken('vios1')

        with (
            self.assertRaisesRegex(
                exception.RestError, 'vios1 does not report its storage'
            ),
            self.logged('ERROR') as logs,
        ):
            self.volumes.connect(found, self.partition)

        self.assertIn('may be connected to LPAR vm1 by vios1', logs.output[0])
        self.assertEqual({'vios1': {}, 'vios2': {}}, self.connected())
