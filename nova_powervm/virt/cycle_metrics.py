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

from oslo_log import log as logging

from nova_powervm.devices import plan as plans
from nova_powervm.ops import metrics

LOG = logging.getLogger(__name__)


class CycleMetrics:
    """Writes what a cycle knows without asking anybody.

    :param path: ``[powervm]metrics_file``; None to write nothing.
    :param host: The name of this host.
    """

    def __init__(self, path: str | None, host: str) -> None:
        self._path = path
        self._host = host
        self._began: float | None = None
        self._has_failed = False

    def expect_update(self, began: float) -> None:
        """Write the file when the host that was just read is published.

        :param began: When the cycle began, by ``time.monotonic``.
        """
        self._began = began

    def write(self, plan: plans.Plan) -> None:
        """Write the file, at the end of a cycle; an error is a warning.

        Nova also publishes for each instance that it builds; those updates
        tell nothing new.
        """
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
