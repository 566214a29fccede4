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

"""The checks of ``partition --slot``, in the order of a life of an LPAR.

The LPAR never boots. It is removed after the last check, whatever happens.
"""

from nova_powervm.powervm.check import slot_trial
from nova_powervm.powervm.check import trial
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import partition_checks

_Trial = slot_trial.SlotTrial
_Answer = answers.Answer

_OFF, _COPES, _UNFIT = (
    answers.Meaning.OFF,
    answers.Meaning.COPES,
    answers.Meaning.UNFIT,
)
#: Seconds after which something was shown; null if it was not in time.
_AFTER: answers.Schema = {'type': ['integer', 'null'], 'minimum': 0}
_with_lpar = answers.needs('lpar', 'there is no LPAR')


def _creation(this: _Trial) -> _Answer:
    # What later readings are compared with.
    this.has_owner(conditional=True)
    made = this.make()
    return _agreeing(made.differences(this.spec))


def _agreeing(wrong: list[str]) -> _Answer:
    return answers.judged(not wrong, not wrong, answers.listed(wrong))


@_with_lpar
def _owner(this: _Trial) -> _Answer:
    return _at_once(this.seconds_until(this.has_owner))


def _at_once(seconds: int | None) -> _Answer:
    why = f'not within {slot_trial.OWNER_TRIES} seconds'
    return answers.judged(
        seconds == 0, seconds, why if seconds is None else ''
    )


@_with_lpar
def _conditional(this: _Trial) -> _Answer:
    if not this.has_owner():
        return answers.unknown('the host does not show the owner')
    found = this.has_owner(conditional=True)
    return answers.judged(found, found)


@_with_lpar
def _second(this: _Trial) -> _Answer:
    return answers.refused(this.give_to_second())


@_with_lpar
def _twice(this: _Trial) -> _Answer:
    return answers.refused(this.give_twice())


@_with_lpar
def _start(this: _Trial) -> _Answer:
    if [*this.read().slots] != [this.slot.drc_index]:
        return answers.unknown('the LPAR does not have exactly the slot')
    return partition_checks.in_state(this.start(), slot_trial.AT_FIRMWARE)


@_with_lpar
def _running_owner(this: _Trial) -> _Answer:
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR is off')
    found = this.has_owner()
    return answers.judged(found, found)


@_with_lpar
def _stop(this: _Trial) -> _Answer:
    if this.state() == trial.OFF:
        return answers.unknown('the LPAR is off')
    return partition_checks.in_state(this.stop(hard=True), trial.OFF)


@_with_lpar
def _kept(this: _Trial) -> _Answer:
    if this.state() != trial.OFF:
        return answers.unknown('the LPAR is not off')
    return _agreeing(
        [
            *this.read().differences(this.spec),
            *([] if this.has_owner() else ['the LPAR is not its owner']),
        ]
    )


@_with_lpar
def _removal(this: _Trial) -> _Answer:
    wrong = this.take_slot()
    if wrong:
        return answers.judged(False, None, answers.listed(wrong))
    return _at_once(this.seconds_until(this.is_free))


@_with_lpar
def _return(this: _Trial) -> _Answer:
    return _agreeing(this.give_slot())


@_with_lpar
def _deletion(this: _Trial) -> _Answer:
    this.remove_lpar()
    left = this.leftovers()
    return answers.judged(not left, len(left), answers.listed(left))


@_with_lpar
def _freed(this: _Trial) -> _Answer:
    return _at_once(this.seconds_until(this.is_free))


_Check = answers.Check
_YES_OR_NO = answers.YES_OR_NO
CHECKS: tuple[_Check[_Trial], ...] = (
    _Check(
        'slot-creation',
        'Creation with a slot',
        'A new LPAR has the slot that it was made with, as a required one.',
        'by making one as the driver does, and reading it',
        _UNFIT,
        'The driver removes each LPAR with a device again.',
        _YES_OR_NO,
        _creation,
    ),
    _Check(
        'slot-owner',
        'Owner of a slot',
        'The host shows the owner of a slot as soon as the LPAR is made.',
        'slots of ``ManagedSystem``, or profiles on a host that reports no '
        'owners; the value is the number of seconds',
        _OFF,
        'Assign slots of this host through the driver only: a slot that '
        'another partition has may be offered.',
        _AFTER,
        _owner,
    ),
    _Check(
        'slot-etag',
        'Unchanged hosts',
        'A host whose slot has a new owner is not reported as unchanged.',
        'by a conditional request for ``ManagedSystem``',
        _OFF,
        'The driver does not notice slots that others take. Assign slots of '
        'this host through the driver only.',
        _YES_OR_NO,
        _conditional,
    ),
    _Check(
        'second-owner',
        'Second owners',
        'A slot is refused to a second LPAR.',
        'by making another one with it, off as the first',
        _COPES,
        'Only Placement and the driver protect a slot in two profiles.',
        _YES_OR_NO,
        _second,
    ),
    _Check(
        'slot-twice',
        'Slots named twice',
        'An LPAR whose document names a slot twice is refused.',
        'by changing the document',
        _COPES,
        'The driver names each slot once.',
        _YES_OR_NO,
        _twice,
    ),
    _Check(
        'slot-start',
        'Start with a slot',
        'An LPAR with a slot starts to its SMS menus.',
        '``PowerOn`` with ``bootmode=sms``, and ``quick/PartitionState`` for '
        'up to a minute, of which 20 seconds may be ``running``; it is '
        'stopped if it is anywhere else then',
        _OFF,
        'Servers with this device may not start. If the value is '
        '``running``, look whether something has booted from the device.',
        partition_checks.STATES,
        _start,
    ),
    _Check(
        'running-owner',
        'Owner that runs',
        'The host shows the owner of a slot while the LPAR runs.',
        'as before',
        _OFF,
        'The slot of a running server may be offered.',
        _YES_OR_NO,
        _running_owner,
    ),
    _Check(
        'slot-stop',
        'Stop with a slot',
        'An LPAR at its SMS menus can be stopped at once.',
        '``PowerOff`` with ``immediate``',
        _UNFIT,
        'Servers with devices could not be deleted.',
        partition_checks.STATES,
        _stop,
    ),
    _Check(
        'slot-kept',
        'Slots of LPARs that are off',
        'An LPAR that was stopped keeps its slot, as a required one.',
        'document of the LPAR, and owner of the slot',
        _OFF,
        'The driver gives a server its slot again when it starts, if nobody '
        'has taken it meanwhile.',
        _YES_OR_NO,
        _kept,
    ),
    _Check(
        'slot-removal',
        'Removal of a slot',
        'An LPAR that is off can give its slot up, which is free at once.',
        'by changing the document; the value is the number of seconds',
        _OFF,
        'Do not resize servers with devices.',
        _AFTER,
        _removal,
    ),
    _Check(
        'slot-return',
        'Addition of a slot',
        'An LPAR that is off gets a slot, as a required one.',
        'by changing the document',
        _OFF,
        'Do not resize servers with devices.',
        _YES_OR_NO,
        _return,
    ),
    _Check(
        'slot-deletion',
        'Deletion with a slot',
        'An LPAR with a slot can be deleted, and leaves nothing.',
        'by looking for it; the value counts what stays',
        _UNFIT,
        'Servers with devices could not be deleted.',
        answers.COUNT,
        _deletion,
    ),
    _Check(
        'slot-freed',
        'Slots of deleted LPARs',
        'The slot of a deleted LPAR is free at once.',
        'slots as before; the value is the number of seconds',
        _OFF,
        'Free it with ``pvmctl``.',
        _AFTER,
        _freed,
    ),
)
