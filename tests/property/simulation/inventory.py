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

"""The inventory file of a host and its meaning, without the driver."""

import dataclasses
import os

GPU = '10DE'
CARD = '1014'
CLASSES = ('CUSTOM_GPU', 'CUSTOM_OTHER')
TRAITS = ('CUSTOM_ONE', 'CUSTOM_TWO')
#: What makes a file that a running service does not take over.
BROKEN = ('torn', 'gone', 'empty')
_PARAGRAPH = """\
{name}:
  identification:
    vendor_id: '{vendor}'
  resource_class: {resource_class}
{traits}  one_time_use: {once}
"""
_DENIAL = """\
not-{index:08X}:
  identification:
    drc_index: '{index:08X}'
  allow: false
"""


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Values of a paragraph.

    :param traits: Traits besides the generated ones.
    :param once: Whether its devices are for one-time use.
    """

    resource_class: str = CLASSES[0]
    traits: frozenset = frozenset()
    once: bool = False


@dataclasses.dataclass(frozen=True)
class Content:
    """Contents of an inventory file.

    :param paragraphs: Paragraphs by vendor id.
    :param denied: DRC indexes that are never offered.
    :param broken: '' or one of :data:`BROKEN`.
    """

    paragraphs: tuple = ((GPU, Paragraph()),)
    denied: frozenset = frozenset()
    broken: str = ''

    def of(self, vendor, index):
        """Return the paragraph that identifies a card, or None."""
        if index in self.denied:
            return None
        return dict(self.paragraphs).get(vendor)

    def changed(self, vendor, **changes):
        """Return contents with a changed or new paragraph of a vendor."""
        paragraphs = dict(self.paragraphs)
        paragraph = paragraphs.get(vendor, Paragraph())
        paragraphs[vendor] = dataclasses.replace(paragraph, **changes)
        return self._with(paragraphs)

    def without(self, vendor):
        """Return contents without the paragraph of a vendor."""
        paragraphs = dict(self.paragraphs)
        paragraphs.pop(vendor, None)
        return self._with(paragraphs)

    def denying(self, denied):
        """Return contents that deny exactly these slots."""
        return dataclasses.replace(self, denied=frozenset(denied))

    def breaking(self, how):
        """Return contents that are invalid."""
        return dataclasses.replace(self, broken=how)

    def _with(self, paragraphs):
        kept = tuple(sorted(paragraphs.items()))
        return dataclasses.replace(self, paragraphs=kept)

    @property
    def is_empty(self):
        """Whether there is no paragraph; so it is without a file."""
        return self.broken in ('gone', 'empty') or not (
            self.paragraphs or self.denied
        )

    @property
    def text(self):
        """Text of the file; None for no file."""
        if self.broken == 'gone':
            return None
        if self.broken == 'torn':
            return 'gpus: {identification: '
        if self.is_empty:
            return '# nothing\n'
        return ''.join(
            _PARAGRAPH.format(
                name=f'vendor-{vendor}',
                vendor=vendor,
                resource_class=paragraph.resource_class,
                traits=_traits(paragraph.traits),
                once=str(paragraph.once).lower(),
            )
            for vendor, paragraph in self.paragraphs
        ) + ''.join(_DENIAL.format(index=i) for i in sorted(self.denied))


def _traits(traits):
    listed = ', '.join(sorted(traits))
    return f'  traits: [{listed}]\n' if listed else ''


class File:
    """An inventory file and the processes that read it.

    :param path: Path of the file.
    """

    def __init__(self, path):
        self.path = path
        self.content = Content()
        # The last content that could be used.
        self.good = self.content
        self._version = 0
        self.write(self.content)

    def write(self, content):
        """Replace the file."""
        self.content = content
        if not content.broken:
            self.good = content
        self._version += 1
        if content.text is None:
            if os.path.exists(self.path):
                os.unlink(self.path)
            return
        with open(self.path + '.edited', 'w') as file:
            file.write(content.text)
        # A clock that tells each edit from the last one.
        moment = 10**18 + self._version
        os.utime(self.path + '.edited', ns=(moment, moment))
        os.rename(self.path + '.edited', self.path)

    def reader(self):
        """Return what a service that starts now has in force."""
        return Reader(self)


class Reader:
    """The contents that are in force in a process."""

    def __init__(self, file):
        self._file = file
        self._seen = file._version
        self.in_force = _meaning(file.content)

    def look(self):
        """Look at the file; two equal looks in turn apply it."""
        content = self._file.content
        if self._seen == self._file._version and content.broken != 'torn':
            meaning = _meaning(content)
            if not (content.is_empty and self.in_force != meaning):
                self.in_force = meaning
        self._seen = self._file._version


def _meaning(content):
    return Content(()) if content.is_empty else content
