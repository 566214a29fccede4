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

"""The operations on the host that the driver's collaborators share."""

import dataclasses

from nova_powervm.ops import apply
from nova_powervm.ops import claiming
from nova_powervm.ops import consoles
from nova_powervm.ops import drivers
from nova_powervm.ops import host
from nova_powervm.ops import images
from nova_powervm.ops import interfaces
from nova_powervm.ops import network
from nova_powervm.ops import removal
from nova_powervm.ops import sweep
from nova_powervm.ops import volumes
from nova_powervm.ops import watch
from nova_powervm.virt import descriptions
from nova_powervm.virt.provider_tree import updating


@dataclasses.dataclass(frozen=True, slots=True)
class HostOperations:
    """The operations on the host, and the means that they share.

    :param host: Reads the host.
    :param inventory: The inventory file.
    :param claims: Finds the slots of instances.
    :param placement: Placement.
    :param provider_tree: Updates Nova's provider tree.
    :param lpars: Makes LPARs what they should be.
    :param descriptions: Describes instances.
    :param removal: Removes LPARs, and the remains of builds.
    :param sweep: Removes what is unused.
    :param stale: Reports LPARs on the wrong side.
    :param images: Reads images.
    :param network: Connects LPARs to networks.
    :param volumes: Connects volumes to LPARs.
    :param partitions: The host's LPARs.
    :param records: Nova's records of instances.
    :param disks: The disk driver.
    :param consoles: The consoles of LPARs.
    """

    host: host.HostOps
    inventory: interfaces.Inventory
    claims: claiming.ClaimOps
    placement: interfaces.Placement
    provider_tree: updating.ProviderTreeUpdater
    lpars: apply.LparOps
    descriptions: descriptions.Descriptions
    removal: removal.RemovalOps
    sweep: sweep.Sweep
    stale_lpars: watch.StaleLpars
    images: images.ImageOps
    network: network.NetworkOps
    volumes: volumes.VolumeOps
    partitions: interfaces.Partitions
    records: interfaces.Records
    disks: drivers.Disks
    consoles: consoles.Consoles
