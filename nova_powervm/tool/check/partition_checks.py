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

"""The checks of the mode ``partition``, in the order of a life of an LPAR.

A check whose earlier one came to nothing cannot tell; the LPAR is removed
after the last, whatever happens.
"""

import dataclasses

from nova_powervm.powervm.check import trial
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import pool_checks

_Trial = trial.Trial

_OFF, _COPES, _UNFIT = (
    answers.Meaning.OFF,
    answers.Meaning.COPES,
    answers.Meaning.UNFIT,
)
_EVENTS: answers.Schema = {
    'type': 'array',
    'items': answers.word_of(
        'ADD_URI',
        'CACHE_CLEARED',
        'DELETE_URI',
        'HIDDEN_URI',
        'INVALID_URI',
        'MISSING_EVENTS',
        'MODIFY_URI',
        'NEW_CLIENT',
        'VISIBLE_URI',
    ),
}
#: The states of LPARs, for reports.
STATES = answers.word_of(
    trial.OFF, *trial.STARTED, 'starting', 'shutting down', 'error', 'other'
)


_refused = answers.refused
_with_lpar = answers.needs('lpar', 'there is no LPAR')
_with_disk = answers.needs('disk', 'there is no disk')
_with_mapping = answers.needs('is_mapped', 'nothing is mapped')


def in_state(state: str, *wanted: str) -> answers.Answer:
    """Return the answer about a state that is to be one of some."""
    known = state if state in STATES['enum'] else 'other'
    return answers.judged(state in wanted, known)


def _creation(this: _Trial) -> answers.Answer:
    made = this.make()
    wrong = made.differences(this.spec)
    if made.uuid != this.names.uuid:
        wrong.append(f'its UUID is {made.uuid}')
    if made.name != this.names.lpar:
        wrong.append(f'its name is {made.name}, and it is left alone')
    return answers.judged(not wrong, not wrong, answers.listed(wrong))


@_with_lpar
def _first_state(this: _Trial) -> answers.Answer:
    return in_state(this.state(), trial.OFF)


@_with_lpar
def _virtual_slots(this: _Trial) -> answers.Answer:
    found = this.read().virtual_slots
    return answers.judged(found == this.partitions.virtual_slots, found)


@_with_lpar
def _outdated(this: _Trial) -> answers.Answer:
    return _conflict(this.write_outdated())


def _conflict(status: int | None) -> answers.Answer:
    agrees = status == trial.OUTDATED
    detail = 'the outdated change was made' if status is None else ''
    return answers.judged(agrees, status or 0, detail)


@_with_lpar
def _unknown_slot(this: _Trial) -> answers.Answer:
    return _refused(this.give_unknown_slot())


@_with_lpar
def _adapter(this: _Trial) -> answers.Answer:
    wanted = this.adapter_wanted()
    if wanted is None:
        return answers.unknown('no bridge, or no VLAN that nobody has')
    this.add_adapter(wanted)
    found = this.ethernet.adapters(this.names.uuid)
    return answers.judged(wanted in found, len(found), answers.listed(found))


@_with_lpar
def _adapter_slot(this: _Trial) -> answers.Answer:
    found = [a.slot for a in this.ethernet.adapters(this.names.uuid)]
    if not found:
        return answers.unknown('there is no adapter')
    return answers.judged(found == [trial.ADAPTER_SLOT], found[0] or 0)


@_with_lpar
def _same_mac(this: _Trial) -> answers.Answer:
    found = this.ethernet.adapters(this.names.uuid)
    if not found:
        return answers.unknown('there is no adapter')
    wanted = this.adapter_wanted()
    if wanted is None:
        return answers.unknown('no VLAN that nobody has')
    # Its virtual slot would be refused anyway.
    again = dataclasses.replace(wanted, slot=None)
    return _refused(trial.refusal(lambda: this.add_adapter(again)))


@_with_lpar
def _adapter_removal(this: _Trial) -> answers.Answer:
    if not this.ethernet.adapters(this.names.uuid):
        return answers.unknown('there is no adapter')
    this.remove_adapters()
    left = this.ethernet.adapters(this.names.uuid)
    return answers.judged(not left, len(left))


@_with_lpar
def _disk(this: _Trial) -> answers.Answer:
    why = this.why_no_disk()
    if why:
        return answers.unknown(why)
    disk = this.make_disk()
    if disk is None:
        return answers.judged(False, 0)
    agrees = bool(disk.udid) and disk.capacity >= trial.DISK_GB
    return answers.judged(agrees, round(disk.capacity))


@_with_disk
def _group_space(this: _Trial) -> answers.Answer:
    taken = round(this.taken_gb(), 1)
    return answers.judged(round(taken) == trial.DISK_GB, taken)


@_with_disk
def _outdated_group(this: _Trial) -> answers.Answer:
    return _conflict(this.write_outdated_group())


@_with_disk
@_with_mapping
def _growth(this: _Trial) -> answers.Answer:
    size = this.grow()
    return answers.judged(size >= trial.GROWN_GB, round(size))


@_with_disk
def _damaged(this: _Trial) -> answers.Answer:
    return _refused(this.upload(trial.DAMAGED))


@_with_disk
def _short(this: _Trial) -> answers.Answer:
    return _refused(this.upload(trial.SHORT))


@_with_disk
def _upload(this: _Trial) -> answers.Answer:
    status = this.upload()
    detail = '' if status is None else f'HTTP {status}'
    return answers.judged(status is None, status is None, detail)


@_with_lpar
def _medium(this: _Trial) -> answers.Answer:
    why = this.why_no_medium()
    if why:
        return answers.unknown(why)
    made = this.make_medium()
    return answers.judged(made, made)


@_with_lpar
def _mappings(this: _Trial) -> answers.Answer:
    if not (this.disk or this.has_medium):
        return answers.unknown('there is neither disk nor medium')
    found = this.map_storage()
    slots = _slots(found)
    agrees = (
        all(len(each) == 1 for each in found.values())
        and len({*slots}) == len(found)
        and {*slots} <= {*trial.SLOTS}
    )
    return answers.judged(agrees, sorted(slots))


def _slots(found: dict[str, frozenset[int]]) -> list[int]:
    """Return the virtual slots of all that is mapped."""
    return [slot for each in found.values() for slot in each]


@_with_mapping
def _remapping(this: _Trial) -> answers.Answer:
    if not (this.disk and this.has_medium):
        return answers.unknown('there is no disk, or no medium')
    before = this.map_storage()
    goes = this.unmap(this.names.medium)
    after = this.map_storage()
    agrees = goes and before == after
    return answers.judged(agrees, sorted(_slots(after)))


@_with_mapping
def _outdated_mappings(this: _Trial) -> answers.Answer:
    return _conflict(this.write_outdated_mappings())


@_with_disk
@_with_mapping
def _mapped_deletion(this: _Trial) -> answers.Answer:
    return _refused(this.delete_mapped_disk())


@_with_lpar
def _start(this: _Trial) -> answers.Answer:
    return in_state(this.start(), *trial.STARTED)


@_with_lpar
def _code(this: _Trial) -> answers.Answer:
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR is off')
    code = this.reference_code()
    return answers.judged(bool(code), bool(code), code)


@_with_lpar
def _start_again(this: _Trial) -> answers.Answer:
    return in_state(this.start(), *trial.STARTED)


@_with_lpar
def _running_deletion(this: _Trial) -> answers.Answer:
    if this.state() not in trial.STARTED:
        return answers.unknown('the LPAR does not run')
    return _refused(this.delete_running())


@_with_lpar
def _running_adapter(this: _Trial) -> answers.Answer:
    wanted = this.adapter_wanted()
    if wanted is None:
        return answers.unknown('no bridge, or no VLAN that nobody has')
    if this.state() not in trial.STARTED:
        return answers.unknown('the LPAR does not run')
    if not this.read().obstacle:
        return answers.unknown('the LPAR has RMC')
    return _refused(trial.refusal(lambda: this.add_adapter(wanted)))


@_with_lpar
def _restart(this: _Trial) -> answers.Answer:
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR is off')
    return in_state(this.restart(), *trial.STARTED)


@_with_lpar
def _soft_stop(this: _Trial) -> answers.Answer:
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR is off')
    return in_state(this.stop(hard=False), trial.OFF)


@_with_lpar
def _hard_stop(this: _Trial) -> answers.Answer:
    if this.state() == trial.OFF:
        this.start()
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR does not start')
    return in_state(this.stop(hard=True), trial.OFF)


@_with_lpar
def _memory(this: _Trial) -> answers.Answer:
    if this.state() != trial.OFF:
        return answers.unknown('the LPAR does not stop')
    taken = this.memory_taken_mb()
    return answers.judged(taken < trial.MEMORY_MB / 2, taken)


@_with_lpar
def _stop_event(this: _Trial) -> answers.Answer:
    if this.state() != trial.OFF:
        return answers.unknown('the LPAR does not stop')
    found = this.stop_watched()
    kinds = {each.etype for each in found}
    return answers.judged(
        this.is_told(found), sorted(kinds & {*_EVENTS['items']['enum']})
    )


@_with_lpar
def _storage_removal(this: _Trial) -> answers.Answer:
    if not (this.disk or this.has_medium):
        return answers.unknown('there is neither disk nor medium')
    this.remove_storage()
    return _left(
        [each for each in this.leftovers() if not each.startswith('LPAR ')]
    )


def _left(left: list[str]) -> answers.Answer:
    return answers.judged(not left, len(left), answers.listed(left))


@_with_lpar
def _deletion(this: _Trial) -> answers.Answer:
    this.remove_lpar()
    return _left(this.leftovers())


_Check = answers.Check
_STATUS: answers.Schema = {'type': 'integer', 'minimum': 0, 'maximum': 599}
_YES_OR_NO = answers.YES_OR_NO
_COUNT = answers.COUNT
_NUMBERS: answers.Schema = {'type': 'array', 'items': _COUNT}

_OF_LPAR = (
    _Check(
        'creation',
        'Creation',
        'An LPAR has the UUID, the name and the settings that it was made '
        'with.',
        'by making one and reading it',
        _UNFIT,
        'The driver would not find the LPARs of its instances again.',
        _YES_OR_NO,
        _creation,
    ),
    _Check(
        'first-state',
        'New LPARs',
        'A new LPAR is off.',
        '``quick/PartitionState``',
        _UNFIT,
        'It would run before it has its disks.',
        STATES,
        _first_state,
    ),
    _Check(
        'virtual-slots',
        'Virtual slots of an LPAR',
        'An LPAR has as many virtual slots as it was made with.',
        'with ``[powervm]virtual_slots``',
        _OFF,
        'Fewer volumes can be attached to an instance.',
        _COUNT,
        _virtual_slots,
    ),
    _Check(
        'lpar-etag',
        'Conflicts at an LPAR',
        'A change is refused with 412 if somebody has changed the LPAR '
        'meanwhile.',
        'by two changes with one ETag; the value is the HTTP status, 0 for '
        'a change that was made',
        _UNFIT,
        "Two writers of an LPAR would undo each other's changes, those of "
        'slots too. Do not start nova-compute with this host. Update '
        'NovaLink, and report it if that does not help.',
        _STATUS,
        _outdated,
    ),
    _Check(
        'unknown-slot',
        'Unknown slots',
        'A slot that the host does not have is refused.',
        f'by asking for the DRC index {trial.UNKNOWN_SLOT:08X}',
        _COPES,
        'The driver reads an LPAR after each change of its slots, and fails '
        'if one is missing.',
        _YES_OR_NO,
        _unknown_slot,
    ),
    _Check(
        'adapter',
        'Adapters',
        'An LPAR that is off gets an adapter with the MAC address and the '
        'VLAN that were asked for.',
        'with a VLAN that no bridge and no partition has; the value counts '
        'adapters',
        _OFF,
        'Instances would have no ports.',
        _COUNT,
        _adapter,
    ),
    _Check(
        'adapter-slot',
        'Virtual slots of adapters',
        'An adapter is at the virtual slot that was asked for.',
        f'by asking for slot {trial.ADAPTER_SLOT}, which the host would not '
        'choose itself',
        _OFF,
        'The network interfaces of guests may have other names after a '
        'rebuild or a move.',
        _COUNT,
        _adapter_slot,
    ),
    _Check(
        'same-mac',
        'Equal MAC addresses',
        'A MAC address is refused to a second adapter.',
        'by another adapter of the LPAR',
        _COPES,
        'Neutron gives each port an address of its own. Give none of them '
        'to other LPARs.',
        _YES_OR_NO,
        _same_mac,
    ),
    _Check(
        'adapter-removal',
        'Removal of adapters',
        'An adapter can be removed from an LPAR that is off.',
        'the value counts those that stay',
        _OFF,
        'Ports cannot be detached.',
        _COUNT,
        _adapter_removal,
    ),
)
_OF_STORAGE = (
    _Check(
        'disk',
        'Virtual disks',
        'A volume group makes a disk of at least the size asked for, with a '
        'UDID.',
        'with 1 GB in ``[powervm]volume_group_name``; the value is its size',
        _OFF,
        'Do not use ``[powervm]disk_driver = localdisk``.',
        _COUNT,
        _disk,
    ),
    _Check(
        'group-space',
        'Free space of a volume group',
        'A disk takes its size, in GiB, from the free space of its volume '
        'group.',
        'by how many GB less are free after it was made',
        _COPES,
        'Placement and the driver believe more or less space to be free than '
        'there is: compare with ``pvmctl vg list``.',
        {'type': 'number'},
        _group_space,
    ),
    _Check(
        'group-etag',
        'Conflicts at a volume group',
        'A change is refused with 412 if somebody has changed the volume '
        'group meanwhile.',
        'by two changes with one ETag; the value is the HTTP status, 0 for '
        'a change that was made',
        _OFF,
        'A change of the driver deletes disks that others have made since '
        'its last one. Make disks in this group by the driver only.',
        _STATUS,
        _outdated_group,
    ),
    _Check(
        'damaged-upload',
        'Damaged uploads',
        'An upload with another SHA-256 than announced is refused.',
        'by sending 64 KiB of which the last byte is wrong',
        _COPES,
        'The driver checks an image before it sends it. What is damaged on '
        'the way to the host is not noticed.',
        _YES_OR_NO,
        _damaged,
    ),
    _Check(
        'short-upload',
        'Incomplete uploads',
        'An upload with fewer bytes than announced is refused.',
        'by sending one byte less than the 64 KiB announced',
        _COPES,
        'The driver sends an image to its end, or fails.',
        _YES_OR_NO,
        _short,
    ),
    _Check(
        'upload',
        'Uploads',
        'An upload is written to a disk.',
        'by writing 64 KiB to the disk',
        _OFF,
        'Do not use ``[powervm]disk_driver = localdisk``.',
        _YES_OR_NO,
        _upload,
    ),
    _Check(
        'medium',
        'Media',
        'An upload to a media repository makes a medium.',
        'in a repository that is there; none is made',
        _OFF,
        'There are no config drives.',
        _YES_OR_NO,
        _medium,
    ),
    _Check(
        'mappings',
        'Mappings',
        'One request maps several disks and media, each at the virtual slot '
        'asked for.',
        'client adapters of the mappings; the values are their slots',
        _OFF,
        'Guests would find their disks at other places. Do not use '
        '``[powervm]disk_driver = localdisk``.',
        _NUMBERS,
        _mappings,
    ),
    _Check(
        'remapping',
        'Change of one mapping',
        'A mapping can be removed and made again at its virtual slot, and '
        'the others stay.',
        'with the mapping of the medium, while the LPAR is off; the values '
        'are the slots afterwards',
        _OFF,
        'After a resize or a rescue guests may find their disks at other '
        'places.',
        _NUMBERS,
        _remapping,
    ),
    _Check(
        'mapping-etag',
        'Conflicts at mappings',
        'A change is refused with 412 if somebody has changed the mappings of '
        'the Virtual I/O Server meanwhile.',
        'by writing them as they are, with the ETag before the last change; '
        'the value is the HTTP status, 0 for a change that was made',
        _OFF,
        'A change of the driver deletes mappings that others make meanwhile. '
        'Connect disks on this host by the driver only.',
        _STATUS,
        _outdated_mappings,
    ),
    _Check(
        'growth',
        'Growth of disks',
        'A disk that is mapped to an LPAR that is off can be enlarged.',
        'its size in GB after a change to 3',
        _OFF,
        'Do not resize instances.',
        _COUNT,
        _growth,
    ),
    _Check(
        'mapped-deletion',
        'Deletion of mapped disks',
        'A disk that is mapped cannot be deleted.',
        'by deleting it',
        _COPES,
        'The driver unmaps disks first.',
        _YES_OR_NO,
        _mapped_deletion,
    ),
)
_OF_POWER = (
    _Check(
        'start',
        'Start',
        'An LPAR without an operating system starts.',
        '``quick/PartitionState`` after the job',
        _UNFIT,
        'Instances would not start.',
        STATES,
        _start,
    ),
    _Check(
        'reference-code',
        'Reference codes',
        'An LPAR that runs shows a reference code within ten seconds.',
        '``ReferenceCode``',
        _COPES,
        'Faults and diagnostics of instances do not show one.',
        _YES_OR_NO,
        _code,
    ),
    _Check(
        'second-start',
        'Second start',
        'A start of an LPAR that runs leaves it running.',
        'by starting it again',
        _UNFIT,
        'A start that is repeated would fail.',
        STATES,
        _start_again,
    ),
    pool_checks.IN_USE,
    _Check(
        'running-deletion',
        'Deletion of a running LPAR',
        'An LPAR that runs cannot be deleted.',
        'by deleting it',
        _COPES,
        'The driver stops LPARs first.',
        _YES_OR_NO,
        _running_deletion,
    ),
    _Check(
        'running-adapter',
        'Adapters without RMC',
        'An LPAR that runs without RMC gets no adapter.',
        'by giving it one, with a VLAN that nobody has',
        _COPES,
        'The driver refuses to attach a port without RMC.',
        _YES_OR_NO,
        _running_adapter,
    ),
    _Check(
        'restart',
        'Restart',
        'An LPAR can be restarted at once.',
        '``quick/PartitionState`` after ``PowerOff`` with ``restart``',
        _OFF,
        'Hard reboots fail.',
        STATES,
        _restart,
    ),
    _Check(
        'soft-stop',
        'Stop by the firmware',
        'An LPAR without RMC stops when its firmware is asked.',
        '``PowerOff`` with ``shutdown``, for at most two minutes',
        _COPES,
        'The driver stops an instance at once when the time for a clean '
        'shutdown is over.',
        STATES,
        _soft_stop,
    ),
    _Check(
        'hard-stop',
        'Stop at once',
        'An LPAR can be stopped at once.',
        '``PowerOff`` with ``immediate``',
        _UNFIT,
        'Instances could not be deleted.',
        STATES,
        _hard_stop,
    ),
    pool_checks.UNUSED,
    _Check(
        'memory-off',
        'Memory of an LPAR that is off',
        'An LPAR that is off leaves its memory to others.',
        'by how many MB less are free than before it was made',
        _COPES,
        'It keeps its memory, as in Placement, and always starts again.',
        {'type': 'integer'},
        _memory,
    ),
    _Check(
        'stop-event',
        'Events of a stop',
        'An event tells that an LPAR has stopped.',
        'by a start and a stop with a queue for events; the values are the '
        'types of the events after the start',
        _COPES,
        'Nova notices it in its periodic task '
        '(``[DEFAULT]sync_power_state_interval``).',
        _EVENTS,
        _stop_event,
    ),
)
_OF_REMOVAL = (
    _Check(
        'storage-removal',
        'Deletion of disks',
        'Disks and media that are unmapped can be deleted.',
        'by looking for them; the value counts what stays',
        _UNFIT,
        'Instances would leave their disks behind.',
        _COUNT,
        _storage_removal,
    ),
    _Check(
        'deletion',
        'Deletion',
        'An LPAR that is off can be deleted, and leaves nothing.',
        'by looking for it and its parts; the value counts what stays',
        _UNFIT,
        'Instances could not be deleted.',
        _COUNT,
        _deletion,
    ),
)
CHECKS: tuple[answers.Check[_Trial], ...] = (
    *_OF_LPAR,
    *_OF_STORAGE,
    *pool_checks.CHECKS,
    *_OF_POWER,
    *_OF_REMOVAL,
)
