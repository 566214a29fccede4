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


"""Placement and Nova's cache of it, as small models for state machines.

A cache that is not refreshed, changes that are sent only where they differ
from the cache, generations, a process that is killed between any two writes.
"""

import dataclasses

from hypothesis import stateful

from nova_powervm.domain import existing

#: More writes than an update has.
NEVER = 99


class KilledError(Exception):
    """The process is gone."""


class ConflictError(Exception):
    """The generation was not the current one."""


@dataclasses.dataclass
class Row:
    """A provider of Placement."""

    uuid: str
    name: str
    inventory: dict = dataclasses.field(default_factory=dict)
    traits: frozenset = frozenset()
    generation: int = 0


class Machine(stateful.RuleBasedStateMachine):
    """A nova-compute, and the providers below its node.

    A subclass has ``row_type``, a :class:`Row`.
    """

    row_type = Row

    def __init__(self):
        super().__init__()
        self.rows = {}
        self.cache = {}
        self.count = 0
        self.writes_left = NEVER

    def write(self):
        """Count a write; the process is killed before the last one."""
        if self.writes_left == 0:
            raise KilledError
        self.writes_left -= 1

    def cached(self):
        """Give the providers as the driver finds them."""
        return [
            existing.Provider(r.uuid, r.name, r.inventory, r.traits)
            for r in self.cache.values()
        ]

    def read(self, uuids=None):
        """Copy providers of Placement into Nova's cache; all by default."""
        for uuid in {*self.rows, *self.cache} if uuids is None else [*uuids]:
            self.cache.pop(uuid, None)
            if uuid in self.rows:
                self.cache[uuid] = dataclasses.replace(self.rows[uuid])

    def create(self, uuid, name):
        """Make a provider, whose name nobody else may have."""
        self.write()
        if any(row.name == name for row in self.rows.values()):
            raise ConflictError
        self.rows[uuid] = self.row_type(uuid, name)
        self.read([uuid])

    def remove(self, uuid, held):
        """Delete a provider, if nobody holds it."""
        self.write()
        if uuid in self.rows and held(self.rows[uuid]):
            raise ConflictError
        self.rows.pop(uuid, None)
        self.cache.pop(uuid, None)

    def send(self, uuid, field, value):
        """Send what differs from the cache, as Nova's report client does."""
        if getattr(self.cache[uuid], field) == value:
            return
        self.write()
        row = self.rows.get(uuid)
        if row is None or row.generation != self.cache[uuid].generation:
            raise ConflictError
        setattr(row, field, value)
        row.generation += 1
        self.read([uuid])
