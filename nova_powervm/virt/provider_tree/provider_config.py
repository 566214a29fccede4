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

"""What Nova's provider.yaml adds to providers.

Nova adds this in each update after the driver, and refuses the update if it
already exists. Therefore the driver must never write it back.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from nova.compute import provider_config

from nova_powervm.devices import slot_providers


def read_additions(location: str) -> Mapping[str, slot_providers.Additions]:
    """Read the files that Nova also reads when nova-compute starts.

    :param location: ``[compute]provider_config_location``.
    :returns: Uuid or name of a provider, as in the files, to its additions.
    :raises nova.exception.ProviderConfigException: A file is invalid.
    """
    return {
        which: slot_providers.Additions(
            classes=frozenset(
                name
                for record in _read_additional(provider, 'inventories')
                for name in record
            ),
            traits=frozenset(_read_additional(provider, 'traits')),
        )
        for which, provider in provider_config.get_provider_configs(
            location
        ).items()
    }


def _read_additional(provider: Mapping[str, Any], what: str) -> Iterable[Any]:
    found: Iterable[Any] = provider.get(what, {}).get('additional', ())
    return found
