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

"""The operations on an LPAR, and what each of them may do.

This is the table of the design, "One plan for an LPAR", as data: an operation
of Nova's is a row of it, and all that :mod:`.plan` knows of the operation.
"""

import dataclasses
import enum


class Creation(enum.StrEnum):
    """Whether an operation may create the LPAR."""

    NO = 'no'
    YES = 'yes'
    #: If the LPAR is missing although its disks are there.
    IF_LOST = 'if it is lost'


class Stop(enum.StrEnum):
    """Whether an operation may stop the guest."""

    NO = 'no'
    #: It stops only an LPAR that has failed and that it is to start.
    FAILED_ONLY = 'a failed one only'
    #: As FAILED_ONLY; a running LPAR is left alone.
    NEVER_RUNNING = 'never a running one'
    #: It stops the guest if the LPAR has to change.
    TO_CHANGE = 'where the LPAR must change'
    #: Its purpose is to stop or to restart the guest.
    YES = 'yes'


class Adapters(enum.StrEnum):
    """What an operation does with network adapters."""

    NO = 'no'
    #: Creates an adapter for each port.
    MADE = 'made'
    #: Creates missing adapters, and removes adapters that belong to no port.
    FITTED = 'fitted'
    #: Creates missing adapters only.
    MISSING = 'missing ones'
    #: Creates the adapters of the ports to attach, and looks at no other port.
    ADDED = '+1'
    #: Removes the adapters of the ports to detach.
    REMOVED = '-1'


class Disks(enum.StrEnum):
    """What an operation does with disks."""

    NO = 'no'
    #: Makes all disks, the root disk from an image.
    MADE = 'made'
    #: Uses the disks that the instance has in a pool.
    KEPT = "the server's own, unused elsewhere"
    #: Leaves the disks connected, except for a swap disk of another size.
    STAY = 'kept; swap anew if its size differs'
    #: Starts the LPAR only with a root disk that no other LPAR uses.
    CHECKED = 'there, and unused elsewhere'
    #: As CHECKED for an LPAR that is off; and connects disks that are in the
    #: pool but not connected.
    MAPPED = 'mapped again where missing'
    #: Makes a rescue disk, and connects it before all other disks.
    RESCUED = 'the rescue disk first'
    #: Connects the disks as before a rescue, and deletes the rescue disk.
    RESTORED = 'as before the rescue'


class Volumes(enum.StrEnum):
    """What an operation does with volumes."""

    #: Leaves volumes as they are.
    NO = 'no'
    #: Connects all volumes.
    MADE = 'connected'
    #: Connects missing volumes, and disconnects volumes that no longer belong
    #: to the instance. Only an operation for which Nova locks the instance, or
    #: whose task keeps it from attaching and detaching volumes, may do so:
    #: otherwise a volume could be detached at the same time.
    FITTED = 'connected again where missing, others disconnected'
    #: Disconnects them from the LPAR once its guest is off: Nova has Cinder
    #: map them to the host of the next LPAR, which may be the same.
    LEFT = 'disconnected'
    #: Connects the volumes to attach, and looks at no other volume.
    ADDED = '+1'
    #: Disconnects the volumes to detach.
    REMOVED = '-1'


class Failure(enum.StrEnum):
    """What is done if an operation fails in the middle."""

    #: Everything that was made is removed.
    REMOVE = 'all that was made goes'
    #: The LPAR is removed, and its disks stay.
    REMOVE_LPAR = 'LPAR and adapters go, disks stay'
    #: The LPAR is started again if it was stopped and still has its slots.
    RESTART = 'started as it was, where that is safe'
    #: As RESTART, after its disks are connected as before.
    RESTORE = 'order restored, started if it ran'
    #: The LPAR stays as it is, for a hard reboot.
    LEAVE = 'ERROR; hard reboot'
    #: The LPAR stays as it is, and Nova shows the server as before.
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
    :param is_check: Whether it only tells if the operation can be done.
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
        name = f'check of {self.name}'
        return dataclasses.replace(self, name=name, is_check=True)


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
#: A live migration, on the host that gets the instance; it is only checked,
#: because PowerVM makes the LPAR.
LIVE_ARRIVAL = dataclasses.replace(
    ARRIVAL,
    name='live arrival',
    disks=Disks.NO,
    volumes=Volumes.NO,
    failure=Failure.NOTHING,
)
#: The stop of the guest on the host that it moves away from.
DEPARTURE = Operation(
    'departure',
    stops=Stop.YES,
    disks=Disks.STAY,
    volumes=Volumes.LEFT,
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
    volumes=Volumes.FITTED,
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
    volumes=Volumes.FITTED,
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

#: All operations, without their checks.
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
