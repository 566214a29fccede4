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

"""The disks of hosts in memory, in one pool or on each host."""

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.lpar import storage
from tests.property.simulation import placement

_IDENTITY = 'cluster/pool'


class Store:
    """Where disks are: a shared pool, or the storage of one host.

    :param is_shared: Whether it is a pool.
    """

    def __init__(self, *, is_shared=False):
        self.is_shared = is_shared
        # LPAR uuid and role to size in GiB.
        self.sizes = {}
        # Contents of images by their id.
        self.cache = {}
        self.hosts = []

    def join(self, machine):
        """Let a host have its disks here."""
        machine.store = self
        self.hosts.append(machine)

    def of(self, lpar_uuid):
        """Return the disks of an LPAR, role to size."""
        return {
            role: size
            for (owner, role), size in self.sizes.items()
            if owner == lpar_uuid
        }

    def users(self, key):
        """Return the hosts whose LPAR has a disk connected."""
        lpar, _ = key
        return [
            machine
            for machine in self.hosts
            if key in machine.mapped.get(lpar, ())
        ]

    def is_running(self, key):
        """Return whether a running LPAR uses a disk."""
        lpar, _ = key
        return any(
            lpar in machine.lpars and machine.lpars[lpar].state == 'running'
            for machine in self.users(key)
        )

    def delete(self, key):
        """Delete a disk that no LPAR has connected."""
        if not self.users(key):
            self.sizes.pop(key, None)


class DiskServer:
    """The disk driver of one nova-compute; a part of its REST server."""

    image_formats = ('raw',)
    unavailable = None

    @property
    def _store(self):
        return self._host.store

    @property
    def pool(self):
        return Pool(self) if self._store.is_shared else None

    def capacity(self):
        return self._ask(lambda: host_values.DiskCapacity(1000, 0, 0))

    def unmap_deleted(self, lpar_uuids=None):
        self._process.step()

    forget_uploads = unmap_deleted

    def end_read(self, lpar_uuid):
        """Return False: nothing is read."""
        return False

    def check(self, *, config_drive):
        pass

    def check_room(self, lpar_uuid, disks, medium_bytes, *, beside=False):
        self._process.step()

    def make_root(self, lpar_uuid, disk, described, contents, source):
        return self._make(lpar_uuid, disk)

    def make_blank(self, lpar_uuid, disk):
        return self._make(lpar_uuid, disk)

    def _make(self, lpar_uuid, disk):
        key = lpar_uuid, disk.role

        def work():
            if self._store.users(key):
                raise exception.RestError(
                    action='request', reason='another host has the disk'
                )
            self._store.sizes[key] = disk.size_gb

        self._ask(work)
        return self._stored(key)

    def _stored(self, key):
        name = (
            storage.unit_name if self._store.is_shared else (storage.disk_name)
        )
        return storage.Stored(name(*key), key)

    def attach(self, lpar_uuid, stored):
        keys = {each.handle for each in stored}
        self._ask(
            lambda: self._host.mapped.setdefault(lpar_uuid, set()).update(keys)
        )

    def has_rescue(self, lpar_uuid):
        return self._ask(
            lambda: (lpar_uuid, storage.RESCUE) in self._store.sizes
        )

    def check_reconnect(self, lpar_uuid):
        self._process.step()

    def reconnect(self, lpar_uuid, *, rescued):
        def work():
            if self._host.lpars[lpar_uuid].state != 'not activated':
                raise placement.Wrong(f'{lpar_uuid} runs, and loses its disks')
            self._host.mapped[lpar_uuid] = {
                (lpar_uuid, role)
                for role in self._store.of(lpar_uuid)
                if rescued or role != storage.RESCUE
            }

        self._ask(work)

    def delete_rescue(self, lpar_uuid):
        self._ask(lambda: self._store.delete((lpar_uuid, storage.RESCUE)))

    def check_growth(self, lpar_uuid, size_gb):
        self._ask(lambda: self._root(lpar_uuid))

    def grow_root(self, lpar_uuid, size_gb):
        def work():
            key = self._root(lpar_uuid)
            is_smaller = self._store.sizes[key] < size_gb
            if is_smaller:
                self._store.sizes[key] = size_gb
            return is_smaller

        return self._ask(work)

    def _root(self, lpar_uuid):
        for key in self._store.sizes:
            if key[0] == lpar_uuid and storage.is_root(key[1]):
                return key
        raise exception.DiskMissing(
            owner=lpar_uuid, what='root', place='storage'
        )

    def swap_fits(self, lpar_uuid, swap):
        def work():
            key = lpar_uuid, storage.SWAP
            size = self._store.sizes.get(key)
            mapped = key in self._host.mapped.get(lpar_uuid, ())
            return (size, mapped) == (swap and swap.size_gb, bool(swap))

        return self._ask(work)

    def attached(self, lpar_uuid, *, by_all_paths=False):
        return self._ask(
            lambda: {
                self._stored(key).name
                for key in self._host.mapped.get(lpar_uuid, ())
            }
        )

    def fit_swap(self, lpar_uuid, swap):
        self._ask(lambda: self._fit_swap(lpar_uuid, swap))

    def _fit_swap(self, lpar_uuid, swap):
        key = lpar_uuid, storage.SWAP
        mapped = self._host.mapped.setdefault(lpar_uuid, set())
        if self._host.lpars[lpar_uuid].state != 'not activated':
            raise placement.Wrong(
                f'{lpar_uuid} runs, and its swap disk changes'
            )
        if self._store.sizes.get(key) != (swap and swap.size_gb):
            if self._store.users(key) not in ([], [self._host]):
                raise exception.RestError(
                    action='request', reason='another host has the disk'
                )
            mapped.discard(key)
            self._store.delete(key)
        if swap:
            self._store.sizes[key] = swap.size_gb
            mapped.add(key)

    def stems(self):
        if self._store.is_shared:
            return set()
        return {storage.stem(lpar) for lpar, _ in self._store.sizes}

    def remove_stems(self, stems):
        def work():
            for key in [*self._store.sizes]:
                if storage.stem(key[0]) in stems:
                    self._store.delete(key)

        self._ask(work)

    def remove(self, lpar_uuid, *, delete=True):
        def work():
            self._host.mapped.pop(lpar_uuid, None)
            for role in self._store.of(lpar_uuid) if delete else ():
                self._store.delete((lpar_uuid, role))

        self._ask(work)


class Pool:
    """The shared pool, as one nova-compute uses it.

    :param server: Its disk driver.
    """

    def __init__(self, server):
        self._server = server

    def identity(self):
        return _IDENTITY

    def disks(self, lpar_uuid=None):
        return self._server._ask(lambda: self._disks(lpar_uuid))

    def _disks(self, lpar_uuid):
        store = self._server._store
        return [
            storage.PoolDisk(
                lpar_uuid=key[0],
                disk=storage.Disk(key[1], size),
                in_use=store.is_running(key),
                stored=self._server._stored(key),
            )
            for key, size in store.sizes.items()
            if lpar_uuid in (None, key[0])
        ]

    def delete(self, disks):
        def work():
            for known in disks:
                self._server._store.delete((known.lpar_uuid, known.disk.role))

        self._server._ask(work)

    def delete_interrupted(self):
        self._server._process.step()

    def cached_image(self, described):
        return self._server._ask(
            lambda: self._server._store.cache.get(described.id)
        )

    def cache_image(self, described, contents, source):
        def work():
            is_new = described.id not in self._server._store.cache
            self._server._store.cache[described.id] = contents
            return is_new

        return self._server._ask(work)
