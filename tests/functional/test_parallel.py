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

"""Parallel boots and deletes on a host that another tool changes."""

import collections
import itertools
import threading

from oslo_log import log as logging

from tests.functional import complete_servers
from tests.functional import other_tool

LOG = logging.getLogger(__name__)

_SERVERS = 4
_LIMIT = 120
#: More would only make the documents of the host long.
_KEPT = 20


class BusyTool(threading.Thread):
    """Another management tool that changes the host without pause.

    Each round creates disks, maps one and adds a VLAN; every second round
    removes all of these again.

    :param emulator: Emulator of the host.
    """

    def __init__(self, emulator):
        super().__init__(daemon=True)
        self._client = other_tool.Client(emulator)
        self._stopping = threading.Event()
        self.disks = set()
        self.vlans = set()
        self.rounds = 0
        self.error = None

    def run(self):
        """Make changes until stopped."""
        try:
            for number in itertools.count():
                if self._stopping.is_set():
                    return
                self._round(f'other{number}', 1000 + number % 100)
                self.rounds += 1
        except Exception as error:
            self.error = error

    def stop(self):
        """Finish the current round, log off, and raise any error."""
        self._stopping.set()
        self.join(_LIMIT)
        self._client.close()
        if self.error is not None:
            raise self.error

    def _round(self, name, vlan):
        for scratch in ('scratch1', 'scratch2'):
            self._client.make_disk(scratch)
            self._client.delete_disk(scratch)
        self._client.make_disk(name)
        self._client.map_disk(name)
        self._client.add_vlan(vlan)
        if self.rounds % 2 or len(self.disks) >= _KEPT:
            self._client.unmap_disk(name)
            self._client.delete_disk(name)
            self._client.remove_vlan(vlan)
            self.vlans.discard(vlan)
        else:
            self.disks.add(name)
            self.vlans.add(vlan)


class ParallelServersTest(complete_servers.CompleteServerTestCase):
    """Four servers with a disk, a port and a config drive."""

    def setUp(self):
        super().setUp()
        self.start_shared_host()

    def start_all(self, images):
        """Request a server for each image; return servers and ports."""
        return [
            self.start_complete_server({}, vlan=100 + number, image=image)
            for number, image in enumerate(images)
        ]

    def wait_for_all(self, started):
        """Wait until all builds have ended; return servers and ports."""
        return [
            (self._wait_until_built(server['id']), port)
            for server, port in started
        ]

    def delete_all(self, servers):
        """Delete servers in parallel and wait until they are gone."""
        for server, _ in servers:
            self.api.delete_server(server['id'])
        for server, _ in servers:
            self._wait_until_deleted(server)

    def outdated(self):
        """Count the writes that were refused as outdated, by label."""
        return collections.Counter(
            record['label']
            for record in self.control().journal()
            if record['status'] == 412
        )

    def wrong_resources_of(self, other):
        """Return missing and surplus resources of another tool."""
        state = self.host_state()
        belongings = other_tool.resources_of_others(state)
        names = {name for name, *_ in belongings['disks']}
        mapped = {name for _, name in belongings['mappings']}
        wanted = other.disks | {other_tool.DISK}
        vlans = set(state['network_bridges'][0]['vlans'])
        return {
            'disks': names ^ wanted,
            'mappings': mapped ^ wanted,
            'vlans': (other.vlans | {other_tool.VLAN}) - vlans,
        }

    def test_parallel_boots_and_deletes_succeed_on_changing_host(self):
        other = BusyTool(self.hosts['host1'].emulator)
        other.start()
        contents = [bytes([number]) * 4096 for number in range(_SERVERS)]
        images = [self.create_image(data) for data in contents]
        none = {'disks': set(), 'mappings': set(), 'vlans': set()}

        built = self.wait_for_all(self.start_all(images))
        while_building = self.outdated()
        for (server, port), data in zip(built, contents, strict=True):
            self.assertEqual('ACTIVE', server['status'], server.get('fault'))
            self.assert_complete(server, port, data)
        self.control().clear_journal()
        self.delete_all(built)
        while_deleting = self.outdated()
        other.stop()

        self.assertEqual(none, self.wrong_resources_of(other))
        self.assertEqual(
            other_tool.NO_RESOURCES,
            other_tool.resources_of_instances(self.host_state()),
        )
        self.assert_no_uploads()
        # VLANs that could not be removed are removed in the next cycles.
        for _ in range(2):
            self._run_periodics()
        self.assertEqual({other_tool.VLAN} | other.vlans, set(self.vlans()))
        self.assertGreater(other.rounds, 4)
        LOG.info(
            'Outdated writes in %d rounds: %s of builds, %s of deletes.',
            other.rounds,
            while_building,
            while_deleting,
        )
        # The test is void without races.
        both = while_building + while_deleting
        for label in ('VolumeGroup.update', 'VirtualIOServer.update'):
            self.assertGreater(both[label], 0, both)
        self.assertTrue(while_building and while_deleting)
