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


"""Operations of Nova that this driver does not support yet.

Each is refused before anything changes, with the exception whose message Nova
passes on to the user. Where Nova passes on none, the log has the reason. Each
module stands for one part of the driver that is still to be written.
"""

from nova_powervm.virt.unsupported import consoles
from nova_powervm.virt.unsupported import guests
from nova_powervm.virt.unsupported import volumes


class Unsupported(guests.Guests, consoles.Consoles, volumes.Volumes):
    """Refuses the operations that the driver does not support yet.

    A method raises NotImplementedError where Nova's API turns that into 501.
    Where Nova falls back to another way, the method is left to Nova's base
    class.
    """
