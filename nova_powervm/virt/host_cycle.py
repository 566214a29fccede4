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

"""What nova-compute does once a minute: read the host, publish, clean up."""

import collections
import time
from collections.abc import Callable
from typing import Any

import nova.conf
from nova import exception as nova_exception
from nova import objects
from nova.compute import utils
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import one_time_use
from nova_powervm.devices import plan as plans
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import metrics
from nova_powervm.ops import sweep
from nova_powervm.virt import burn_records
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import host_operations
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_volumes
from nova_powervm.virt import restart_repairs
from nova_powervm.virt import translation
from nova_powervm.virt import volume_attachments
from nova_powervm.virt.provider_tree import contents

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class HostCycle:
    """The two steps of a cycle of Nova's resource tracker.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    :param listen: Starts to listen to the host, once.
    :param records: Puts Nova's records of volumes right.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
        listen: Callable[[], None],
        records: live_volumes.LiveVolumes,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred
        self._listen = listen
        self._live_volumes = records
        self._metrics = CycleMetrics(
            host.settings.metrics_file,
            host.nodename,
            host.placement.read_written_at,
        )

    def read(self, nodename: str) -> dict[str, Any]:
        """Read the host, and the inventory file if it has changed.

        This does all REST requests and file reads of a cycle, because Nova
        does not hold its lock here.
        """
        began = time.monotonic()
        # Even if the first cycle fails, a later one must not remove orphan
        # disks: builds may be in progress then.
        is_first_cycle = self._host.startup.end()
        # Not earlier: while nova-compute starts, Nova resumes guests one after
        # another, and would record a stop of those that are still off.
        self._listen()
        # Before Nova accepts a request to reboot such a server.
        self._live_volumes.put_right()
        self._host.provider_tree.recover_deleted(self._host.node.uuid)
        if is_first_cycle:
            self._give_up_evacuations()
            self._take_home()
        self._replace_attachments(is_starting=is_first_cycle)
        self._host.sweep.run(
            sweep.When.CYCLE,
            *([sweep.When.FIRST_CYCLE] if is_first_cycle else ()),
        )
        self._deferred_starts.retry(self._host.nodename)
        self._host.inventory.refresh()
        reading = self._host.reader.read()
        self._report_stale_lpars(reading)
        self._metrics.expect_update(began)
        return {
            'uuid': self._host.node.uuid,
            **translation.available_resource(reading, nodename),
        }

    def _give_up_evacuations(self) -> None:
        """Give up evacuations to this host, without failing the cycle."""
        try:
            restart_repairs.give_up_evacuations(
                self._host.node,
                self._host.virtapi.reportclient,
                self._note_leftover,
            )
        except Exception:
            LOG.exception(
                'Interrupted evacuations could not be given up; the next '
                'start of nova-compute tries again.'
            )

    def _note_leftover(self, instance_uuid: str) -> None:
        """Have the LPAR of an instance removed, and what was found for it."""
        instance = objects.Instance(uuid=instance_uuid)
        self._host.removal.note_leftover(
            translation.lpar_of(instance), instance_volumes.recorded(instance)
        )

    def _take_home(self) -> None:
        """Record instances that never left here, without failing the cycle."""
        try:
            restart_repairs.take_home(self._host.node, self._host.placement)
        except Exception:
            LOG.exception(
                'Instances that are recorded on another host by mistake could '
                'not be looked for; the next start of nova-compute tries '
                'again.'
            )

    def _replace_attachments(self, *, is_starting: bool) -> None:
        """Replace lost attachments of volumes, without failing the cycle."""
        try:
            volume_attachments.replace_lost(
                self._host.nodename, is_starting=is_starting
            )
        except Exception:
            LOG.exception(
                'Attachments of volumes that Cinder has deleted could not be '
                'replaced.'
            )

    def _report_stale_lpars(self, reading: host_ops.Reading) -> None:
        """Report stale LPARs, without failing the cycle."""
        try:
            self._host.stale_lpars.report(reading)
        except Exception:
            LOG.exception(
                'LPARs on the wrong side could not be reported; the next '
                'cycle tries again.'
            )

    def publish(
        self,
        provider_tree: Any,
        nodename: str,
        find_ratios: Callable[[Any], dict[str, float]],
    ) -> None:
        """Publish the host's resources and one provider for each slot.

        Use the last reading of the host instead of asking it, because Nova
        holds its lock here.

        :param find_ratios: Returns the allocation ratios for an inventory.
        :raises nova.exception.InvalidConfiguration: Placement did not report
            what has changed. In a running service this is the only error
            that Nova logs without a traceback.
        """
        reading = self._host.reader.last_or_read()
        self._update_root(provider_tree, nodename, reading, find_ratios)
        try:
            plan = self._host.provider_tree.update(
                provider_tree, nodename, reading
            )
        except exception.PlacementUnanswered as error:
            if not self._host.claims.published.is_complete:
                # InvalidConfiguration would stop a starting service.
                raise
            raise nova_exception.InvalidConfiguration(str(error)) from error
        self._metrics.write(plan)

    def _update_root(
        self,
        provider_tree: Any,
        nodename: str,
        reading: host_ops.Reading,
        find_ratios: Callable[[Any], dict[str, float]],
    ) -> None:
        """Publish the processors, memory, disk and traits of the host."""
        managed, disk = reading.system, reading.disk
        contents.set_host_traits(provider_tree, nodename, managed.traits)
        disk_reserved = utils.convert_mb_to_ceil_gb(CONF.reserved_host_disk_mb)
        ratios = find_ratios(provider_tree.data(nodename).inventory)
        resources = {
            contents.VCPU: contents.RootResource(
                managed.vcpus, CONF.reserved_host_cpus
            ),
            contents.MEMORY_MB: contents.RootResource(
                managed.memory_mb, CONF.reserved_host_memory_mb
            ),
            contents.DISK_GB: contents.RootResource(
                disk.total_gb, disk.reserved_gb + disk_reserved
            ),
        }
        inventory = contents.root_inventory(resources, ratios)
        provider_tree.update_inventory(nodename, inventory)


class CycleMetrics:
    """Writes the metrics of a cycle, and which projects burned devices.

    When another device is burned, ask for its project: Nova's conductor with
    two requests, and Placement with one for each such device.

    :param path: ``[powervm]metrics_file``; None to write nothing.
    :param nodename: The name of this host.
    :param read_written_at: Returns when the inventory of a provider was
        written last, in seconds since 1970.
    """

    def __init__(
        self,
        path: str | None,
        nodename: str,
        read_written_at: Callable[[str], float | None],
    ) -> None:
        self._path = path
        self._nodename = nodename
        self._read_written_at = read_written_at
        self._began: float | None = None
        self._has_failed = False
        # Providers of the devices that were burned in the last cycle, and the
        # projects that burned them, which cannot change while the devices stay
        # burned. Both are replaced, not changed, because builds publish in
        # other threads.
        self._burned: frozenset[str] = frozenset()
        self._projects: dict[str, str] = {}

    def expect_update(self, began: float) -> None:
        """Have the next update of the provider tree write the file.

        Ask Nova's conductor now, while Nova does not hold its lock.

        :param began: When the cycle began, by ``time.monotonic``.
        """
        self._began = began
        if self._path and not self._burned <= self._projects.keys():
            self._find_projects()

    def _find_projects(self) -> None:
        """Find who burned further devices, without failing the cycle."""
        unknown = self._burned - self._projects.keys()
        try:
            holders = burn_records.read_holders(self._nodename, unknown)
            projects = {
                uuid: one_time_use.name_project(
                    holders.get(uuid), self._read_written_at(uuid)
                )
                for uuid in unknown
            }
        except Exception:
            LOG.exception(
                'Which projects burned devices could not be read; the next '
                'cycle tries again.'
            )
        else:
            self._projects = self._projects | projects

    def write(self, plan: plans.Plan) -> None:
        """Write the file, at the end of a cycle; an error is a warning.

        Nova also publishes for each instance that it builds. From those
        updates only take which devices are no longer burned.
        """
        self._burned = frozenset(
            entry.uuid for entry in plan.entries if entry.uuid and entry.burned
        )
        self._projects = {
            uuid: project
            for uuid, project in self._projects.items()
            if uuid in self._burned
        }
        began, self._began = self._began, None
        if not self._path or began is None:
            return
        values = {
            'powervm_service_cycle_seconds': (
                'How long the last cycle of nova-compute took',
                time.monotonic() - began,
            ),
            'powervm_service_cycle_timestamp_seconds': (
                'When the last cycle of nova-compute ended',
                time.time(),
            ),
        }
        nodename = self._nodename
        burned = collections.Counter(
            self._projects.get(entry.uuid or '', one_time_use.UNKNOWN)
            for entry in plan.entries
            if entry.state is plans.State.BURNED
        )
        families = [
            metrics.make_slot_family(
                'powervm_service_slots', nodename, metrics.count_slots(plan)
            ),
            metrics.make_burned_family(
                'powervm_service_burned_devices', nodename, burned
            ),
            *(
                metrics.make_family(name, text, {(nodename,): value})
                for name, (text, value) in values.items()
            ),
        ]
        try:
            metrics.write(self._path, families)
        except OSError as error:
            if not self._has_failed:
                LOG.warning(
                    'The metrics cannot be written to %(path)s: %(error)s. '
                    'Each cycle tries again; this is logged once.',
                    {'path': self._path, 'error': error.strerror},
                )
            self._has_failed = True
        else:
            self._has_failed = False
