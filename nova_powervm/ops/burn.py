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

"""The burn: reserving a one-time-use device just before an LPAR gets it.

Which devices are burned is decided in
:mod:`nova_powervm.devices.one_time_use`.
"""

from collections.abc import Collection
from collections.abc import Iterable

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.ops import interfaces

LOG = logging.getLogger(__name__)


class BurnOps:
    """Burns the one-time-use devices that instances are about to get.

    Burning means reserving all inventory of a provider, in Placement and
    nowhere else (specification "One-time-use devices", "Implementation"). It
    is the last step before the LPAR gets the slot, so a build that is refused
    or fails earlier costs no device.

    :param placement: Where the burn is written.
    """

    def __init__(self, placement: interfaces.Placement) -> None:
        self._placement = placement

    def check_allocated(
        self, instance: str, burning: Collection[claims.Claim]
    ) -> None:
        """Verify in Placement that devices are allocated to an instance.

        This takes one request. The allocations that Nova passes to the driver
        may be outdated, or come from somebody who bypassed the scheduler.

        :param instance: The instance's uuid.
        :param burning: Its claims of one-time-use devices.
        :raises exception.ClaimFailed: A device is not allocated to it.
        """
        if not burning:
            return
        try:
            held = self._placement.allocated_to(instance)
        except exception.PlacementUnanswered as error:
            raise _unknown(instance, error) from error
        for claim in burning:
            if claim.provider_uuid not in held:
                raise exception.ClaimFailed(
                    instance=instance,
                    reason=f'slot {claim} has a one-time-use device that is '
                    'not allocated to it in Placement. Build or evacuate it '
                    'through the scheduler',
                )

    def burn(self, instance: str, burning: Iterable[claims.Claim]) -> None:
        """Burn devices, just before an LPAR gets them.

        Skip a device that is already burned, as in a rebuild.

        :param instance: The instance's uuid.
        :param burning: Its claims of one-time-use devices.
        :raises exception.ClaimFailed: Placement does not confirm that a
            device is burned.
        """
        for claim in burning:
            try:
                burned = self._placement.burn(
                    claim.provider_uuid or '', claim.resource_classes
                )
            except exception.PlacementUnanswered as error:
                raise _unknown(instance, error) from error
            if burned:
                LOG.info(
                    'Burned the one-time-use device in slot %(slot)s for '
                    'instance %(instance)s.',
                    {'slot': claim, 'instance': instance},
                )


def _unknown(
    instance: str, error: exception.PlacementUnanswered
) -> exception.ClaimFailed:
    return exception.ClaimFailed(
        instance=instance,
        reason=f'its one-time-use devices cannot be reserved. {error}',
    )
