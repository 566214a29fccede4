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

"""Making and removing an instance: its LPAR, disks and adapters."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging
from oslo_utils import timeutils

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import host
from nova_powervm.devices import slots
from nova_powervm.instance import image
from nova_powervm.instance import lpar_state
from nova_powervm.instance import network
from nova_powervm.instance import partition
from nova_powervm.instance import storage
from nova_powervm.ops import claims as claim_ops
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import images as image_ops
from nova_powervm.ops import interfaces
from nova_powervm.ops import network as network_ops

LOG = logging.getLogger(__name__)

#: How long a host that gave no answer may still be making what it was asked
#: for.
LATE_SECONDS = 600


@dataclasses.dataclass(frozen=True, slots=True)
class Root:
    """The root disk of an instance, made of an image.

    :param image: The image as Glance describes it.
    :param source: Gives its bytes.
    :param flavor_gb: The flavor's ``root_gb``; 0 for the image's own size.
    :param inspect: Whether the image's format must be the declared one.
    """

    image: image.Image
    source: interfaces.Source
    flavor_gb: int
    inspect: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """What is to be made of an instance.

    :param instance: The instance's uuid.
    :param name: Its name (``instance.name``, not the display name).
    :param memory_mb: Memory of its flavor in MiB.
    :param vcpus: vCPUs of its flavor.
    :param extra_specs: Extra specs of its flavor.
    :param allocations: As Nova hands them over.
    :param remembered: Slot providers that Nova stored with the instance.
    :param root: Its root disk.
    :param requests: Its accelerator requests.
    :param ports: Its ports.
    :param marks: The marks of VIF drivers in its record.
    :param config_drive: Makes the contents of its config drive, given the
        slots that it gets; None for no config drive.
    :param plugging: What the ports are plugged in; it may wait at its end.
    :param power_on: Whether it is started.
    """

    instance: str
    name: str
    memory_mb: int
    vcpus: int
    extra_specs: Mapping[str, str]
    allocations: Mapping[str, Mapping[str, Any]] | None
    remembered: Mapping[str, claims.SlotProvider]
    root: Root
    requests: Sequence[accelerators.Request] = ()
    ports: Sequence[network.Port] = ()
    marks: network_ops.InstanceMarks = network_ops.UNRECORDED
    config_drive: Callable[[Sequence[slots.Slot]], bytes] | None = None
    plugging: Callable[[], contextlib.AbstractContextManager[None]] = (
        contextlib.nullcontext
    )
    power_on: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """A build of which all was checked but its image."""

    spec: partition.PartitionSpec
    claimed: Sequence[claims.Claim]
    connections: Sequence[network.Connection]
    # It has the administrator's password.
    iso: bytes | None = dataclasses.field(repr=False)


class LifecycleOps:
    """Makes an LPAR with exactly the allocated slots, and removes it.

    :param partitions: The host's LPARs.
    :param host: Reads the host.
    :param slot_claims: Finds the slots of instances.
    :param images: Reads images.
    :param disks: Where disks are made.
    :param networks: Connects ports.
    :param proc_units_factor: Processing units per virtual processor.
    :param clock: Gives seconds that never go back.
    """

    def __init__(
        self,
        partitions: interfaces.Partitions,
        host: host_ops.HostOps,
        slot_claims: claim_ops.ClaimOps,
        images: image_ops.ImageOps,
        disks: interfaces.Disks,
        networks: network_ops.NetworkOps,
        proc_units_factor: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._host = host
        self._claims = slot_claims
        self._images = images
        self._disks = disks
        self._networks = networks
        self._factor = proc_units_factor
        self._clock = clock
        # LPARs that may be there although their builds failed, until when
        # those that are not may still appear, and who keeps a build from
        # being taken for one of them.
        self._untidy: dict[str, float] = {}
        self._tidying = threading.Lock()

    def spawn(self, build: Build) -> None:
        """Make and start the LPAR of an instance, with disk and ports.

        Nothing is made before all that can be checked was checked. Then the
        disk is made, which most builds fail of that fail. Devices for one
        use are burned last, just before the LPAR gets them. Whatever fails,
        all that was made is removed again.

        :raises exception.ClaimFailed: The devices are not there.
        :raises exception.MemorySizeRefused: The memory size can't be given.
        :raises exception.ProcessorsRefused: The processors can't be given.
        :raises exception.ImageRefused: The image is not fit for a disk.
        :raises exception.ImageDamaged: It is not what Glance says.
        :raises exception.PortRefused: A port can't be connected.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        plan = self._plan(build)
        self._is_tidy(plan.spec.uuid)
        with contextlib.closing(self._open(build.root)) as reading:
            root_gb = _root_gb(build.root, reading.contents)
            self._clear(plan.spec)
            try:
                stored = self._store(build, plan, root_gb, reading)
                self._burn(build, plan)
                self._run(build, plan, stored)
            except BaseException as error:
                self._clean_up(build, plan.spec, error)
                raise

    def _run(
        self, build: Build, plan: _Plan, stored: Sequence[interfaces.Stored]
    ) -> None:
        """Make the LPAR, connect it, and start it."""
        lpar = self._create(plan.spec)
        _check_slots(lpar, plan.spec)
        LOG.info(
            'LPAR %(name)s (%(uuid)s) is created, with the slots: %(slots)s.',
            {
                'name': lpar.name,
                'uuid': lpar.uuid,
                'slots': _indexes(lpar.slots) or 'none',
            },
            instance_uuid=build.instance,
        )
        with build.plugging():
            self._networks.plug(lpar, plan.connections, build.marks)
            self._disks.attach(lpar.uuid, stored)
            LOG.info(
                'LPAR %s has its disks.',
                lpar.name,
                instance_uuid=build.instance,
            )
        if build.power_on:
            self._partitions.power_on(lpar)
            LOG.info(
                'LPAR %s is started.',
                lpar.name,
                instance_uuid=build.instance,
            )

    def destroy(self, instance: str, *, delete_disks: bool = True) -> None:
        """Stop and delete the LPAR of an instance and its disks.

        Its slots become free with it. What is gone already is fine.

        :param instance: The instance's uuid.
        :param delete_disks: False to leave its disks where they are.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        uuid = partition.lpar_uuid(instance)
        lpar = self._partitions.find(uuid)
        if lpar is None:
            LOG.info('Instance %s has no LPAR to delete.', instance)
        self._remove(uuid, lpar, delete_disks=delete_disks)
        self._is_tidy(uuid)

    def tidy(self, instances: Callable[[], Iterable[str]]) -> None:
        """Remove what failed builds have left because the host was silent.

        Nova may have built the instance on another host since. What an
        instance of this host has by now is its own: the user may start it,
        builds it again or deletes it.

        :param instances: Gives the uuids of all instances of this host.
        """
        with self._tidying:
            if not self._untidy:
                return
            ours = {partition.lpar_uuid(uuid) for uuid in instances()}
            for uuid in sorted(self._untidy):
                try:
                    done = self._tidy(uuid, is_ours=uuid in ours)
                except exception.PowerVMError as error:
                    LOG.warning(
                        'What the failed build of LPAR %(uuid)s has left is '
                        'still there: %(error)s',
                        {'uuid': uuid, 'error': error},
                    )
                    return
                if done:
                    del self._untidy[uuid]

    def _tidy(self, uuid: str, *, is_ours: bool) -> bool:
        """Remove what a failed build has left.

        :param is_ours: Whether an instance of this host has the LPAR. Nova
            takes it from the host a moment after its build failed.
        :returns: Whether nothing has to be removed any more.
        """
        lpar = self._partitions.find(uuid)
        if is_ours:
            return bool(
                lpar
                and lpar_state.power(lpar.state) is not lpar_state.Power.OFF
            )
        self._remove(uuid, lpar)
        return lpar is not None or self._clock() >= self._untidy[uuid]

    def remove_orphans(self, instances: Callable[[], Iterable[str]]) -> None:
        """Remove disks of which neither an LPAR nor an instance is here.

        A service that was killed while it built has left them, and Nova has
        built or deleted the instance elsewhere since. Call it only while no
        build is under way.

        :param instances: Gives the uuids of all instances of this host.
        :raises exception.PowerVMError: The host refused or did not answer.
        """
        stems = set(self._disks.stems())
        if not stems:
            return
        lpars = {partition.lpar_uuid(uuid) for uuid in instances()}
        stems -= set(map(storage.stem, lpars.union(self._partitions.names())))
        if stems:
            LOG.warning(
                'Removing the disks %(stems)s: they were left by builds, and '
                'no instance of this host has them.',
                {'stems': ', '.join(f'{stem}*' for stem in sorted(stems))},
            )
            self._disks.remove_stems(stems)

    def _is_tidy(self, uuid: str) -> None:
        """Note that nothing of an LPAR has to be removed any more."""
        with self._tidying:
            self._untidy.pop(uuid, None)

    def check(self, build: Build) -> None:
        """Check what a build needs; what the instance has by now stays.

        For an instance that is to be destroyed and built anew: all that
        :meth:`spawn` checks, whether there is room for its disks, and the
        whole image. Its devices for one use are burned if somebody released
        them: it has them.

        :raises exception.NoRoom: There is no space for its disks.
        :raises exception.PowerVMError: See :meth:`spawn`.
        """
        plan = self._plan(build)
        root = build.root
        contents = self._images.verify(
            root.image, root.source, inspect=root.inspect
        )
        self._disks.check_room(
            plan.spec.uuid,
            _root_gb(root, contents),
            None if plan.iso is None else len(plan.iso),
        )
        self._burn(build, plan)

    def claim(self, build: Build) -> tuple[claims.Claim, ...]:
        """Find the slots of an instance; nothing is made or changed.

        :raises exception.ClaimFailed: They don't cover what was asked for.
        """
        return self._claims.claim(
            build.instance,
            build.allocations,
            build.extra_specs,
            build.remembered,
            build.requests,
        )

    def _plan(self, build: Build) -> _Plan:
        """Check what can be checked, cheap things first.

        The image is left: it is opened last, and kept open.
        """
        build.root.image.check()
        self._disks.check(config_drive=build.config_drive is not None)
        self._networks.check(build.ports)
        claimed = self.claim(build)
        # The host's sizes never change; its slots do.
        view = self._host.view() if claimed else self._host.last.view
        spec = self._specify(build, claimed, view)
        connections = self._networks.connect(build.ports)
        return _Plan(
            spec=spec,
            claimed=claimed,
            connections=connections,
            iso=build.config_drive
            and build.config_drive(_slots(spec, view.io_slots)),
        )

    def _burn(self, build: Build, plan: _Plan) -> None:
        """Burn the devices for one use, if all slots can still be given.

        The image may have taken an hour since the slots were looked at. A
        build that fails because one is gone must not cost the others.
        """
        if not self._claims.burning(plan.claimed):
            return
        self._claims.assignments(
            build.instance, plan.spec.uuid, plan.claimed, self._host.view()
        )
        self._claims.burn(build.instance, plan.claimed)

    def _open(self, root: Root) -> image_ops.Reading:
        return self._images.open(root.image, root.source, inspect=root.inspect)

    def _store(
        self,
        build: Build,
        plan: _Plan,
        root_gb: int,
        reading: image_ops.Reading,
    ) -> list[interfaces.Stored]:
        """Make the disks and media of an LPAR that is not there yet."""
        lpar = plan.spec.uuid
        name = storage.root_disk_name(lpar, build.root.flavor_gb)
        with _timed(
            build.instance,
            f'root disk {name} of {root_gb} GB from image '
            f'{build.root.image.id} ({reading.contents.size} bytes)',
        ):
            stored = [
                self._disks.make_root(
                    lpar, name, root_gb, reading.contents, reading
                )
            ]
        if plan.iso is not None:
            name = storage.config_drive_name(lpar)
            with _timed(
                build.instance, f'config drive {name} ({len(plan.iso)} bytes)'
            ):
                stored.append(self._disks.make_medium(name, plan.iso))
        return stored

    def _specify(
        self,
        build: Build,
        claimed: Sequence[claims.Claim],
        view: host.HostView,
    ) -> partition.PartitionSpec:
        """Say what the LPAR shall be, if the host can make it."""
        uuid = partition.lpar_uuid(build.instance)
        partition.check_memory(build.memory_mb, view.memory_region_mb)
        return partition.PartitionSpec(
            uuid=uuid,
            name=partition.lpar_name(build.name),
            memory_mb=build.memory_mb,
            vcpus=build.vcpus,
            proc_units=partition.proc_units(
                build.vcpus, self._factor, view.min_units_per_vcpu
            ),
            slots=self._claims.assignments(
                build.instance, uuid, claimed, view
            ),
        )

    def _clear(self, spec: partition.PartitionSpec) -> None:
        """Remove what an interrupted build of this instance left behind.

        Half of a disk may have been written, so nothing is used again. A
        running LPAR fails the build; Nova removes it then by destroying the
        instance, unless it was to be evacuated to here.

        :raises exception.PartitionConflict: It runs.
        """
        lpar = self._partitions.find(spec.uuid)
        if lpar is None:
            return
        if lpar_state.power(lpar.state) is not lpar_state.Power.OFF:
            raise exception.PartitionConflict(
                name=spec.name,
                uuid=spec.uuid,
                reason=f'it exists and is {lpar.state}. See with `pvmctl lpar '
                'list` whether Nova removes it now, and remove it if not; '
                'then build or evacuate the server again',
            )
        LOG.warning(
            'LPAR %s is left from an interrupted build; it is made anew.',
            lpar.name,
        )
        self._remove(spec.uuid, lpar)

    def _create(self, spec: partition.PartitionSpec) -> partition.Partition:
        """Make the LPAR and give it as the host reports it."""
        try:
            return self._partitions.create(spec)
        except exception.RestUnreachable:
            # It may have been made although the answer was lost.
            lpar = self._partitions.find(spec.uuid)
            if lpar is None:
                raise
            return lpar

    def _remove(
        self,
        uuid: str,
        lpar: partition.Partition | None,
        *,
        delete_disks: bool = True,
    ) -> None:
        """Remove an LPAR and its disks.

        The LPAR goes last: as long as it is there, Nova knows of it, and a
        removal that was interrupted is done again.
        """
        if lpar and lpar_state.power(lpar.state) is not lpar_state.Power.OFF:
            self._partitions.power_off(lpar, hard=True)
        self._disks.remove(uuid, delete=delete_disks)
        if lpar:
            self._partitions.delete(uuid)

    def _clean_up(
        self,
        build: Build,
        spec: partition.PartitionSpec,
        cause: BaseException,
    ) -> None:
        """Remove what was made; the first error stays the one reported.

        :param cause: What the build failed of. A host that did not answer
            may make later what it was asked for.
        """
        LOG.warning(
            'Instance %(instance)s could not be built; removing LPAR '
            '%(name)s and its disks.',
            {'instance': build.instance, 'name': spec.name},
        )
        if isinstance(cause, exception.RestUnreachable):
            self._untidy[spec.uuid] = self._clock() + LATE_SECONDS
        try:
            self._remove(spec.uuid, self._partitions.find(spec.uuid))
        except exception.PowerVMError as error:
            self._untidy.setdefault(spec.uuid, self._clock())
            LOG.error(
                'LPAR %(name)s (%(uuid)s) and its disks %(stem)s* could not '
                'be removed after its build failed: %(error)s. It is tried '
                'again in each cycle; see that they are gone with `pvmctl '
                'lpar list` and `pvmctl vdisk list`.',
                {
                    'name': spec.name,
                    'uuid': spec.uuid,
                    'stem': storage.stem(spec.uuid),
                    'error': error,
                },
            )


def _root_gb(root: Root, contents: image.Contents) -> int:
    """Give the size of a root disk in GiB.

    :raises exception.RootDiskTooSmall: The image does not fit the flavor.
    """
    return storage.root_disk_gb(
        root.flavor_gb, contents.disk_bytes, root.image.id
    )


@contextlib.contextmanager
def _timed(instance: str, what: str) -> Iterator[None]:
    """Log when a disk or medium begins to be made, and how long it took."""
    LOG.info('Making %s.', what, instance_uuid=instance)
    with timeutils.StopWatch() as watch:
        yield
    LOG.info(
        'Made %(what)s in %(seconds).1f seconds.',
        {'what': what, 'seconds': watch.elapsed()},
        instance_uuid=instance,
    )


def _slots(
    spec: partition.PartitionSpec, known: Iterable[slots.Slot]
) -> list[slots.Slot]:
    return [slot for slot in known if slot.drc_index in spec.drc_indexes]


def _check_slots(
    lpar: partition.Partition, spec: partition.PartitionSpec
) -> None:
    different = lpar.slot_differences(spec)
    if different:
        raise exception.DevicesDiffer(
            name=spec.name,
            wanted=_indexes(spec.drc_indexes),
            found=_indexes(lpar.slots),
            reason='; '.join(different),
        )


def _indexes(drc_indexes: Iterable[int]) -> str:
    return ', '.join(f'{index:08X}' for index in sorted(drc_indexes))
