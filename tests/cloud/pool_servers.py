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

"""The flavors of servers on a shared pool, and what a server has to be."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Flavor:
    """What a server gets.

    :ivar gpus: the number of its GPUs.
    :ivar ephemeral: GB of its ephemeral disk; 0 for none.
    :ivar swap: MB of its swap disk; 0 for none.
    :ivar disk: GB of its root disk.
    :ivar memory: MB.
    """

    gpus: int = 0
    ephemeral: int = 0
    swap: int = 0
    disk: int = 1
    memory: int = 512

    @property
    def roles(self):
        """The roles of its disks."""
        sizes = {'root': self.disk, 'eph0': self.ephemeral, 'swap': self.swap}
        return {role for role, size in sizes.items() if size}

    def can_become(self, other):
        """Return whether a server with it can be resized to another one."""
        return self.ephemeral == other.ephemeral and self.disk <= other.disk


PLAIN, LARGE = 'plain', 'large'
BLANKS, GPU, GPUS = 'blanks', 'gpu', 'gpus'

#: The flavors by their names in Nova.
FLAVORS = {
    PLAIN: Flavor(),
    LARGE: Flavor(gpus=1, disk=2, memory=1024),
    BLANKS: Flavor(ephemeral=1, swap=512),
    GPU: Flavor(gpus=1, ephemeral=1, swap=512),
    GPUS: Flavor(gpus=2, ephemeral=1, swap=1024, disk=2, memory=1024),
}


@dataclasses.dataclass
class Expected:
    """What a server has to be.

    :ivar name: its flavor's name.
    :ivar contents: what its root disk has to contain.
    :ivar was_whole: whether it was ever built, so that its disks exist.
    :ivar before: the name of its former flavor, while a move of it waits for
        its confirmation.
    :ivar was_off: whether it was off when it moved, and thus is.
    :ivar is_repaired: whether a move of it has failed, so that its devices
        and disks may be those of another flavor than Nova shows.
    """

    name: str
    contents: bytes = b''
    was_whole: bool = False
    before: str | None = None
    was_off: bool = False
    is_repaired: bool = False

    @property
    def flavor(self):
        """Its flavor."""
        return FLAVORS[self.name]

    @property
    def disk(self):
        """GB of its root disk, which grows with the confirmation."""
        return FLAVORS[self.before or self.name].disk
