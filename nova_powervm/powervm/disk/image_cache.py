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

"""The images in a shared storage pool, from which disks are cloned.

Each tier has images of its own: a clone is in the tier of its image.

Several hosts use the cache at the same time and know of each other only what
the names of the images tell; see :mod:`nova_powervm.lpar.image`.
"""

import contextlib
import random
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from oslo_concurrency import lockutils
from oslo_log import log as logging
from pypowervm.wrappers import storage as pvm_storage

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import drivers
from nova_powervm.powervm.disk import pools
from nova_powervm.powervm.disk import uploads

LOG = logging.getLogger(__name__)

_State = image.State

#: Seconds between two looks at another host's upload, at random.
POLL_SECONDS = (1.0, 3.0)
_HUNDREDTHS = 100


class ImageCache:
    """The images of the tier for new units; :meth:`clean` is for all tiers.

    :param pool: The pool.
    :param sender: Sends the bytes of images.
    :param writer: Eight hexadecimal digits that only this host has.
    :param clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        pool: pools.StoragePool,
        sender: uploads.Uploads,
        writer: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pool = pool
        self._uploads = sender
        self._writer = writer
        self._clock = clock

    def find(
        self, fingerprint: str, units: Iterable[pvm_storage.LUEnt]
    ) -> pvm_storage.LUEnt | None:
        """Return an image from which disks can be made, among units.

        If there are several, each host chooses the same one, so that the
        others are deleted in time.
        """
        usable = [
            unit
            for unit, known in self._images(units, fingerprint)
            if known.is_usable
        ]
        return min(usable, key=lambda unit: unit.udid, default=None)

    def is_usable(self, found: pvm_storage.LUEnt) -> bool:
        """Ask whether disks can still be made from an image.

        Ask this after making one. A host that deletes an image renames it,
        and then looks for disks that were made from it: so one of the two
        hosts notices the other.
        """
        unit = self._pool.unit(found.uuid)
        known = unit and image.parse(unit.name)
        return known is not None and known.is_usable

    def provide(
        self,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> tuple[pvm_storage.LUEnt, bool]:
        """Return an image, and write it first unless it is there.

        Wait while another host writes it, unless that takes too long.

        :returns: The image, and whether this call has written it.
        :raises exception.ImageDamaged: Its bytes are not correct.
        :raises exception.InsufficientSpace: There is not enough space for it.
        """
        fingerprint = described.fingerprint
        with lockutils.lock(f'powervm-image-{self._writer()}-{fingerprint}'):
            while True:
                units = self._pool.units()
                found = self.find(fingerprint, units)
                if found is not None:
                    return found, False
                if not self._others(units, fingerprint):
                    self._delete_own(units, fingerprint)
                    made = self._write(fingerprint, contents, source)
                    if made is not None:
                        return made, True
                LOG.info(
                    'Waiting until another host has written image %s to the '
                    'shared storage pool.',
                    described.id,
                )
                # Nothing tells of a change in the pool: events are those of
                # each host's REST server.
                time.sleep(random.uniform(*POLL_SECONDS))  # noqa: S311

    def delete_interrupted(self) -> None:
        """Delete the images that this host did not write completely.

        Call this while it does not write any.
        """
        self._delete_own(self._pool.units(of_all_tiers=True))

    def clean(self, min_age: int) -> None:
        """Delete images from which no disk is made, in all tiers.

        No host may use the tier of an image any more.

        :param min_age: Seconds for which an image must have been found
            unused.
        """
        units = self._pool.units(of_all_tiers=True)
        for unit, known in self._images(units):
            with _logged(unit):
                self._clean_one(unit, known, units, min_age)

    def _clean_one(
        self,
        unit: pvm_storage.LUEnt,
        known: image.PoolImage,
        units: Iterable[pvm_storage.LUEnt],
        min_age: int,
    ) -> None:
        """Bring an image closer to its deletion, or back into use."""
        is_used = pools.has_clones(unit, units)
        age = known.age(self._clock())
        if known.state is _State.PARTIAL:
            if age > image.ABANDONED_SECONDS:
                LOG.warning(
                    'Deleting %s from the shared storage pool: its upload was '
                    'interrupted.',
                    unit.name,
                )
                self._pool.delete(unit)
        elif known.state is _State.RETIRED:
            if age > image.DELETING_SECONDS:
                self._delete_retired(unit, known)
        elif is_used:
            if known.state is _State.UNUSED:
                self._rename(unit, known, _State.READY)
        elif known.state is _State.READY:
            self._rename(unit, known, _State.UNUSED)
        elif age >= min_age:
            retired = self._rename(unit, known, _State.RETIRED)
            self._delete_retired(retired, known.to(_State.RETIRED))

    def _delete_retired(
        self, unit: pvm_storage.LUEnt, known: image.PoolImage
    ) -> None:
        """Delete an image, unless another host has just cloned it.

        Administrators can move clones to other tiers.
        """
        if pools.has_clones(unit, self._pool.units(of_all_tiers=True)):
            self._rename(unit, known, _State.READY)
            return
        LOG.info(
            'Deleting %s from the shared storage pool: no disk is made from '
            'this image.',
            unit.name,
        )
        self._pool.delete(unit, etag=unit.etag)

    def _rename(
        self,
        unit: pvm_storage.LUEnt,
        known: image.PoolImage,
        state: image.State,
    ) -> pvm_storage.LUEnt:
        name = known.to(state, self._clock() if state else 0)
        return self._pool.rename(unit, str(name))

    def _write(
        self,
        fingerprint: str,
        contents: image.Contents,
        source: drivers.Source,
    ) -> pvm_storage.LUEnt | None:
        """Write an image, unless another host does.

        Whoever sees another host's upload after announcing its own gives way,
        even if both do: they begin again at different times.

        :returns: The image; None if another host writes it, or has done so.
        """
        name = str(
            image.PoolImage(
                fingerprint,
                _State.PARTIAL,
                int(self._clock()),
                self._writer(),
            )
        )
        size_gb = _round_up(contents.disk_bytes)
        storage.check_free(
            self._pool, self._pool.usage().free_gb, size_gb, 'the image'
        )
        unit = self._pool.create(name, size_gb, pools.IMAGE)
        try:
            units = self._pool.units()
            if self.find(fingerprint, units) or self._others(
                units, fingerprint
            ):
                self._discard(unit)
                return None
            self._send(unit, contents, source)
            ready = image.PoolImage(fingerprint)
            return self._pool.rename(unit, str(ready))
        except BaseException as error:
            LOG.warning('Removing %s: %s', name, error)
            self._discard(unit)
            raise

    def _send(
        self,
        unit: pvm_storage.LUEnt,
        contents: image.Contents,
        source: drivers.Source,
    ) -> None:
        upload = uploads.Upload(
            vios=self._pool.main_server,
            name=unit.name,
            kind=uploads.DISK,
            size=contents.size,
            disk=unit.udid,
        )
        with contextlib.closing(source()) as chunks:
            self._uploads.send(upload, chunks)

    def _discard(self, unit: pvm_storage.LUEnt) -> None:
        """Delete an image that was not written; only log a failure.

        Keep one that was renamed although the answer was lost: other hosts
        may use it by now.
        """
        with _logged(unit):
            current = self._pool.unit(unit.uuid)
            if current is not None and current.name == unit.name:
                self._pool.delete(current, etag=current.etag)

    def _images(
        self,
        units: Iterable[pvm_storage.LUEnt],
        fingerprint: str | None = None,
    ) -> Iterator[tuple[pvm_storage.LUEnt, image.PoolImage]]:
        for unit in units:
            known = image.parse(unit.name)
            if known and fingerprint in (None, known.fingerprint):
                yield unit, known

    def _others(
        self, units: Iterable[pvm_storage.LUEnt], fingerprint: str
    ) -> list[pvm_storage.LUEnt]:
        """Return what other hosts are writing, without what they gave up."""
        now = self._clock()
        return [
            unit
            for unit, known in self._images(units, fingerprint)
            if known.state is _State.PARTIAL
            and known.writer != self._writer()
            and known.age(now) < image.lost_after(unit.capacity)
        ]

    def _delete_own(
        self,
        units: Iterable[pvm_storage.LUEnt],
        fingerprint: str | None = None,
    ) -> None:
        for unit, known in self._images(units, fingerprint):
            if known.writer == self._writer():
                LOG.warning('Removing %s: it is incomplete.', unit.name)
                with _logged(unit):
                    self._pool.delete(unit)


@contextlib.contextmanager
def _logged(unit: pvm_storage.LUEnt) -> Iterator[None]:
    """Log an error instead of raising it; a later cleaning tries again."""
    try:
        yield
    except exception.PowerVMError as error:
        LOG.warning(
            'Logical unit %(name)s stays as it is: %(error)s',
            {'name': unit.name, 'error': error},
        )


def _round_up(size: int) -> float:
    """Return a size in GiB, rounded up to hundredths."""
    return -(-size * _HUNDREDTHS // storage.GIB) / _HUNDREDTHS
