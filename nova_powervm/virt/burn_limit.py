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

"""The limit of one-time-use devices that a project burns in an hour."""

import contextlib
import datetime
import threading
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from nova.compute import task_states
from oslo_concurrency import lockutils
from oslo_utils import timeutils

from nova_powervm import exception
from nova_powervm.devices import one_time_use
from nova_powervm.lpar import spec
from nova_powervm.ops import claiming
from nova_powervm.virt import burn_records
from nova_powervm.virt import errors
from nova_powervm.virt import instance_records

_WINDOW = datetime.timedelta(hours=1)


class BurnLimit:
    """Refuses to give a project more one-time-use devices for a while.

    The devices that count are read from Nova's records each time. Only the
    admitted builds are remembered, for an hour: until Nova records that an
    instance runs, no record tells whether its build burns devices.

    :param limit: ``[powervm]max_burns_per_hour``; None for no limit, and no
        requests.
    :param slot_claims: Knows the devices of this host.
    :param nodename: Nova's name of this host.
    """

    def __init__(
        self, limit: int | None, slot_claims: claiming.ClaimOps, nodename: str
    ) -> None:
        self._limit = limit
        self._claims = slot_claims
        self._nodename = nodename
        # Instance uuid -> devices, and when the build was admitted; replaced
        # under the lock, so that readers need none.
        self._lock = threading.Lock()
        self._admitted: dict[str, tuple[int, datetime.datetime]] = {}

    @contextlib.contextmanager
    def admit(
        self, context: Any, instance: Any, slots: Iterable[spec.WantedSlot]
    ) -> Iterator[None]:
        """Admit a build while this block runs, or refuse it.

        A rebuild is always admitted, because the server has its devices
        already. So is an evacuation: the user has not asked for it, and it
        may be the only way to save the server.

        :param context: The context of the request.
        :param instance: nova.objects.Instance, with the devices that it was
            allocated.
        :param slots: All the slots that it gets.
        :raises exception.BurnLimitReached: The limit is reached; the instance
            action has an event that tells the user.
        """
        devices = _count_burns(slots)
        if (
            self._limit is None
            or not devices
            or instance.task_state in task_states.rebuild_states
        ):
            yield
            return
        try:
            with self._lock_project(instance):
                self._check(instance, devices, holds=True)
                self._note(instance.uuid, devices)
        except exception.BurnLimitReached as error:
            refusal = errors.to_nova(error)
            errors.record_failure(
                context, instance, burn_records.REFUSED, refusal
            )
            raise
        try:
            yield
        except BaseException:
            # Whether it has burned devices is in Placement.
            self._forget(instance.uuid)
            raise

    @contextlib.contextmanager
    def _lock_project(self, instance: Any) -> Iterator[None]:
        """Admit the builds of a project one after the other.

        Builds of other projects do not wait for this project's records.
        """
        with lockutils.lock(
            f'powervm-burns-{self._nodename}-{instance.project_id}'
        ):
            yield

    def _note(self, instance_uuid: str, devices: int) -> None:
        """Remember a build until Nova has recorded its end."""
        now = timeutils.utcnow(with_timezone=True)
        with self._lock:
            self._admitted = {
                uuid: admitted
                for uuid, admitted in self._admitted.items()
                if admitted[1] > now - _WINDOW
            } | {instance_uuid: (devices, now)}

    def _forget(self, instance_uuid: str) -> None:
        """Forget a build that has failed."""
        with self._lock:
            self._admitted = {
                uuid: admitted
                for uuid, admitted in self._admitted.items()
                if uuid != instance_uuid
            }

    def check_move(
        self, instance: Any, slots: Iterable[spec.WantedSlot]
    ) -> None:
        """Refuse a resize or cold migration before the guest is stopped.

        :param instance: nova.objects.Instance as before the move.
        :param slots: All the slots that it gets.
        :raises exception.BurnLimitReached: The limit is reached.
        """
        present = instance_records.stored_slots(instance.resources)
        devices = _count_burns(
            slot for slot in slots if slot.claim.provider_uuid not in present
        )
        if self._limit is not None and devices:
            holds = bool(present.keys() & self._one_time_providers())
            with self._lock_project(instance):
                self._check(instance, devices, holds=holds)

    def _check(self, instance: Any, devices: int, *, holds: bool) -> None:
        """Verify that a project may burn some more devices.

        :param devices: How many devices the instance is to get.
        :param holds: Whether the instance got one-time-use devices last time.
        """
        limit = self._limit or 0
        since = timeutils.utcnow(with_timezone=True) - _WINDOW
        total = devices
        for burned in self._count(since, instance, devices, holds=holds):
            # The next count would cost further requests.
            if total > limit:
                break
            total += burned
        if total > limit:
            raise exception.BurnLimitReached(asked=devices, limit=limit)

    def _count(
        self,
        since: datetime.datetime,
        instance: Any,
        devices: int,
        *,
        holds: bool,
    ) -> Iterator[int]:
        """Yield numbers of devices that a project has burned here.

        No record has the devices of a server before it was moved or unshelved:
        assume as many as the present instance is to get.
        """
        if instance.launched_at is not None:
            # The count includes the present action. No record has the devices
            # of an unshelve that failed.
            times = burn_records.count_device_actions(
                since, instance.uuid, burned=True
            )
            yield _estimate(devices, times - 1, holds=holds)
        project = instance.project_id
        others = {
            holder.instance_uuid: holder
            for holder in burn_records.changed_since(since, project_id=project)
            if holder.instance_uuid != instance.uuid
        }
        yield self._count_unfinished(
            since, [h for h in others.values() if not h.has_run]
        )
        moved = burn_records.moved_since(since, self._nodename, project)
        one_time = self._one_time_providers()
        # Of the instances that name a burned device, the last that changed
        # had it.
        unclaimed = self._claims.published.burned
        for uuid, holder in others.items():
            burned = holder.providers & unclaimed
            unclaimed -= burned
            count = len(holder.providers & one_time)
            if not holder.has_run or not (count or uuid in moved):
                continue
            times = burn_records.count_device_actions(
                since, uuid, burned=bool(burned)
            )
            yield _estimate(count or devices, times, holds=bool(count))

    def _count_unfinished(
        self,
        since: datetime.datetime,
        unfinished: Collection[one_time_use.Holder],
    ) -> int:
        """Count the devices of running builds, and those of failed ones."""
        admitted = self._admitted
        running = [
            admitted[holder.instance_uuid][0]
            for holder in unfinished
            if holder.instance_uuid in admitted
        ]
        failed = {
            holder.instance_uuid: holder
            for holder in unfinished
            if holder.instance_uuid not in admitted
            and holder.since >= since.timestamp()
        }
        named = {uuid for h in failed.values() for uuid in h.providers}
        doubtful = self._claims.published.burned & named
        if not doubtful:
            return sum(running)
        # A refused build names devices that another instance has burned.
        local = burn_records.changed_since(since, host=self._nodename)
        last = one_time_use.find_last([*local, *failed.values()], doubtful)
        return sum(running) + sum(
            holder.instance_uuid in failed for holder in last.values()
        )

    def _one_time_providers(self) -> frozenset[str]:
        """Return the providers of the one-time-use devices of this host."""
        published = self._claims.published
        return published.burned | {
            uuid
            for uuid, provider in published.providers.items()
            if provider.drc_index in published.one_time_use
        }


def _count_burns(slots: Iterable[spec.WantedSlot]) -> int:
    """Count the slots whose devices are burned before an LPAR gets them."""
    return sum(bool(slot.burns) for slot in slots)


def _estimate(devices: int, times: int, *, holds: bool) -> int:
    """Return how many devices an instance has burned at most.

    :param devices: How many devices it had each time.
    :param times: How many actions may have given it devices.
    :param holds: Whether it got devices in the last of these actions.
    """
    return devices * max(times if holds else times - 1, 0)
