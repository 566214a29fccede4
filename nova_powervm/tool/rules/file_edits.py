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

"""Commands that take a slot out of a file of slots, or put it in.

A command is proposed only if the file that it would leave is valid, and does
with the slot what was wanted.
"""

import dataclasses
import shlex
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

_PLACES = ('drc_index', 'drc_name')


@dataclasses.dataclass(frozen=True, slots=True)
class SlotFile:
    """Nova's inventory file, or Cyborg's file of the same form.

    :param path: Its path.
    :param text: Its text; empty if there is no such file.
    :param policy: Its content; None if it could not be read.
    :param problem: Why it could not be read.
    """

    path: str
    text: str = ''
    policy: policies.Policy | None = None
    problem: str = ''

    @property
    def is_empty(self) -> bool:
        """Whether it can be read, but has no paragraph."""
        return self.policy is not None and not self.policy.paragraphs

    def judge(
        self, slot: slots.Slot, io_slots: Collection[slots.Slot]
    ) -> matching.Verdict | None:
        """Return what the file says about a slot.

        :param slot: The slot.
        :param io_slots: All slots of the host.
        """
        verdicts = matching.judge(self.policy or policies.Policy(), io_slots)
        return next((v for v in verdicts if v.slot == slot), None)

    def giving(
        self, slot: slots.Slot, io_slots: Collection[slots.Slot]
    ) -> policies.Paragraph | None:
        """Return the paragraph that gives a slot away, if none denies it."""
        verdict = self.judge(slot, io_slots)
        if verdict is None or verdict.denials or not verdict.paragraphs:
            return None
        return verdict.paragraphs[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """A change of a file.

    :param what: The change in words.
    :param command: The command that makes it; empty if an editor is needed.
    :param removes: Whether it removes the paragraph with the slot's class.
    """

    what: str
    command: str = ''
    removes: bool = False


def take_out(
    file: SlotFile, slot: slots.Slot, io_slots: Collection[slots.Slot]
) -> Edit:
    """Propose how to take a slot out of a file that gives it away.

    :param file: The file.
    :param slot: The slot.
    :param io_slots: All slots of the host.
    """
    paragraph = file.giving(slot, io_slots)
    if paragraph is not None and _is_only_for(paragraph, slot, io_slots):
        command = _removal(file, [paragraph])
        if _leaves(file, _without(file, [paragraph]), slot, io_slots, False):
            return Edit(
                f'remove {paragraph}, which identifies it',
                command,
                removes=True,
            )
    return dataclasses.replace(
        deny(file, slot, io_slots),
        what=f'{paragraph} identifies it: narrow it, or deny the slot',
    )


def deny(
    file: SlotFile, slot: slots.Slot, io_slots: Collection[slots.Slot]
) -> Edit:
    """Propose a paragraph that denies a slot.

    :param file: The file.
    :param slot: The slot.
    :param io_slots: All slots of the host.
    """
    lines = _paragraph(file, 'not', slot, ['  allow: false'])
    edit = Edit('add a paragraph that denies the slot')
    if _leaves(file, _appended(file, lines), slot, io_slots, False):
        return dataclasses.replace(edit, command=_appending(file, lines))
    return edit


def put_in(
    file: SlotFile,
    slot: slots.Slot,
    io_slots: Collection[slots.Slot],
    resource_class: str,
) -> Edit:
    """Propose how to let a file give a slot away.

    :param file: A file that does not give it away.
    :param slot: The slot.
    :param io_slots: All slots of the host.
    :param resource_class: The class for a new paragraph.
    """
    verdict = file.judge(slot, io_slots)
    denials = verdict.denials if verdict else ()
    if denials:
        edit = Edit(f'remove or narrow {_join(denials)}, which denies it')
        removable = all(_is_only_for(p, slot, io_slots) for p in denials)
        if removable and verdict and verdict.paragraphs:
            rest = _without(file, denials)
            if _leaves(file, rest, slot, io_slots, True):
                return dataclasses.replace(
                    edit, command=_removal(file, denials)
                )
        return edit
    lines = _paragraph(
        file, 'slot', slot, [f'  resource_class: {resource_class}']
    )
    edit = Edit('add a paragraph that identifies it')
    if _leaves(file, _appended(file, lines), slot, io_slots, True):
        return dataclasses.replace(edit, command=_appending(file, lines))
    return edit


def _join(paragraphs: Iterable[policies.Paragraph]) -> str:
    return ' and '.join(map(str, paragraphs))


def _is_only_for(
    paragraph: policies.Paragraph,
    slot: slots.Slot,
    io_slots: Collection[slots.Slot],
) -> bool:
    """Return whether a paragraph is about this slot and no other."""
    return any(key in paragraph.identification for key in _PLACES) and all(
        other == slot or not paragraph.identifies(other) for other in io_slots
    )


def _leaves(
    file: SlotFile,
    text: str,
    slot: slots.Slot,
    io_slots: Collection[slots.Slot],
    is_given: bool,
) -> bool:
    """Return whether services take a text, and it gives the slot away or not.

    A running service refuses a file that has lost its last paragraph.
    """
    try:
        policy = inventory_file.parse(text, file.path)
    except exception.PolicyInvalid:
        return False
    if not policy.paragraphs:
        return False
    after = dataclasses.replace(file, policy=policy)
    return (after.giving(slot, io_slots) is not None) == is_given


def _paragraph(
    file: SlotFile, prefix: str, slot: slots.Slot, settings: Sequence[str]
) -> list[str]:
    """Write a paragraph for one slot.

    A file can be for many hosts, whose DRC indexes repeat. The location code
    has the serial number of the enclosure.
    """
    name = f'{prefix}-{slot.drc_hex}'
    taken = {p.name for p in (file.policy or policies.Policy()).paragraphs}
    while name in taken:
        name += '-too'
    lines = [
        f'{name}:',
        '  identification:',
        f'    drc_index: "{slot.drc_hex}"',
    ]
    if slot.drc_name:
        lines.append(f'    drc_name: "{slot.drc_name}"')
    return [*lines, *settings]


def _appended(file: SlotFile, lines: Iterable[str]) -> str:
    return f'{file.text}\n' + ''.join(f'{line}\n' for line in lines)


def _appending(file: SlotFile, lines: Iterable[str]) -> str:
    # The last line of the file may have no end.
    words = ['', *lines] if file.text else list(lines)
    return (
        f"printf '%s\\n' {' '.join(map(shlex.quote, words))} >> "
        f'{shlex.quote(file.path)}'
    )


def _without(file: SlotFile, paragraphs: Iterable[policies.Paragraph]) -> str:
    lines = file.text.splitlines(keepends=True)
    for paragraph in sorted(paragraphs, key=lambda p: -p.line):
        first, last = _range(file, paragraph)
        del lines[first - 1 : last]
    return ''.join(lines)


def _removal(file: SlotFile, paragraphs: Iterable[policies.Paragraph]) -> str:
    ranges = sorted(_range(file, paragraph) for paragraph in paragraphs)
    script = ';'.join(f'{first},{last}d' for first, last in ranges)
    return f"sed -i '{script}' {shlex.quote(file.path)}"


def _range(file: SlotFile, paragraph: policies.Paragraph) -> tuple[int, int]:
    """Return the first and the last line of a paragraph.

    It ends before the next line at the margin. Empty lines and comments before
    that belong to what follows.
    """
    lines = file.text.splitlines()
    last = paragraph.line
    for number in range(paragraph.line + 1, len(lines) + 1):
        line = lines[number - 1]
        if line[:1].strip() and not line.startswith('#'):
            break
        if line[:1].isspace() and line.strip():
            last = number
    return paragraph.line, last
