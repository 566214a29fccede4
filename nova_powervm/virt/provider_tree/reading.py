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

"""Reads Nova's provider tree as facts for the plan."""

from collections.abc import Mapping
from typing import Any

from nova_powervm.devices import slot_providers


def read_providers(
    tree: Any,
    nodename: str,
    additions: Mapping[str, slot_providers.Additions],
) -> tuple[slot_providers.Provider, ...]:
    """Read all providers below a compute node's provider.

    :param tree: Nova's ProviderTree.
    :param nodename: Name of the compute node's provider.
    :param additions: What Nova's provider.yaml adds, which is omitted.
    """
    root = tree.data(nodename).uuid
    return tuple(
        slot_providers.remove_additions(
            _provider(tree.data(uuid), root), additions
        )
        for uuid in tree.get_provider_uuids(nodename)
        if uuid != root
    )


def _provider(data: Any, root: str) -> slot_providers.Provider:
    return slot_providers.Provider(
        uuid=data.uuid,
        name=data.name,
        inventory=data.inventory,
        traits=frozenset(data.traits),
        is_direct=data.parent_uuid == root,
    )
