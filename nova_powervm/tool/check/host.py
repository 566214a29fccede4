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

"""The checks of the mode ``host``, which only read."""

import contextlib
from collections.abc import Iterator
from typing import Any

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.powervm.check import hmc_inspection
from nova_powervm.powervm.check import inspection
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import hmc_checks
from nova_powervm.tool.check import network_checks
from nova_powervm.tool.check import session_checks
from nova_powervm.tool.check import storage_checks
from nova_powervm.tool.check import system_checks
from nova_powervm.tool.inventory import host_reader

CHECKS: tuple[answers.Check[inspection.Inspection], ...] = (
    *session_checks.FIRST,
    *system_checks.CHECKS,
    *storage_checks.CHECKS,
    *network_checks.CHECKS,
    *session_checks.LAST,
)

#: The checks of an HMC, and of one of its systems.
CHECKS_OF_HMC: tuple[answers.Check[Any], ...] = (
    *hmc_checks.of_host(CHECKS),
    *hmc_checks.CHECKS,
)


@contextlib.contextmanager
def logged_on(server: options.Server) -> Iterator[Any]:
    """Log on with a session that only reads, and yield its adapter.

    A NovaLink partition has the port that is the default of ``rest_url``, and
    a recent HMC another one.
    """
    with contextlib.ExitStack() as stack:

        def log_on(where: options.Server) -> Any:
            reading = host_reader.logged_on(where, inspection.ReadingSession)
            return stack.enter_context(reading)[0]

        try:
            adapter = log_on(server)
        except exception.RestUnreachable:
            elsewhere = hmc_inspection.at_other_port(server)
            if elsewhere is None:
                raise
            adapter = log_on(elsewhere)
        yield adapter
