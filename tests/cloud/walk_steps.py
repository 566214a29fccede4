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

"""What the steps of a random walk have in common."""

from tests.cloud import kill_points
from tests.cloud import pool_checks
from tests.cloud import pool_servers

SECONDS = 120.0
_MAX_SERVERS = 6
_IMAGES = 3
MISSED = 'not reached'


class Steps:
    """Choices at random, and kills of nova-computes.

    :param site: the cloud.
    :param generator: makes all choices.
    """

    def __init__(self, site, generator):
        self.site = site
        self.random = generator
        self.images = [site.make_image(generator) for _ in range(_IMAGES)]
        self.kills = 0

    def _servers(self, *states):
        """Return the servers in some states, or all, always in one order."""
        found = self.site.api.compute.servers(all_projects=True)
        return sorted(
            (one for one in found if not states or one.status in states),
            key=lambda one: int(one.name.rpartition('-')[2]),
        )

    def _any(self, *states):
        found = self._servers(*states)
        return self.random.choice(found) if found else None

    def _side(self):
        return self.random.choice(self.site.sides)

    def _request_boot(self):
        if len(self._servers()) >= _MAX_SERVERS:
            self.delete()
        side = self._side()
        free = self._free_gpus(side)
        flavor = self.random.choice(
            [
                name
                for name, flavor in pool_servers.FLAVORS.items()
                if flavor.gpus <= free
            ]
        )
        server = self.site.boot(flavor, self.random.choice(self.images), side)
        return server, f'{flavor} {server} on {side.name}', side

    def _free_gpus(self, side):
        """Return how many GPUs of a host nobody has in Placement."""
        nodes = self.site.cloud.compute_hosts.node_uuids()
        return sum(
            not provider.usages.get(pool_checks.GPU)
            for provider in self.site.cloud.provider_tree(nodes[side.name])
            if pool_checks.GPU in provider.inventories
        )

    def _note(self, found):
        self.site.expected[found.id].was_whole = found.status == 'ACTIVE'

    def _await_deletion(self, server):
        self.site.await_true(
            f'{server} is deleted',
            lambda: self.site.server(server) is None,
            SECONDS,
        )

    def _restart(self, side):
        self.site.kill(side)
        self.site.start(side)
        self.kills += 1
        return side.name

    def _kill_at_hold(self, side, is_done):
        """Kill a nova-compute when it is held, unless it ends before."""

        def has_hit():
            faults = side.control.faults()
            return bool(faults and faults[0]['applied'])

        self.site.await_true(
            'the end or the request', lambda: has_hit() or is_done(), SECONDS
        )
        hit = has_hit()
        for one in self.site.sides:
            one.control.clear_faults()
        if hit:
            self._restart(side)
        return 'killed' if hit else MISSED

    def _point(self, labels, number=1):
        """Choose a request among those of some routes, by their labels."""
        return kill_points.Point(
            '',
            self.random.choice(labels),
            number,
            self.random.choice(('before', 'after')),
        )

    def _is_on(self, server, side):
        def is_there():
            found = self.site.server(server)
            return found.compute_host == side.name and not found.task_state

        return is_there

    def delete(self):
        """Delete a server."""
        found = self._any()
        self.site.delete(found.id)
        self._await_deletion(found.id)
        return found.id
