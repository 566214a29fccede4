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

import time
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm.devices import burners
from nova_powervm.devices import plan as plans
from nova_powervm.ops import metrics
from nova_powervm.virt import burn_records

LOG = logging.getLogger(__name__)


class CycleMetrics:
    """Writes what a cycle knows, and which projects burned devices.

    Only for the latter Nova's conductor is asked, while a device is burned.

    :param path: ``[powervm]metrics_file``; None to write nothing.
    :param host: The name of this host.
    """

    def __init__(self, path: str | None, host: str) -> None:
        self._path = path
        self._host = host
        self._began: float | None = None
        self._has_failed = False
        # Providers of the devices that were burned in the last cycle, and who
        # had them.
        self._burned: frozenset[str] = frozenset()
        self._holders: Mapping[str, burners.Holder] = {}

    def expect_update(self, began: float) -> None:
        """Write the file when the host that was just read is published.

        Nova does not hold its lock now, so this is when its conductor is
        asked.

        :param began: When the cycle began, by ``time.monotonic``.
        """
        self._began = began
        if self._path:
            self._holders = self._read_holders()

    def _read_holders(self) -> Mapping[str, burners.Holder]:
        """Read who had the burned devices, without failing the cycle."""
        try:
            return burn_records.read_holders(self._host, self._burned)
        except Exception:
            LOG.exception(
                'Which projects burned devices could not be read; the next '
                'cycle tries again.'
            )
            return {}

    def write(self, plan: plans.Plan) -> None:
        """Write the file, at the end of a cycle; an error is a warning.

        Nova also publishes for each instance that it builds; those updates
        tell nothing new.
        """
        began, self._began = self._began, None
        if not self._path or began is None:
            return
        self._burned = frozenset(
            entry.uuid for entry in plan.entries if entry.uuid and entry.burned
        )
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
                burners.count_projects(
                    self._holders,
                    [
                        entry.uuid or ''
                        for entry in plan.entries
                        if entry.state is plans.State.BURNED
                    ],
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
