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

"""The metrics that nova-compute writes at the end of each cycle."""

import collections
import time
from collections.abc import Callable

from oslo_log import log as logging

from nova_powervm.devices import burners
from nova_powervm.devices import plan as plans
from nova_powervm.ops import metrics
from nova_powervm.virt import burn_records

LOG = logging.getLogger(__name__)


class CycleMetrics:
    """Writes what a cycle knows, and which projects burned devices.

    Only for the latter others are asked, once another device is burned: Nova's
    conductor with two requests, and Placement with one for each such device.

    :param path: ``[powervm]metrics_file``; None to write nothing.
    :param host: The name of this host.
    :param read_written_at: Returns when the inventory of a provider was
        written last, in seconds since 1970.
    """

    def __init__(
        self,
        path: str | None,
        host: str,
        read_written_at: Callable[[str], float | None],
    ) -> None:
        self._path = path
        self._host = host
        self._read_written_at = read_written_at
        self._began: float | None = None
        self._has_failed = False
        # Providers of the devices that were burned in the last cycle, and the
        # projects that burned them. Those are not asked for again: they cannot
        # change while the devices stay burned. Both are replaced, not changed,
        # because builds publish in other threads.
        self._burned: frozenset[str] = frozenset()
        self._projects: dict[str, str] = {}

    def expect_update(self, began: float) -> None:
        """Write the file when the host that was just read is published.

        Nova does not hold its lock now, so this is when its conductor is
        asked.

        :param began: When the cycle began, by ``time.monotonic``.
        """
        self._began = began
        if self._path and not self._burned <= self._projects.keys():
            self._find_projects()

    def _find_projects(self) -> None:
        """Find who burned further devices, without failing the cycle."""
        unknown = self._burned - self._projects.keys()
        try:
            holders = burn_records.read_holders(self._host, unknown)
            found = {
                uuid: burners.name_project(
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
            self._projects = self._projects | found

    def write(self, plan: plans.Plan) -> None:
        """Write the file, at the end of a cycle; an error is a warning.

        Nova also publishes for each instance that it builds; those updates
        tell nothing new, but which devices are no longer burned.
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
        families = [
            metrics.make_slot_family(
                'powervm_service_slots', self._host, metrics.count_slots(plan)
            ),
            metrics.make_burned_family(
                'powervm_service_burned_devices',
                self._host,
                collections.Counter(
                    self._projects.get(entry.uuid or '', burners.UNKNOWN)
                    for entry in plan.entries
                    if entry.state is plans.State.BURNED
                ),
            ),
            *(
                metrics.make_family(name, text, {(self._host,): value})
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
