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

from nova_powervm.powervm import inspection
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import network_checks
from nova_powervm.tool.check import session_checks
from nova_powervm.tool.check import storage_checks
from nova_powervm.tool.check import system_checks

CHECKS: tuple[answers.Check[inspection.Inspection], ...] = (
    *session_checks.FIRST,
    *system_checks.CHECKS,
    *storage_checks.CHECKS,
    *network_checks.CHECKS,
    *session_checks.LAST,
)


def answers_of_hmc() -> list[answers.Result[inspection.Inspection]]:
    """Return the results for an HMC, to which the driver does not log on."""
    found = [answers.judged(False, session_checks.HMC)]
    found += [answers.unknown('the server is an HMC')] * (len(CHECKS) - 1)
    return [
        answers.Result(number, check, answer, 0.0)
        for number, (check, answer) in enumerate(
            zip(CHECKS, found, strict=True), 1
        )
    ]
