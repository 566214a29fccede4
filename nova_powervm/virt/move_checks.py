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

"""What is checked before a guest is stopped for a move."""

from typing import Any

from nova_powervm import exception
from nova_powervm.lpar import disk_resizes
from nova_powervm.lpar import operations
from nova_powervm.ops import apply
from nova_powervm.ops import disk_interfaces
from nova_powervm.virt import burn_limit
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_moves
from nova_powervm.virt import move_questions
from nova_powervm.virt import translation
from nova_powervm.virt.unsupported import build_requests


class MoveChecks:
    """Refuses moves that could not be finished.

    :param lpars: Makes LPARs what they should be.
    :param describes: Describes instances.
    :param disks: The disk driver.
    :param questions: Asks the other host of a move.
    :param limit: The limit of one-time-use devices of a project.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        lpars: apply.LparOps,
        describes: descriptions.Descriptions,
        disks: disk_interfaces.Disks,
        questions: move_questions.MoveQuestions,
        limit: burn_limit.BurnLimit,
        host: str,
    ) -> None:
        self._lpars = lpars
        self._descriptions = describes
        self._disks = disks
        self._questions = questions
        self._burn_limit = limit
        self._host = host

    def check_move(
        self,
        context: Any,
        instance: Any,
        move: Any,
        flavor: Any,
    ) -> None:
        """Check all that can be known before a guest is stopped for a move.

        What its present LPAR prevents is in the plan of its departure.

        :raises exception.PowerVMError: The move is refused.
        """
        refused = [
            *disk_resizes.refused_disk_changes(
                instance_moves.disk_sizes(instance.flavor),
                instance_moves.disk_sizes(flavor),
            ),
            *build_requests.refused_specs(flavor),
        ]
        if refused:
            raise exception.MoveRefused(
                reason=exception.Listing(refused, '; ')
            )
        if instance_moves.is_within_host(move):
            wanted = self._descriptions.moving(
                instance,
                flavor,
                moved_slots=instance_moves.moved_slots(instance, self._host),
                power_on=False,
                runs_later=instance_moves.is_running(instance),
            )
            self._lpars.check(operations.RESIZE, wanted)
            self._burn_limit.check_move(instance, wanted.slots)
        else:
            self._questions.ask_to_take(context, instance, move.dest_compute)
        if flavor.root_gb > instance.flavor.root_gb:
            self._disks.check_growth(
                translation.lpar_of(instance), flavor.root_gb
            )
