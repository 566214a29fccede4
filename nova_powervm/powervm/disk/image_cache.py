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
    """The images in the tier for new units; :meth:`clean` is for all tiers.

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

        Of several images, each host chooses the same, so that the others are
        deleted in time.
        """
        usable = [
            unit
            for unit, parsed in self._images(units, fingerprint)
            if parsed.is_usable
        ]
        return min(usable, key=lambda unit: unit.udid, default=None)

    def is_usable(self, unit: pvm_storage.LUEnt) -> bool:
        """Ask the host whether disks can still be made from an image.

        Ask this after making a disk. A host that deletes an image renames it,
        and then looks for disks that were made from it: so one of the two
        hosts notices the other.
        """
        current = self._pool.unit(unit.uuid)
        parsed = current and image.parse(current.name)
        return parsed is not None and parsed.is_usable

    def provide(
        self,
        described: image.Image,
        contents: image.Contents,
        source: drivers.Source,
    ) -> tuple[pvm_storage.LUEnt, bool]:
        """Return an image, and write it first unless the pool has it.

        Wait while another host writes it, unless that takes too long.

        :returns: The image, and whether this call has written it.
        :raises exception.ImageDamaged: The bytes are not correct.
        :raises exception.InsufficientSpace: There is not enough space for it.
        """
        fingerprint = described.fingerprint
        with lockutils.lock(f'powervm-image-{self._writer()}-{fingerprint}'):
            while True:
                units = self._pool.units()
                unit = self.find(fingerprint, units)
                if unit is not None:
                    return unit, False
                if not self._others(units, fingerprint):
                    self._delete_own(units, fingerprint)
                    unit = self._write(fingerprint, contents, source)
                    if unit is not None:
                        return unit, True
                LOG.info(
                    'Waiting until another host has written image %s to the '
                    'shared storage pool.',
                    described.id,
                )
                # No event tells of a change in the pool: each host's REST
                # server has its own events.
                time.sleep(random.uniform(*POLL_SECONDS))  # noqa: S311

    def delete_interrupted(self) -> None:
        """Delete the images that this host did not write completely.

        Call this only while this host writes no image.
        """
        self._delete_own(self._pool.units(of_all_tiers=True))

    def clean(self, min_age: int) -> None:
        """Delete images from which no disk is made, in all tiers.

        No host may use the tier of an image any more.

        :param min_age: Seconds for which an image must have been unused.
        """
        units = self._pool.units(of_all_tiers=True)
        for unit, parsed in self._images(units):
            with _logged(unit):
                self._clean_one(unit, parsed, units, min_age)

    def _clean_one(
        self,
        unit: pvm_storage.LUEnt,
        parsed: image.PoolImage,
        units: Iterable[pvm_storage.LUEnt],
        min_age: int,
    ) -> None:
        """Bring an image closer to its deletion, or back into use."""
        is_used = pools.has_clones(unit, units)
        age = parsed.age(self._clock())
        if parsed.state is _State.PARTIAL:
            if age > image.ABANDONED_SECONDS:
                LOG.warning(
                    'Deleting %s from the shared storage pool: its upload was '
                    'interrupted.',
                    unit.name,
                )
                self._pool.delete(unit)
        elif parsed.state is _State.RETIRED:
            if age > image.DELETING_SECONDS:
                self._delete_retired(unit, parsed)
        elif is_used:
            if parsed.state is _State.UNUSED:
                self._rename(unit, parsed, _State.READY)
        elif parsed.state is _State.READY:
            self._rename(unit, parsed, _State.UNUSED)
        elif age >= min_age:
            retired = self._rename(unit, parsed, _State.RETIRED)
            self._delete_retired(retired, parsed.to(_State.RETIRED))

    def _delete_retired(
        self, unit: pvm_storage.LUEnt, parsed: image.PoolImage
    ) -> None:
        """Delete an image, unless another host has just cloned it.

        Administrators can move clones to other tiers.
        """
        if pools.has_clones(unit, self._pool.units(of_all_tiers=True)):
            self._rename(unit, parsed, _State.READY)
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
        parsed: image.PoolImage,
        state: image.State,
    ) -> pvm_storage.LUEnt:
        name = parsed.to(state, self._clock() if state else 0)
        return self._pool.rename(unit, str(name))

    def _write(
        self,
        fingerprint: str,
        contents: image.Contents,
        source: drivers.Source,
    ) -> pvm_storage.LUEnt | None:
        """Write an image, unless another host does.

        A host that sees another host's upload after announcing its own gives
        way, even if both do: they begin again at different times.

        :returns: The image; None if another host writes it, or has done so.
        """
        now, writer = int(self._clock()), self._writer()
        name = str(image.PoolImage(fingerprint, _State.PARTIAL, now, writer))
        size_gb = _round_up(contents.disk_bytes)
        free_gb = self._pool.usage().free_gb
        storage.check_free(self._pool, free_gb, size_gb, 'the image')
        unit = self._pool.create(name, size_gb, pools.IMAGE)
        try:
            units = self._pool.units()
            others = self._others(units, fingerprint)
            if others or self.find(fingerprint, units):
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

        Keep it if it was renamed although the answer was lost: other hosts may
        use it by now.
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
            parsed = image.parse(unit.name)
            if parsed and fingerprint in (None, parsed.fingerprint):
                yield unit, parsed

    def _others(
        self, units: Iterable[pvm_storage.LUEnt], fingerprint: str
    ) -> list[pvm_storage.LUEnt]:
        """Return the images that other hosts are writing.

        Leave out those that they gave up.
        """
        now = self._clock()
        return [
            unit
            for unit, parsed in self._images(units, fingerprint)
            if parsed.state is _State.PARTIAL
            and parsed.writer != self._writer()
            and parsed.age(now) < image.lost_after(unit.capacity)
        ]

    def _delete_own(
        self,
        units: Iterable[pvm_storage.LUEnt],
        fingerprint: str | None = None,
    ) -> None:
        for unit, parsed in self._images(units, fingerprint):
            if parsed.writer == self._writer():
                LOG.warning('Removing %s: it is incomplete.', unit.name)
                with _logged(unit):
                    self._pool.delete(unit)


@contextlib.contextmanager
def _logged(unit: pvm_storage.LUEnt) -> Iterator[None]:
    """Log an error instead of raising it; the next cleaning tries again."""
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
