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

Its only caller is :meth:`nova_powervm.ops.apply.Execution._write_document`.
Which devices are burned is decided in :mod:`nova_powervm.lpar.plan`.
"""

from collections.abc import Iterable
from collections.abc import Sequence

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

    def check(
        self, instance_uuid: str, burning: Iterable[claims.Claim]
    ) -> None:
        """Verify that Placement answers about devices, and change nothing.

        :param instance_uuid: The instance's uuid.
        :param burning: Claims of one-time-use devices.
        :raises exception.ClaimFailed: It does not.
        """
        try:
            for claim in burning:
                self._is_burned(claim)
        except exception.PlacementUnanswered as error:
            raise _unknown(instance_uuid, error) from error

    def burn(
        self, instance_uuid: str, burning: Sequence[claims.Claim]
    ) -> None:
        """Burn devices, just before an LPAR gets them.

        Skip those that are burned already, as in a rebuild. Before the first
        of several is burned, Placement must answer about all of them.

        :param instance_uuid: The instance's uuid.
        :param burning: Claims of one-time-use devices.
        :raises exception.ClaimFailed: Placement does not confirm that a
            device is burned; the error names those that are burned by now.
        """
        burned: list[claims.Claim] = []
        try:
            if len(burning) > 1:
                burning = [c for c in burning if not self._is_burned(c)]
            for claim in burning:
                if self._placement.burn(
                    claim.provider_uuid or '', claim.resource_classes
                ):
                    burned.append(claim)
                    LOG.info(
                        'Burned the one-time-use device in slot %(slot)s for '
                        'instance %(instance_uuid)s.',
                        {'slot': claim, 'instance_uuid': instance_uuid},
                    )
        except exception.PlacementUnanswered as error:
            raise _unknown(instance_uuid, error, burned) from error

    def _is_burned(self, claim: claims.Claim) -> bool:
        return self._placement.is_burned(
            claim.provider_uuid or '', claim.resource_classes
        )


def _unknown(
    instance_uuid: str,
    error: exception.PlacementUnanswered,
    burned: Sequence[claims.Claim] = (),
) -> exception.ClaimFailed:
    """Return the error, with what brings back devices that are burned now."""
    words = refused = 'its one-time-use devices cannot be reserved. '
    if burned:
        indexes = sorted({str(claim) for claim in burned})
        words += (
            f'The devices in the slots {", ".join(indexes)} are reserved by '
            'now, although no LPAR has them: give them back with '
            f'`nova-powervm-inventory release {" ".join(indexes)}`. '
        )
    return exception.ClaimFailed(
        instance_uuid=instance_uuid,
        reason=exception.PrivateText(
            f'{words}{error}', f'{refused}{error.summary}'
        ),
    )
