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

"""Volume drivers, which connect the volumes of one type each.

Each is an entry point of ``nova_powervm.volume_drivers``, named as the
``driver_volume_type`` of its volumes. It is called with a :class:`Context` and
returns a :class:`~nova_powervm.ops.drivers.VolumeDriver`.
"""

import dataclasses

from pypowervm import adapter as pvm_adapter

from nova_powervm.conf import powervm as options
from nova_powervm.powervm import system


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The arguments of a volume driver.

    :param adapter: A pypowervm adapter with a session that has logged on.
    :param system: The managed system.
    :param settings: The ``[powervm]`` options.
    """

    adapter: pvm_adapter.Adapter
    system: system.RestSystem
    settings: options.Settings
