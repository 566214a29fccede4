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


"""A Virtual I/O Server's media repository and the media in it."""

import dataclasses

from nova_powervm.emulator import content
from nova_powervm.emulator.state import units

Element = content.Element

SECTION = 'MediaRepositories'
REPOSITORY = 'VirtualMediaRepository'
MEDIUM = 'VirtualOpticalMedia'
_LIST = 'OpticalMedia'
_ORDER = ('Metadata', _LIST, 'RepositoryName', 'RepositorySize')


@dataclasses.dataclass(frozen=True)
class Medium:
    """Virtual optical media.

    :ivar element: as it is in the repository, or as a client sent it.
    """

    element: Element

    @property
    def name(self) -> str:
        """MediaName."""
        return content.text(self.element, 'MediaName')

    @property
    def udid(self) -> str:
        """MediaUDID."""
        return content.text(self.element, 'MediaUDID')

    @property
    def size(self) -> float:
        """Size in GB."""
        return content.number(self.element, 'Size')

    def resize(self, size: float) -> None:
        """Write the size in GB."""
        content.put(self.element, 'Size', f'{size:.6f}')


@dataclasses.dataclass(frozen=True)
class Repository:
    """A media repository.

    :ivar element: as it is in the volume group, or as a client sent it.
    """

    element: Element

    @property
    def name(self) -> str:
        """RepositoryName."""
        return content.text(self.element, 'RepositoryName')

    @property
    def size(self) -> float:
        """RepositorySize in GB."""
        return content.number(self.element, 'RepositorySize')

    @property
    def media(self) -> list[Medium]:
        """The media, in the order of the content."""
        path = f'{_LIST}/{MEDIUM}'
        return [Medium(node) for node in content.find_all(self.element, path)]

    @property
    def free(self) -> float:
        """GB that no media take."""
        return self.size - sum(medium.size for medium in self.media)

    def find(self, udid: str) -> Medium | None:
        """Return the medium with a UDID, or None."""
        for medium in self.media:
            if medium.udid == udid:
                return medium
        return None

    def add(self, name: str, size: float, mount_type: str = 'rw') -> Medium:
        """Add a medium.

        :param size: in GB.
        """
        medium = Medium(
            content.new(
                MEDIUM,
                content.leaf('MediaName', name),
                content.leaf('MediaUDID', udid_of(name)),
                content.leaf('MountType', mount_type or 'rw'),
            )
        )
        medium.resize(size)
        content.section(self.element, _LIST).append(medium.element)
        return medium

    def remove(self, medium: Medium) -> None:
        """Remove one of the media."""
        medium.element.getparent().remove(medium.element)


def udid_of(name: str) -> str:
    """Return the MediaUDID that a Virtual I/O Server makes of a name."""
    return f'0e{name}'


def new_repository(name: str, size: float) -> Repository:
    """Return a repository without media.

    :param size: in GB.
    """
    element = content.new(
        REPOSITORY,
        content.new(_LIST),
        content.leaf('RepositoryName', name),
        content.leaf('RepositorySize', units.gigabytes(size)),
    )
    return Repository(element)
