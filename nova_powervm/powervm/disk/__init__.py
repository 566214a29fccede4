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

"""Disk drivers: the storage for the disks of instances.

Each is an entry point of ``nova_powervm.disk_drivers``;
``[powervm]disk_driver`` names the one to use. It is called with a
:class:`Context` and returns a :class:`.base.DiskDriver`.
:class:`~nova_powervm.ops.drivers.Disks` describes its methods.
"""

import dataclasses

from pypowervm import adapter as pvm_adapter

from nova_powervm.conf import powervm as options
from nova_powervm.ops import drivers
from nova_powervm.powervm import system


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The arguments of a disk driver.

    :param adapter: A pypowervm adapter with a session that has logged on.
    :param system: The managed system.
    :param settings: The ``[powervm]`` options.
    :param files: Accesses the files of the management partition; None for
        direct access.
    """

    adapter: pvm_adapter.Adapter
    system: system.RestSystem
    settings: options.Settings
    files: drivers.LocalFiles | None = None
