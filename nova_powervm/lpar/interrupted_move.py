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

"""What becomes of a resize or cold migration that nobody continues.

Each step of a move is done by one side. If its nova-compute is killed in the
step, or the message that starts it is lost, Nova never ends the move. A row of
:data:`STARTED` or :data:`AWAITED` names such a situation, and what that side
does about it.
"""

import dataclasses
import enum


class Side(enum.StrEnum):
    """A side of a move; a resize in place has both on one host."""

    SOURCE = 'source'
    DESTINATION = 'destination'


class Remedy(enum.StrEnum):
    """What is done about an interrupted move."""

    #: The server stays on its source, as it was.
    TAKE_BACK = 'take back'
    #: The same, but in ERROR until a hard reboot.
    FAIL_AT_SOURCE = 'fail at source'
    #: The server is in ERROR on its destination until a hard reboot.
    FAIL = 'fail'
    #: The same, but Nova has not yet given it its ports and slots there.
    FAIL_UNFINISHED = 'fail unfinished'
    #: The server is in ERROR back on its source until a hard reboot.
    FAIL_REVERT = 'fail revert'
    #: The server waits for its user's decision, as it should.
    AWAIT_DECISION = 'await decision'
    #: The destination removes the server once more, and the revert goes on.
    REPEAT_REVERT = 'repeat revert'
    #: The source takes the server back, as it should.
    FINISH_REVERT = 'finish revert'
    #: The source is cleaned once more, and the confirmation goes on.
    REPEAT_CONFIRM = 'repeat confirm'
    #: The server is confirmed.
    CONFIRM = 'confirm'


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """A move as Nova's records show it.

    :param status: The migration's status.
    :param task: The instance's task state.
    :param awaits_decision: Whether the instance's state is that of a move that
        waits for its confirmation.
    :param ours: The sides of the move that are on this host.
    :param places: The sides that the instance may be on, by its record.
    """

    status: str
    task: str | None
    awaits_decision: bool
    ours: frozenset[Side]
    places: frozenset[Side]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A situation in which nobody continues a move.

    :param statuses: The migration has one of these.
    :param tasks: The instance has one of these task states.
    :param actor: The side that should do the next step.
    :param place: The side that the instance is on, by its record.
    :param remedy: What the actor does.
    :param awaits_decision: Whether the situation requires that.
    """

    statuses: frozenset[str]
    tasks: frozenset[str | None]
    actor: Side
    place: Side
    remedy: Remedy
    awaits_decision: bool = False

    def fits(self, found: Situation) -> bool:
        """Return whether this is the situation, and this host's to resolve."""
        return (
            found.status in self.statuses
            and found.task in self.tasks
            and self.actor in found.ours
            and self.place in found.places
            and (found.awaits_decision or not self.awaits_decision)
        )


def _row(
    statuses: str,
    tasks: str,
    actor: Side,
    place: Side,
    remedy: Remedy,
    *,
    awaits_decision: bool = False,
) -> Row:
    return Row(
        frozenset(statuses.split()),
        frozenset(None if t == '-' else t for t in tasks.split()),
        actor,
        place,
        remedy,
        awaits_decision,
    )


_SOURCE, _DESTINATION = Side
_DELETING = 'deleting soft-deleting'

#: Steps that were in progress: only while nova-compute starts is it certain
#: that nobody is at them. Nova itself clears some task states before that.
STARTED = (
    # Killed in resize_instance.
    _row(
        'migrating post-migrating',
        '- resize_prep resize_migrating',
        _SOURCE,
        _SOURCE,
        Remedy.TAKE_BACK,
    ),
    # Killed in finish_resize, before or after the migration was finished.
    _row(
        'post-migrating error',
        'resize_finish',
        _DESTINATION,
        _DESTINATION,
        Remedy.FAIL,
    ),
    _row(
        'finished',
        'resize_finish',
        _DESTINATION,
        _DESTINATION,
        Remedy.AWAIT_DECISION,
    ),
    # Killed in confirm_resize, after the claim was dropped.
    _row(
        'confirmed',
        f'- {_DELETING}',
        _SOURCE,
        _DESTINATION,
        Remedy.CONFIRM,
        awaits_decision=True,
    ),
    # Killed in finish_revert_resize.
    _row('reverted', 'resize_reverting', _SOURCE, _SOURCE, Remedy.FAIL_REVERT),
)
#: Steps that were not begun: the message is lost if it has not arrived after
#: a while.
AWAITED = (
    # prep_resize, or resize_instance after it.
    _row(
        'accepted pre-migrating',
        '- resize_prep',
        _SOURCE,
        _SOURCE,
        Remedy.TAKE_BACK,
    ),
    # resize_instance, which came after a restart of nova-compute: as the start
    # clears the task that the step expects, the step fails, and Nova leaves
    # the task that it has set. Only another start would end that.
    _row('error', 'resize_migrating', _SOURCE, _SOURCE, Remedy.FAIL_AT_SOURCE),
    # finish_resize.
    _row(
        'post-migrating error',
        'resize_migrated',
        _DESTINATION,
        _DESTINATION,
        Remedy.FAIL_UNFINISHED,
    ),
    # confirm_resize; it may also have been killed. Nova also sends it before
    # it deletes an instance; the deletion has to be requested again then.
    _row('confirming', '-', _SOURCE, _DESTINATION, Remedy.REPEAT_CONFIRM),
    _row(
        'finished confirming',
        _DELETING,
        _SOURCE,
        _DESTINATION,
        Remedy.REPEAT_CONFIRM,
        awaits_decision=True,
    ),
    # revert_resize; it may also have been killed.
    _row(
        'finished reverting',
        'resize_reverting',
        _DESTINATION,
        _DESTINATION,
        Remedy.REPEAT_REVERT,
    ),
    # finish_revert_resize.
    _row(
        'reverted',
        'resize_reverting',
        _SOURCE,
        _DESTINATION,
        Remedy.FINISH_REVERT,
    ),
)


def find_remedy(found: Situation, rows: tuple[Row, ...]) -> Row | None:
    """Return the row of a situation; None if the move is none of its rows.

    :param found: The move.
    :param rows: :data:`STARTED` while nova-compute starts, or
        :data:`AWAITED` for a move that has not changed for a while.
    """
    return next((row for row in rows if row.fits(found)), None)
