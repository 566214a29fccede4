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

"""What the hosts of a site have in common."""

import threading
from typing import Generic
from typing import Protocol
from typing import TypeVar

from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import resource
from powervm_emulator.core import san

Resource = resource.Resource
Table = dict[str, dict[str, Resource]]


class Sharer(Protocol):
    """A host, as far as a site has to know it.

    :ivar pools: the storage pools that it shares, by uuid.
    """

    pools: dict[str, list[str]]


H = TypeVar('H', bound=Sharer)


class Site(Generic[H]):
    """One or more hosts with the storage pools that they share.

    All of them have one pair of locks, so that whoever holds one host holds
    every other one, too.

    :param seed: of the random choices of pools. They are the same whichever
        host loads its world first.
    :ivar shared: the resources of pools, by kind and uuid in upper case.
    :ivar contents: of logical units, by the uuid of the pool and UDID.
    :ivar san: the arrays that its hosts can reach.
    :ivar revision: the latest one of any resource.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.condition = threading.Condition(threading.RLock())
        self.changes = threading.RLock()
        self.hosts: list[H] = []
        self.shared: Table = {}
        self.contents = contents_module.Contents()
        self.san = san.San()
        self.revision = 0

    def next_revision(self) -> int:
        """Return a revision that no resource of any host has had."""
        self.revision += 1
        return self.revision

    def sharers(self, pool: str) -> list[H]:
        """Return the hosts that share a pool, by the uuid of the pool."""
        return [host for host in self.hosts if pool in host.pools]

    def drop_unshared(self) -> Table:
        """Forget the pools that no host shares any more.

        :returns: the former value of :attr:`shared`, which is unchanged.
        """
        before = self.shared
        self.shared = {
            kind: {
                uuid: found
                for uuid, found in table.items()
                if self.sharers(found.pool_uuid)
            }
            for kind, table in before.items()
        }
        return before

    def drop_contents(self, before: Table) -> None:
        """Delete the contents of pools that have been replaced or forgotten.

        :param before: the resources of which some may be gone.
        """
        for kind, table in before.items():
            for uuid, found in table.items():
                if self.shared.get(kind, {}).get(uuid) is not found:
                    self.contents.drop_server(found.pool_uuid)

    def leave(self, host: H) -> None:
        """Let a host go; the last one deletes what is on disk."""
        if host in self.hosts:
            self.hosts.remove(host)
        if not self.hosts:
            self.contents.close()
