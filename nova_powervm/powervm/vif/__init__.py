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

"""VIF drivers, which connect the ports of one VIF type each.

Each is an entry point of ``nova_powervm.vif_drivers``, named as the
``binding:vif_type`` of its ports. It is called with a :class:`Context` and
returns a :class:`~nova_powervm.ops.drivers.VifDriver`.
"""

import dataclasses

from pypowervm import adapter as pvm_adapter

from nova_powervm.conf import powervm as options
from nova_powervm.ops import drivers
from nova_powervm.powervm import system


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The arguments of a VIF driver.

    :param adapter: A pypowervm adapter with a session that has logged on.
    :param system: The managed system.
    :param settings: The ``[powervm]`` options.
    :param records: Nova's records of the ports of this host's instances.
    """

    adapter: pvm_adapter.Adapter
    system: system.RestSystem
    settings: options.Settings
    records: drivers.PortRecords
