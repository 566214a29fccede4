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


"""Operations that Nova knows and this driver can't do yet.

Each is refused before anything is changed, with the kind of exception whose
words Nova passes on. Where it passes on none there is a line in the log. One
module is one part of the driver that is still to be built.
"""

from nova_powervm.virt.unsupported import consoles
from nova_powervm.virt.unsupported import guests
from nova_powervm.virt.unsupported import moves
from nova_powervm.virt.unsupported import volumes


class Unsupported(
    guests.Guests, consoles.Consoles, moves.Moves, volumes.Volumes
):
    """Refuses what the driver can't do yet.

    NotImplementedError is raised where Nova's API answers it with 501. Where
    Nova goes another way for it, its own class raises it, not this one.
    """
