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

"""The root of the emulated host's state."""

import contextlib
import dataclasses
import random
import secrets
import time
import uuid as uuid_module
from collections.abc import Callable
from collections.abc import Iterator
from typing import TypeAlias
from typing import TypeVar

from powervm_emulator.core import content
from powervm_emulator.core import contents as contents_module
from powervm_emulator.core import errors
from powervm_emulator.core import events as events_module
from powervm_emulator.core import resource
from powervm_emulator.core import sessions as sessions_module
from powervm_emulator.core import site as site_module
from powervm_emulator.core import terminals as terminals_module


def do_nothing() -> None:
    """Do nothing."""


Resource = resource.Resource
R = TypeVar('R', bound=Resource)


@dataclasses.dataclass
class Behaviour:
    """What a world may choose about how its host behaves.

    :ivar rmc_after_power_on: ResourceMonitoringControlState of a partition
        that has just been activated. A guest without the RSCT packages, such
        as most cloud images, never becomes ``active``.
    :ivar guests_have_rsct: Whether a guest becomes ``active`` if it has a
        configured interface on the management switch.
    :ivar guests_configure_rmc: Whether a guest configures that interface by
        itself; otherwise its config drive must name it.
    :ivar residue: What deleted disks have left where disks of volume groups
        are made, or grow; empty for zeros.
    :ivar hmc: The version of the HMC that serves the API; empty if a NovaLink
        partition does.
    """

    rmc_after_power_on: str = 'inactive'
    guests_have_rsct: bool = False
    guests_configure_rmc: bool = False
    residue: str = ''
    hmc: str = ''


class Host:
    """Every resource behind one REST server.

    Reads hold ``condition``, changes hold :meth:`changing`.

    :param username: of the one user who can log on with a password.
    :param password: of that user.
    :param seed: of every value that hardware would choose at random, but
        for session tokens.
    :param clock: gives the time in seconds.
    :param site: whose hosts share pools with this one; None for a site of
        its own.
    :ivar settled: called at the end of each change, which it holds.
    :ivar is_off: whether it has no power, so that clients get no answer.
    :ivar pools: the storage pools that it shares, by uuid, each with the
        uuids of this host's Virtual I/O Servers that are nodes.
    """

    def __init__(
        self,
        username: str = 'admin',
        password: str = 'abc123',  # noqa: S107 - a test credential
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        site: 'Site | None' = None,
    ) -> None:
        self.site: Site = site or site_module.Site(seed)
        self.condition = self.site.condition
        self.clock = clock
        self._seed = seed
        # Not cryptography: equal seeds must give equal worlds.
        self.random = random.Random(seed)  # noqa: S311
        self.behaviour = Behaviour()
        self.contents = contents_module.Contents()
        self.events = events_module.Events(self.condition, clock)
        self.terminals = terminals_module.Terminals()
        self.sessions = sessions_module.Sessions(
            username, password, _new_token
        )
        self._resources: site_module.Table = {}
        self.pools: dict[str, list[str]] = {}
        self.settled: Callable[[], None] = do_nothing
        self.is_off = False
        self._silent = False
        with self.site.changes:
            self.site.hosts.append(self)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the host for a change, which begins after all earlier ones.

        Whoever only reads holds ``condition``.
        """
        # Always in this order; the reverse would be a deadlock.
        with self.site.changes, self.condition:
            yield
            self.settled()

    @contextlib.contextmanager
    def drafting(self) -> Iterator[None]:
        """Let others read the host while a change is prepared or answered.

        Only for code that holds the host by :meth:`changing` and leaves what
        others can see as it is.
        """
        self.condition.release()
        try:
            yield
        finally:
            self.condition.acquire()

    def add(
        self, resource: Resource, quiet: bool = False, detail: str = ''
    ) -> None:
        """Make a resource part of the host and announce it.

        :param quiet: no event; for resources of a world being loaded.
        :param detail: what the event says of it.
        :raises errors.Refused: the host has one of this kind and uuid.
        """
        kind = self._table(resource).setdefault(resource.kind, {})
        if resource.uuid.upper() in kind:
            raise errors.Refused(
                f'{resource.kind} {resource.uuid} is there more than once'
            )
        kind[resource.uuid.upper()] = resource
        if not self._silent:
            # A client's: only captures have an id of their own.
            content.remove(resource.element, ['Metadata'])
        created = int(self.clock() * 1000)
        content.identify(resource.element, resource.uuid, created)
        self.stamp(resource)
        if not quiet:
            self._emit('ADD_URI', resource, detail)

    def touch(self, resource: Resource, detail: str = 'Other') -> None:
        """Give a changed resource a new revision and announce the change."""
        self.stamp(resource)
        self._emit('MODIFY_URI', resource, detail)

    def stamp(self, resource: Resource) -> None:
        """Give a resource a new revision, but do not announce it."""
        resource.revision = self.site.next_revision()

    def remove(self, resource: Resource) -> None:
        """Take a resource out of the host and announce it."""
        del self._table(resource)[resource.kind][resource.uuid.upper()]
        self._emit('DELETE_URI', resource)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Empty the host for a new world; put the old one back if it fails.

        There are no events meanwhile. Random choices start anew, so that a
        world always gets the same uuids. Pools that another host shares stay
        as they are.
        """
        old = self._resources, self.behaviour, self.pools
        chosen = self.random.getstate()
        self._resources, self.behaviour, self.pools = {}, Behaviour(), {}
        shared = self.site.drop_unshared()
        self.random.seed(self._seed)
        self._silent = True
        try:
            yield
        except BaseException:
            self._resources, self.behaviour, self.pools = old
            self.site.shared = shared
            self.random.setstate(chosen)
            raise
        finally:
            self._silent = False
        self.terminals.close_all()
        self.site.drop_contents(shared)

    def find(self, kind: str, uuid: str) -> Resource | None:
        """Return the resource with a kind and uuid (in any case), or None."""
        uuid = uuid.upper()
        found = self._resources.get(kind, {}).get(uuid)
        if found is None:
            found = self.site.shared.get(kind, {}).get(uuid)
        return found if found is not None and self._sees(found) else None

    def get(self, kind: str, uuid: str) -> Resource:
        """Return the resource with a kind and uuid.

        :raises errors.NotFound: there is none.
        """
        found = self.find(kind, uuid)
        if found is None:
            raise errors.NotFound(f'There is no {kind} with the uuid {uuid}.')
        return found

    def get_child(self, parent: Resource, kind: str, uuid: str) -> Resource:
        """Return a child of a resource.

        :raises errors.NotFound: it is not there or is another's child.
        """
        found = self.get(kind, uuid)
        if found.parent is not parent:
            raise errors.NotFound(
                f'{parent.kind} {parent.uuid} has no {kind} with the uuid '
                f'{uuid}.'
            )
        return found

    def all(
        self, kind: str, parent: Resource | None = None
    ) -> Iterator[Resource]:
        """Yield the resources of a kind, of one parent if it is given."""
        own = self._resources.get(kind, {}).values()
        shared = self.site.shared.get(kind, {}).values()
        for found in (*own, *filter(self._sees, shared)):
            if parent is None or found.parent is parent:
                yield found

    def of_type(
        self, type_: type[R], parent: Resource | None = None
    ) -> Iterator[R]:
        """Yield the resources of a class, of one parent if it is given."""
        for kind in {**self._resources, **self.site.shared}:
            for found in self.all(kind, parent):
                if isinstance(found, type_):
                    yield found

    def check_unused(self, resource: Resource, name: str) -> None:
        """Refuse to delete what another resource uses.

        :param name: of the resource, for the message.
        :raises errors.Refused: one does.
        """
        for other in self.of_type(Resource):
            use = other.use_of(resource)
            if use:
                raise errors.Refused(f'{name} {use}.')

    def new_uuid(self) -> str:
        """Return a fresh uuid in lower case with its top bit clear.

        K2 refuses partitions whose uuid has that bit set.
        """
        bits = self.random.getrandbits(128) & ~(1 << 127)
        return str(uuid_module.UUID(int=bits, version=4))

    def _emit(self, type_: str, resource: Resource, detail: str = '') -> None:
        if not resource.announced or self._silent:
            return
        for host in self._sharers(resource):
            host.events.emit(type_, resource.event_path, detail)

    def _table(self, resource: Resource) -> site_module.Table:
        return self.site.shared if resource.pool_uuid else self._resources

    def _sees(self, resource: Resource) -> bool:
        return not resource.pool_uuid or resource.pool_uuid in self.pools

    def _sharers(self, resource: Resource) -> list['Host']:
        pool = resource.pool_uuid
        return self.site.sharers(pool) if pool else [self]


#: A site of such hosts.
Site: TypeAlias = site_module.Site[Host]


def _new_token() -> str:
    # Not of the seed: a client's token must not be good for another host,
    # nor for this one when it has been started again.
    return secrets.token_hex(64)
