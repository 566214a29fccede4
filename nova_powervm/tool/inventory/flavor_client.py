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

"""Flavors of the cloud, read and changed through the compute API."""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from nova_powervm.tool import errors
from nova_powervm.tool.inventory import cloud_connection


def add_cloud_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that selects the cloud.

    :param parser: The parser of the command, or a group of its options.
    """
    parser.add_argument(
        '--os-cloud',
        metavar='NAME',
        help='name of a cloud in clouds.yaml (default: $OS_CLOUD or the '
        'other OS_* variables, as for the openstack command)',
    )


class FlavorClient:
    """Reads and changes flavors.

    :param cloud: Name of a cloud in clouds.yaml; None to use the environment.
    :param conf: See :func:`.cloud_connection.connect`.
    :raises errors.ComputeApiError: No cloud is configured.
    """

    def __init__(
        self, cloud: str | None = None, conf: cfg.ConfigOpts | None = None
    ) -> None:
        with _translated('choosing the cloud'):
            self._compute: Any = cloud_connection.connect(cloud, conf).compute

    def extra_specs(
        self, flavor_names: Sequence[str]
    ) -> Mapping[str, Mapping[str, str]]:
        """Read the extra specs of flavors.

        :param flavor_names: Names or IDs; empty for all flavors.
        :returns: Flavor name to extra specs.
        :raises errors.ComputeApiError: A flavor does not exist, or the API
            can't be reached.
        """
        with _translated('reading flavors'):
            found = (
                [self._find(name) for name in flavor_names]
                if flavor_names
                else self._compute.flavors(
                    details=True, get_extra_specs=True, is_public=None
                )
            )
            return {
                flavor.name: dict(flavor.extra_specs or {}) for flavor in found
            }

    def set(self, name: str, extra_specs: Mapping[str, str]) -> None:
        """Set extra specs of a flavor; its other extra specs are kept.

        :raises errors.ComputeApiError: The flavor does not exist, or the
            API refused the change.
        """
        with _translated(f'setting extra specs of flavor {name}'):
            self._compute.create_flavor_extra_specs(
                self._find(name), dict(extra_specs)
            )

    def _find(self, name: str) -> Any:
        found = self._compute.find_flavor(name, get_extra_specs=True)
        if found is None:
            raise errors.ComputeApiError(
                reason=f"there is no flavor '{name}'. Create it with "
                f'"openstack flavor create {name} --vcpus … --ram … '
                '--disk …"'
            )
        return found


def _translated(action: str) -> Any:
    return cloud_connection.translated(errors.ComputeApiError, action)
