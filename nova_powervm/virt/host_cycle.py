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

import time
from collections.abc import Callable
from typing import Any

import nova.conf
from nova import exception as nova_exception
from nova.compute import utils
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import sweep
from nova_powervm.virt import cycle_metrics
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import host_operations
from nova_powervm.virt import interrupted_evacuations
from nova_powervm.virt import local_node
from nova_powervm.virt import startup
from nova_powervm.virt import stranded_instances
from nova_powervm.virt import translation
from nova_powervm.virt.provider_tree import writing

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class HostCycle:
    """The two steps of a cycle of Nova's resource tracker.

    :param operations: The operations on the host.
    :param virtapi: Nova's VirtAPI.
    :param node: The node of this compute service.
    :param start: Whether nova-compute is starting.
    :param deferred: Instances to start.
    :param listen: Starts to listen to the host, once.
    :param metrics: Writes what a cycle knows.
    """

    def __init__(
        self,
        operations: host_operations.HostOperations,
        virtapi: Any,
        node: local_node.LocalNode,
        start: startup.Startup,
        deferred: deferred_starts.DeferredStarts,
        listen: Callable[[], None],
        metrics: cycle_metrics.CycleMetrics,
    ) -> None:
        self._operations = operations
        self._virtapi = virtapi
        self._node = node
        self._startup = start
        self._deferred_starts = deferred
        self._listen = listen
        self._metrics = metrics

    def read(self, nodename: str) -> dict[str, Any]:
        """Read the host, and the inventory file if it has changed.

        This does all REST requests and file reads of a cycle, because Nova
        does not hold its lock here.
        """
        began = time.monotonic()
        # Even if the first cycle fails, a later one must not remove orphan
        # disks: builds may be in progress then.
        is_first_cycle = self._startup.end()
        running = self._operations
        # Not before: while nova-compute starts, Nova resumes guests one after
        # another, and would take a stop event for those that are still off.
        self._listen()
        running.provider_tree.recover_deleted(self._node.uuid)
        if is_first_cycle:
            self._give_up_evacuations(running)
            self._take_home(running)
        running.sweep.run(
            sweep.When.CYCLE,
            *([sweep.When.FIRST_CYCLE] if is_first_cycle else ()),
        )
        self._deferred_starts.retry(self._node.name)
        running.inventory.refresh()
        snapshot = running.host.read()
        self._report_stale_lpars(running, snapshot)
        self._metrics.expect_update(began)
        return {
            'uuid': self._node.uuid,
            **translation.available_resource(snapshot, nodename),
        }

    def _give_up_evacuations(
        self, running: host_operations.HostOperations
    ) -> None:
        """Give up evacuations to this host, without failing the cycle."""
        interrupted = interrupted_evacuations.InterruptedEvacuations(
            self._virtapi, running.removal.note_leftover
        )
        try:
            interrupted.give_up(self._node.name, self._node.uuid)
        except Exception:
            LOG.exception(
                'Interrupted evacuations could not be given up; the next '
                'start of nova-compute tries again.'
            )

    def _take_home(self, running: host_operations.HostOperations) -> None:
        """Record stranded instances here, without failing the cycle."""
        try:
            stranded_instances.take_home(
                self._node.name, self._node.uuid, running.placement
            )
        except Exception:
            LOG.exception(
                'Instances that are recorded on another host by mistake could '
                'not be looked for; the next start of nova-compute tries '
                'again.'
            )

    def _report_stale_lpars(
        self,
        running: host_operations.HostOperations,
        snapshot: host_ops.Snapshot,
    ) -> None:
        """Report LPARs on the wrong side, without failing the cycle."""
        try:
            running.stale_lpars.report(snapshot)
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
        running = self._operations
        snapshot = running.host.last_or_read()
        self._update_root(provider_tree, nodename, snapshot, find_ratios)
        try:
            plan = running.provider_tree.update(
                provider_tree, nodename, snapshot
            )
        except exception.PlacementUnanswered as error:
            if not running.claims.published.is_complete:
                # InvalidConfiguration would stop a starting service.
                raise
            raise nova_exception.InvalidConfiguration(str(error)) from error
        self._metrics.write(plan)

    def _update_root(
        self,
        provider_tree: Any,
        nodename: str,
        snapshot: host_ops.Snapshot,
        find_ratios: Callable[[Any], dict[str, float]],
    ) -> None:
        """Publish the processors, memory and disk of the host."""
        managed, disk = snapshot.system, snapshot.disk
        writing.set_cpu_traits(provider_tree, nodename, managed.cpu_traits)
        disk_reserved = utils.convert_mb_to_ceil_gb(CONF.reserved_host_disk_mb)
        present = provider_tree.data(nodename).inventory
        inventory = writing.root_inventory(
            {
                writing.VCPU: writing.RootResource(
                    managed.vcpus, CONF.reserved_host_cpus
                ),
                writing.MEMORY_MB: writing.RootResource(
                    managed.memory_mb, CONF.reserved_host_memory_mb
                ),
                writing.DISK_GB: writing.RootResource(
                    disk.total_gb, disk.reserved_gb + disk_reserved
                ),
            },
            find_ratios(present),
        )
        provider_tree.update_inventory(nodename, inventory)
