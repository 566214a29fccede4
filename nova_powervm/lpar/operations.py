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

"""The operations that make an LPAR right, and what each of them may do.

This is the table of the design, "One plan for an LPAR", as data: an operation
of Nova's is one of these rows, and :mod:`.plan` reads nothing else of it.
"""

import dataclasses
import enum


class Creation(enum.StrEnum):
    """Whether an operation may create the LPAR."""

    NO = 'no'
    YES = 'yes'
    #: If there is none although its disks are there.
    IF_LOST = 'if it is lost'


class Stop(enum.StrEnum):
    """Whether an operation may stop the guest."""

    NO = 'no'
    #: An LPAR that has failed, and that the operation is to start.
    FAILED_ONLY = 'a failed one only'
    #: The same; one that is running is left alone.
    NEVER_RUNNING = 'never a running one'
    #: If the LPAR has to change for the operation.
    TO_CHANGE = 'where the LPAR must change'
    #: To stop or restart it is what the operation is for.
    YES = 'yes'


class Adapters(enum.StrEnum):
    """What an operation does with network adapters."""

    NO = 'no'
    #: Creates one for each port.
    MADE = 'made'
    #: Creates missing ones, and removes those of no port.
    FITTED = 'fitted'
    #: Creates missing ones only.
    MISSING = 'missing ones'
    #: Creates those of the given ports; other ports are not its business.
    ADDED = '+1'
    #: Removes those of the given ports.
    REMOVED = '-1'


class Disks(enum.StrEnum):
    """What an operation does with disks."""

    NO = 'no'
    #: Makes them: the root disk from an image.
    MADE = 'made'
    #: Uses those that the instance has in a pool.
    KEPT = "the server's own, unused elsewhere"
    #: Leaves them connected, but for a swap disk of another size.
    STAY = 'kept; swap anew if its size differs'
    #: Starts only with a root disk that no other LPAR uses.
    CHECKED = 'there, and unused elsewhere'
    #: The same for an LPAR that is off, and connects what is in the pool but
    #: not connected.
    MAPPED = 'mapped again where missing'
    #: Makes a rescue disk, and connects it before all others.
    RESCUED = 'the rescue disk first'
    #: Connects them as they were, and deletes the rescue disk.
    RESTORED = 'as before the rescue'


class Volumes(enum.StrEnum):
    """What an operation does with volumes."""

    #: Leaves them connected.
    NO = 'no'
    #: Connects all of them.
    MADE = 'connected'
    #: Connects missing ones, and disconnects those that no longer belong to
    #: the instance. Only an operation for which Nova locks the instance may:
    #: a volume could just be detached.
    FITTED = 'connected again where missing, others disconnected'
    #: Connects the given ones; others are not its business.
    ADDED = '+1'
    #: Disconnects the given ones.
    REMOVED = '-1'


class Failure(enum.StrEnum):
    """What is done if an operation fails in the middle."""

    #: Everything that was made goes.
    REMOVE = 'all that was made goes'
    #: The LPAR goes, and its disks stay.
    REMOVE_LPAR = 'LPAR and adapters go, disks stay'
    #: It is started again if it was stopped, and has its slots.
    RESTART = 'started as it was, where that is safe'
    #: The same, after its disks are connected as they were.
    RESTORE = 'order restored, started if it ran'
    #: It stays as it is, for a hard reboot.
    LEAVE = 'ERROR; hard reboot'
    #: It stays as it is, and Nova shows the server as before.
    NOTHING = 'as it was'


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table.

    :param name: What Nova asks for.
    :param creates: Whether it may create the LPAR.
    :param stops: Whether it may stop the guest.
    :param restarts: Whether a running guest starts anew.
    :param adds_slots: Whether the LPAR may get slots, which burns one-time-use
        devices.
    :param frees_slots: Whether the LPAR gives up slots that a move takes from
        it.
    :param settings: Whether the LPAR gets the memory, processors and further
        settings that the flavor says.
    :param adapters: What is done with its adapters.
    :param disks: What is done with its disks.
    :param volumes: What is done with its volumes.
    :param failure: What is done after a failure. An LPAR that was being made
        because it was lost is removed, and its disks stay.
    :param is_check: Whether its plan is not to be carried out.
    """

    name: str
    creates: Creation = Creation.NO
    stops: Stop = Stop.NO
    restarts: bool = False
    adds_slots: bool = False
    frees_slots: bool = False
    settings: bool = False
    adapters: Adapters = Adapters.NO
    disks: Disks = Disks.NO
    volumes: Volumes = Volumes.NO
    failure: Failure = Failure.NOTHING
    is_check: bool = False

    def __str__(self) -> str:
        return self.name

    def as_check(self) -> 'Operation':
        """Return the row of a check whether the operation can be done."""
        return dataclasses.replace(
            self, name=f'check of {self.name}', is_check=True
        )


SPAWN = Operation(
    'spawn',
    creates=Creation.YES,
    adds_slots=True,
    settings=True,
    adapters=Adapters.MADE,
    disks=Disks.MADE,
    volumes=Volumes.MADE,
    failure=Failure.REMOVE,
)
#: An evacuation, or the end of a move, on the host that gets the instance.
ARRIVAL = dataclasses.replace(
    SPAWN, name='arrival', disks=Disks.KEPT, failure=Failure.REMOVE_LPAR
)
#: The stop of the guest on the host that it moves away from.
DEPARTURE = Operation(
    'departure',
    stops=Stop.YES,
    disks=Disks.STAY,
    failure=Failure.RESTART,
)
#: The end of a resize within a host, or of its revert.
RESIZE = Operation(
    'resize within the host',
    stops=Stop.TO_CHANGE,
    adds_slots=True,
    frees_slots=True,
    settings=True,
    adapters=Adapters.FITTED,
    disks=Disks.STAY,
    failure=Failure.LEAVE,
)
#: The end of a revert, on the host that gets the instance back.
RETURN = Operation(
    'return',
    creates=Creation.IF_LOST,
    stops=Stop.NEVER_RUNNING,
    adds_slots=True,
    adapters=Adapters.FITTED,
    disks=Disks.MAPPED,
    failure=Failure.LEAVE,
)
START = Operation(
    'start',
    stops=Stop.FAILED_ONLY,
    adds_slots=True,
    adapters=Adapters.FITTED,
    disks=Disks.CHECKED,
)
SOFT_REBOOT = Operation(
    'soft reboot',
    stops=Stop.YES,
    restarts=True,
    adds_slots=True,
    adapters=Adapters.FITTED,
    disks=Disks.CHECKED,
    failure=Failure.RESTART,
)
HARD_REBOOT = Operation(
    'hard reboot',
    creates=Creation.IF_LOST,
    stops=Stop.YES,
    restarts=True,
    adds_slots=True,
    frees_slots=True,
    settings=True,
    adapters=Adapters.FITTED,
    disks=Disks.MAPPED,
    volumes=Volumes.FITTED,
    failure=Failure.RESTART,
)
#: Start another system; the LPAR keeps its slots, sizes and adapters.
RESCUE = Operation(
    'rescue',
    stops=Stop.YES,
    restarts=True,
    disks=Disks.RESCUED,
    failure=Failure.RESTORE,
)
UNRESCUE = Operation(
    'unrescue',
    stops=Stop.YES,
    restarts=True,
    disks=Disks.RESTORED,
    failure=Failure.LEAVE,
)
ATTACH_PORT = Operation('attachment of a port', adapters=Adapters.ADDED)
DETACH_PORT = Operation('detachment of a port', adapters=Adapters.REMOVED)
ATTACH_VOLUME = Operation('attachment of a volume', volumes=Volumes.ADDED)
DETACH_VOLUME = Operation('detachment of a volume', volumes=Volumes.REMOVED)
#: What Nova asks for each instance while nova-compute starts.
PLUG_PORTS = Operation('plugging of ports', adapters=Adapters.MISSING)

#: Those that are carried out.
ALL = (
    SPAWN,
    ARRIVAL,
    DEPARTURE,
    RESIZE,
    RETURN,
    START,
    SOFT_REBOOT,
    HARD_REBOOT,
    RESCUE,
    UNRESCUE,
    ATTACH_PORT,
    DETACH_PORT,
    ATTACH_VOLUME,
    DETACH_VOLUME,
    PLUG_PORTS,
)
