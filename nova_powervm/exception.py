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

"""The errors that nova-powervm raises.

Every message names the object, its place and the remedy. Code that handles
errors reads ``code``, ``retryable`` and ``fields``; people read the message.

The log has the message. Users of the cloud get ``summary``, in faults, events
and answers of the API: it is made of ``user_message``, which says only what
they may know of the host. A class without a ``user_message`` tells them no
reason.
"""

import string
from collections.abc import Iterable
from typing import Any
from typing import ClassVar

from nova_powervm import printable


def _printable(value: Any) -> Any:
    """Return a text, or the message of an error, in one line."""
    if isinstance(value, str | BaseException):
        return printable.printable(str(value))
    return value


#: The fields that a ``user_message`` can have: what users have asked for,
#: their devices, and sizes. A text in one of them is for users, too, unless it
#: is a :class:`PrivateText`.
FIELDS_FOR_USERS = frozenset({
    'asked', 'choices', 'cure', 'factor', 'flavor_gb', 'found', 'found_gb',
    'free', 'free_gb', 'image', 'key', 'kind', 'limit', 'memory_mb', 'minimum',
    'needed', 'needed_gb', 'number', 'port', 'ports', 'reason', 'region_mb',
    'second', 'seconds', 'slots', 'state', 'units', 'value', 'vcpus', 'volume',
    'wanted', 'wanted_gb', 'what',
})  # fmt: skip

#: How many characters of a message users read: Nova cuts a fault after 255
#: characters, and begins it with words of its own.
ROOM = 190
#: The end of a message of which the log has more.
REFERENCE = f' (log: req-{"x" * 36})'

#: Fields that identify the instance or its LPAR. Users know which server they
#: read about, so a message for users leaves out nothing without them.
_OWN = frozenset({
    'instance_uuid', 'lpar_uuid', 'name', 'owner', 'uuid', 'where',
})  # fmt: skip


class PrivateText(str):
    """A text for the log, in place of which users read another text.

    The text for the log may name what belongs to the host or to other users,
    or quote another service.

    :param text: The text.
    :param users: What users read.
    """

    users: str

    def __new__(cls, text: object, users: str) -> 'PrivateText':
        """Create the text."""
        private = super().__new__(cls, text)
        private.users = users
        return private


class Listing(str):
    """A text with a list, of which users read as much as Nova keeps.

    :param items: What it lists.
    :param separator: What is between them.
    :param before: What the text begins with.
    :param after: What it ends with.
    """

    items: tuple[str, ...]
    around: tuple[str, str, str]

    def __new__(
        cls,
        items: Iterable[object],
        separator: str = ', ',
        before: str = '',
        after: str = '',
    ) -> 'Listing':
        """Create the text."""
        texts = tuple(map(str, items))
        whole = f'{before}{separator.join(texts)}{after}'
        listing = super().__new__(cls, whole)
        listing.items, listing.around = texts, (separator, before, after)
        return listing

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy is made from."""
        return (self.items, *self.around)

    def first(self, count: int) -> str:
        """Return the text with some items, and the number of the others."""
        separator, before, after = self.around
        rest = len(self.items) - count
        if rest <= 0:
            return str(self)
        items = separator.join(self.items[:count])
        return f'{before}{items}{separator.strip(", ")} and {rest} more{after}'


class PowerVMError(Exception):
    """Base class of all errors that nova-powervm raises itself.

    :param fields: The values for the placeholders in ``message``, which is a
        ``str.format`` pattern. They stay readable as ``error.fields``.
    """

    #: Stable identifier of the error, for logs, tests and scripts.
    code: ClassVar[str] = 'powervm.error'
    #: Whether the same request can succeed later without intervention.
    retryable: ClassVar[bool] = False
    #: Whether the build can succeed on another host. If not, the build is
    #: aborted, so that the server fault gives the reason.
    elsewhere: ClassVar[bool] = True
    message: ClassVar[str] = '{reason}'
    #: What users read; a pattern with some of :data:`FIELDS_FOR_USERS`.
    user_message: ClassVar[str] = 'The host could not do this.'

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        super().__init__(
            self.message.format(
                **{name: _printable(value) for name, value in fields.items()}
            )
        )

    @property
    def summary(self) -> str:
        """Return the message for users.

        The fault belongs to the instance, so the message need not name it.
        Nova truncates faults after 255 characters, so the remedy comes early,
        and lists are shortened.
        """
        return self._shown()[0]

    def _shown(self) -> tuple[str, bool]:
        """Return the message for users, and whether its lists are whole."""
        listings = [v for v in self.fields.values() if isinstance(v, Listing)]
        longest = max((len(listing.items) for listing in listings), default=0)
        text = self._rendered(longest)
        if len(text) <= ROOM - len(REFERENCE) * self._is_partial:
            return text, True
        for count in range(longest - 1, 0, -1):
            text = self._rendered(count)
            if len(text) <= ROOM - len(REFERENCE):
                break
        return text, longest < 2

    def _rendered(self, count: int) -> str:
        """Return the message for users, with some items of each list."""
        return self.user_message.format(
            **{
                name: _printable(value.first(count))
                if isinstance(value, Listing)
                else _for_users(value)
                for name, value in self.fields.items()
            }
        )

    @property
    def withholds(self) -> bool:
        """Whether users read less than the log has."""
        return self._is_partial or not self._shown()[1]

    @property
    def _is_partial(self) -> bool:
        """Whether the message for users leaves something out."""
        names = _OWN | {
            name
            for _, name, _, _ in string.Formatter().parse(self.user_message)
        }
        return any(
            name not in names or _is_private(value)
            for name, value in self.fields.items()
        )


def _for_users(value: Any) -> Any:
    """Return what users read of a value."""
    if isinstance(value, PrivateText):
        return value.users
    if isinstance(value, PowerVMError):
        return value.summary
    if isinstance(value, BaseException):
        # As Nova does with errors that are not its own.
        return type(value).__name__
    return _printable(value)


def _is_private(value: Any) -> bool:
    if isinstance(value, PowerVMError):
        return value.withholds
    return isinstance(value, PrivateText | BaseException)


class ConfigurationError(PowerVMError):
    """An option or file set by the operator is invalid."""

    code = 'powervm.configuration'
    user_message = 'The configuration of the host has to be corrected.'


class PolicyInvalid(ConfigurationError):
    """The inventory file is invalid; the message lists every problem."""

    code = 'powervm.policy.invalid'
    message = '{path}: {count} problem(s) in the inventory file:\n{problems}'


class DeviceConflict(ConfigurationError):
    """Two paragraphs of the inventory file identify the same device."""

    code = 'powervm.policy.conflict'
    message = (
        '{path}: {conflicts}. Change the identification sections so that '
        'each device is identified by one paragraph only.'
    )


class PlacementUnanswered(PowerVMError):
    """Placement did not answer a question that an update or a burn needs."""

    code = 'powervm.placement'
    retryable = True
    message = (
        'Placement did not answer {request}: {reason}. Until it does, no '
        'one-time-use device and no new trait of the file is published; the '
        'next cycle tries again.'
    )
    user_message = 'Placement does not answer. Try again later.'


class ProvidersUnknown(PowerVMError):
    """Placement did not say which providers Cyborg's slots have."""

    code = 'powervm.placement.providers'
    retryable = True
    message = (
        'Placement did not answer GET {path}: {reason}. Nothing is reported '
        'to Cyborg, which keeps what it has; the next period tries again.'
    )
    user_message = 'Placement does not answer. Try again later.'


class CyborgUnanswered(PowerVMError):
    """Cyborg's API did not answer a question of Cyborg's driver."""

    code = 'powervm.cyborg'
    retryable = True
    message = "Cyborg's API did not answer GET {path}: {reason}"
    user_message = 'Cyborg does not answer. Try again later.'


class RestUnreachable(PowerVMError):
    """The PowerVM REST server did not answer."""

    code = 'powervm.rest.unreachable'
    retryable = True
    message = 'The PowerVM REST server at {server} does not answer: {reason}'
    user_message = (
        'The management service of the host does not answer. Try again later.'
    )


class RestSilent(RestUnreachable):
    """The server accepted a request, but its answer has not come to an end.

    The request is not repeated at once: a read would only wait as long again,
    and a write may have been carried out.
    """

    code = 'powervm.rest.silent'


class RestRefusedLogin(ConfigurationError):
    """The PowerVM REST server rejected the credentials."""

    code = 'powervm.rest.login'
    message = (
        'The PowerVM REST server at {server} refused the login of '
        '{username}: {reason}. Check [powervm]rest_username and '
        '[powervm]rest_password; for a local session, check that '
        'nova-compute may read the NovaLink session file.'
    )


class ServerIsHmc(ConfigurationError):
    """The REST server is an HMC, which the driver must not use."""

    code = 'powervm.rest.hmc'
    message = (
        'The PowerVM REST server at {server} is an HMC. The driver needs a '
        'NovaLink partition: on an HMC it would take the partitions of other '
        'systems for its own. Point [powervm]rest_url at one.'
    )


class RestError(PowerVMError):
    """The PowerVM REST server answered a request with an error."""

    code = 'powervm.rest.error'
    message = 'PowerVM REST {action} failed: {reason}'
    user_message = 'The host could not do this.'

    @property
    def summary(self) -> str:
        """Return the message, with the code on the server's panel."""
        code = self.fields.get('reference_code')
        panel = f' It shows reference code {code}.' if code else ''
        return super().summary + printable.printable(panel)


class NotStarted(RestError):
    """The job that starts an LPAR has succeeded, but the LPAR does not run."""

    code = 'powervm.partition.start'
    user_message = 'The server did not start: its state is "{state}".'


class RestRefused(RestError):
    """The host refuses what a request asks for."""

    code = 'powervm.rest.refused'
    user_message = 'The host refuses this.'


class RestBusy(RestError):
    """The server cannot serve the request at the moment."""

    code = 'powervm.rest.busy'
    retryable = True
    user_message = 'The host is busy. Try again later.'


class ViosBusy(RestBusy):
    """A Virtual I/O Server is busy with another request."""

    code = 'powervm.rest.vios_busy'


class RestConflict(RestError):
    """Another client has changed the resource since it was read (HTTP 412)."""

    code = 'powervm.rest.conflict'
    retryable = True
    user_message = 'The host is busy. Try again later.'


class SlotsVanished(RestBusy):
    """The host no longer reports any of its I/O slots."""

    code = 'powervm.system.slots'
    message = (
        'The managed system no longer reports any of its {count} I/O slots. '
        'For another {seconds} seconds this counts as a fault: devices stay '
        'published as they are, and none is given to an instance. If the '
        'slots are really gone, wait; if not, check `pvmctl ioslot list` and '
        'restart pvm-rest.'
    )


class WrongSystemCount(ConfigurationError):
    """The REST server does not manage exactly one system."""

    code = 'powervm.system.count'
    message = (
        'The PowerVM REST server at {server} manages {count} systems '
        '({names}); a nova-compute service runs exactly one. Point '
        '[powervm]rest_url at a NovaLink partition.'
    )


class PartitionNotFound(PowerVMError):
    """The LPAR does not exist on the host."""

    code = 'powervm.partition.missing'
    message = 'There is no LPAR {uuid} on the host.'
    user_message = 'The server is not on the host.'


class PartitionNotStartable(PowerVMError):
    """An LPAR is in a state in which it cannot or must not be started."""

    code = 'powervm.partition.state'
    message = (
        'LPAR {name} of instance {instance_uuid} is in the state "{state}": '
        '{reason}.'
    )
    user_message = 'The server is in the state "{state}": {reason}.'


class StatesUnknown(PowerVMError):
    """The host does not report whether the LPARs of instances are running."""

    code = 'powervm.partition.unknown'
    retryable = True
    message = 'The power state of {lpars} is unknown: {reason}'
    user_message = 'The power state of the server is unknown. Try again later.'


class StatesStayUnknown(StatesUnknown):
    """The states of some LPARs remain unknown.

    The host has been reporting other LPARs' states for a while.
    """

    code = 'powervm.partition.stays-unknown'
    retryable = False


class PartitionConflict(PowerVMError):
    """An LPAR cannot be created because another one is in the way."""

    code = 'powervm.partition.conflict'
    message = 'LPAR {name} ({uuid}) cannot be created: {reason}'
    user_message = 'The LPAR of the server cannot be created.'


class MemorySizeRefused(PowerVMError):
    """The flavor's memory is not a multiple of the memory region size."""

    code = 'powervm.partition.memory'
    elsewhere = False
    message = (
        'The flavor asks for {memory_mb} MiB of memory, which is not a '
        "multiple of the host's memory region size of {region_mb} MiB. The "
        'nearest valid sizes are {choices} MiB.'
    )
    user_message = message


class ProcessorsRefused(PowerVMError):
    """The flavor's vCPUs violate the host's processor rules."""

    code = 'powervm.partition.processors'
    elsewhere = False
    message = (
        'With [powervm]proc_units_factor={factor}, the {vcpus} vCPUs of the '
        'flavor get {units} processing units, but the host requires '
        '{minimum} for each vCPU. Set the option to {minimum} or more.'
    )
    user_message = message


class TooManyProcessors(PowerVMError):
    """The host has no LPARs with so many processors."""

    code = 'powervm.partition.processor_limit'
    message = (
        'The LPAR is to have up to {number} {kind} processors, but the host '
        'allows {limit}. Use a flavor with fewer vCPUs or, if it has one, a '
        'smaller powervm:max_vcpu.'
    )
    user_message = message


class ExtraSpecRefused(PowerVMError):
    """An extra spec of the flavor is invalid or impossible."""

    code = 'powervm.flavor.extra_spec'
    elsewhere = False
    message = 'The flavor has {key}={value}: {reason}.'
    user_message = message


class ExtraSpecUnsupported(ExtraSpecRefused):
    """This host does not support an extra spec of the flavor."""

    code = 'powervm.flavor.unsupported'
    elsewhere = True


class AixUnsupported(PowerVMError):
    """This host cannot run AIX."""

    code = 'powervm.image.aix'
    message = (
        'The image has os_distro=aix, but the host cannot run AIX. With the '
        'image property trait:CUSTOM_POWERVM_AIX=required, the scheduler '
        'chooses a host that can.'
    )
    user_message = message


class InsufficientCapacity(PowerVMError):
    """The host has not enough free processors or memory."""

    code = 'powervm.partition.capacity'
    retryable = True
    message = (
        'The LPAR needs {needed} more {what}, but the host has {free} free. '
        'Stop or move other LPARs of the host, or use a smaller flavor.'
    )
    user_message = message


class ClaimFailed(PowerVMError):
    """The allocated devices cannot be given to the instance."""

    code = 'powervm.device.claim'
    message = 'Instance {instance_uuid}: {reason}'
    user_message = '{reason}'


class BurnLimitReached(PowerVMError):
    """A project has burned as many one-time-use devices as it may."""

    code = 'powervm.device.burns'
    retryable = True
    message = (
        'the project may use up {limit} one-time-use device(s) of a host in '
        'an hour, and would exceed that with {asked} more. Try again later, '
        'or use a server that exists'
    )
    user_message = message


class ForeignDevice(ClaimFailed):
    """The allocation contains a device that this driver does not manage."""

    code = 'powervm.device.foreign'
    elsewhere = False


class AcceleratorRefused(ClaimFailed):
    """A Cyborg accelerator request cannot be served on this host."""

    code = 'powervm.device.accelerator'
    elsewhere = False


class AcceleratorsUnknown(PowerVMError):
    """Cyborg does not report which accelerators an instance has."""

    code = 'powervm.device.cyborg'
    retryable = True
    message = (
        'Cyborg does not report which accelerators instance {instance_uuid} '
        'has: {reason}. The instance is left as it is.'
    )
    user_message = (
        'Cyborg does not report which accelerators the server has: {reason}. '
        'The server is left as it is.'
    )


class CyborgSilent(AcceleratorsUnknown):
    """Cyborg does not answer, or not usefully, for any instance."""

    code = 'powervm.device.cyborg-silent'


class OwnersDiffer(ConfigurationError):
    """Devices are both allocated through Nova and managed by Cyborg."""

    code = 'powervm.device.owners'
    message = (
        'Devices are both allocated through Nova and managed by Cyborg: '
        "{conflicts}. Remove the devices from Cyborg's configuration, or "
        'delete the instances that have them.'
    )


class SlotsDiffer(PowerVMError):
    """An operation is refused, because an LPAR has a slot too many."""

    code = 'powervm.device.slots'
    message = (
        'LPAR {name} of instance {instance_uuid} should have the slots '
        '[{wanted}] but has [{found}]: {reason}. It was neither started nor '
        'changed. Correct the slots with pvmctl. A rebuild does so, too, but '
        'makes the disks anew.'
    )
    user_message = (
        'Nothing was changed: the slots are [{found}] and should be '
        '[{wanted}]. A rebuild corrects that, but makes new disks.'
    )


class RecordOutdated(PowerVMError):
    """An LPAR owns the allocated slots, but Nova's record has other ones."""

    code = 'powervm.device.record'
    message = (
        'LPAR {name} of instance {instance_uuid} has the slots [{found}], '
        'which Placement has allocated to it, but Nova records [{wanted}]. '
        'Nothing was changed. Reboot the server hard, which corrects the '
        'record.'
    )
    user_message = (
        "Nova's record of the devices of the server is out of date. Nothing "
        'was changed. Reboot the server hard, which corrects the record.'
    )


class SlotsMissing(PowerVMError):
    """A running LPAR lacks slots of its instance."""

    code = 'powervm.device.missing'
    message = (
        'LPAR {name} of instance {instance_uuid} lacks the slots {slots}. '
        'Reboot the server hard to give them back.'
    )
    user_message = (
        'The server lacks the slots {slots}. Reboot it hard to give them back.'
    )


class DocumentDiffers(PowerVMError):
    """An LPAR is not what was written, or has changed before the write."""

    code = 'powervm.device.readback'
    message = (
        'LPAR {name} is to have the slots [{wanted}] but the host reports '
        '[{found}]: {reason}. Check the LPAR and the slots with pvmctl.'
    )
    user_message = (
        'The server is to have the slots [{wanted}] but the host reports '
        '[{found}].'
    )


class GuestStaysOff(PowerVMError):
    """A guest that was stopped for an operation could not be started again."""

    code = 'powervm.guest.off'
    message = (
        'The guest was stopped, and could not be started again. Start the '
        'server, or reboot it hard. {second} It was stopped for an operation '
        'that failed: {reason}'
    )
    user_message = message


class MoveRefused(PowerVMError):
    """A resize or cold migration is not possible."""

    code = 'powervm.move.refused'
    message = '{reason}'
    user_message = message


class LiveMigrationRefused(PowerVMError):
    """A live migration is not possible."""

    code = 'powervm.live.refused'
    message = 'The server is not migrated live: {reason}.'
    user_message = 'PowerVM: {reason}.'


class LparElsewhere(PowerVMError):
    """The LPAR of an instance is not where Nova records it, or moves."""

    code = 'powervm.live.elsewhere'
    message = 'Nothing was changed: the LPAR is {state}, and {reason}.'
    user_message = 'Nothing was changed: {reason}.'


class LparUnlocated(PowerVMError):
    """A host does not say whether it has the LPAR of an instance."""

    code = 'powervm.live.unknown'
    retryable = True
    message = (
        'Nothing was changed: the end of a live migration is unknown, and '
        'host {host} does not say whether it has the LPAR: {reason}. Start '
        'nova-compute there, and try again.'
    )
    user_message = (
        'Nothing was changed: the end of a live migration is unknown, and a '
        'host does not say whether it has the server.'
    )


class LiveMigrationUnsettled(PowerVMError):
    """A live migration has ended, and it is unknown where the LPAR is."""

    code = 'powervm.live.unsettled'
    message = (
        'The live migration of LPAR {lpar_uuid} to host {host} has ended, '
        'and it is unknown where the LPAR is: here it is {here}, there it is '
        '{there} ({reason}). Both hosts keep what they have of it: see "Live '
        'migrations" in the page on stuck servers.'
    )
    user_message = (
        'It is unknown on which host the live migration has left the server. '
        'An administrator has to look.'
    )


class InstanceChanged(PowerVMError):
    """Something else has changed an instance during an operation."""

    code = 'powervm.instance.changed'
    message = (
        'Instance {instance_uuid} has changed meanwhile: its {what} was '
        '{known}, and is {present} now. Look at the server, and reboot it '
        'hard if it is not as it should be'
    )
    user_message = (
        'The server has changed meanwhile: its {what} is another one now. '
        'Look at it, and reboot it hard if it is not as it should be'
    )


class InstanceRefused(PowerVMError):
    """The instance asks for something that this driver does not support."""

    code = 'powervm.instance.refused'
    elsewhere = False
    message = 'This driver cannot build instance {instance_uuid}: {reason}'
    user_message = 'PowerVM: {reason}'


class ImageRefused(PowerVMError):
    """The image cannot be written to a virtual disk."""

    code = 'powervm.image.refused'
    elsewhere = False
    message = 'Image {image} is refused: {reason}.'
    user_message = message


class ImageUnreadable(PowerVMError):
    """Glance did not send the image, or sent only part of it."""

    code = 'powervm.image.unreadable'
    retryable = True
    message = 'Image {image} could not be read from Glance: {reason}'
    user_message = (
        'Image {image} could not be read from Glance. Try again later.'
    )


class ImageDamaged(PowerVMError):
    """The bytes that Glance sent do not match its hash of the image."""

    code = 'powervm.image.damaged'
    elsewhere = False
    message = (
        'Image {image} arrived damaged: {reason}. If what Glance sends does '
        'not match its os_hash_value, upload it again.'
    )
    user_message = message


class RootDiskTooSmall(PowerVMError):
    """The image does not fit the flavor's root disk."""

    code = 'powervm.disk.small'
    elsewhere = False
    message = (
        'Image {image} needs a root disk of {needed_gb} GB, but the flavor '
        'has {flavor_gb} GB. Use a larger flavor.'
    )
    user_message = message


class InsufficientSpace(PowerVMError):
    """There is not enough space for the storage of an instance."""

    code = 'powervm.disk.space'
    message = (
        '{place} has {free_gb} GB free, but {needed_gb} GB are needed for '
        '{what}. Enlarge it or delete what is no longer needed.'
    )
    user_message = (
        'The host has {free_gb} GB free, but {needed_gb} GB are needed for '
        '{what}. Use a smaller flavor.'
    )


class DiskMissing(PowerVMError):
    """A disk that an instance should keep does not exist."""

    code = 'powervm.disk.missing'
    elsewhere = False
    message = (
        'The {what} disk of {owner} is not in {place} of this host, so the '
        'server cannot continue with its disks here. List them with `pvmctl '
        'lu list` or `pvmctl vdisk list`. Those that are there stay.'
    )
    user_message = (
        'The {what} disk of the server is not on this host, so the server '
        'cannot continue with its disks here. Those that are there stay.'
    )


class DiskAmbiguous(PowerVMError):
    """Several disks in a pool may be the one that an instance should keep."""

    code = 'powervm.disk.ambiguous'
    elsewhere = False
    message = (
        'The shared storage pool has {count} logical units that may be the '
        '{what} disk of {owner}, one of them {name}. Find out with '
        '`pvmctl lu list` which one is right, rename the others, and try '
        'again.'
    )
    user_message = 'Several disks may be the {what} disk of the server.'


class DiskInUse(PowerVMError):
    """A disk that an instance should keep is used by a running LPAR."""

    code = 'powervm.disk.used'
    elsewhere = False
    message = (
        "Disk {name} is in use by a running LPAR, probably on the server's "
        'former host. Power that host off, or stop the LPAR there, and try '
        'again. If it is off, see [powervm]check_disks_in_use.'
    )
    user_message = (
        'A disk of the server is in use by a running LPAR, probably on its '
        'former host.'
    )


class DiskDriverRefused(PowerVMError):
    """The disk driver of the host does not support this."""

    code = 'powervm.disk.refused'
    message = 'The disk driver of this host does not support {what}.'
    user_message = message


class RescueRefused(PowerVMError):
    """A rescue is not possible."""

    code = 'powervm.rescue.refused'
    message = 'Instance {instance_uuid} cannot be rescued: {reason}.'
    user_message = 'The server cannot be rescued: {reason}.'


class DiskUnreadable(PowerVMError):
    """The bytes of a disk cannot be read."""

    code = 'powervm.disk.unreadable'
    elsewhere = False
    message = 'The {what} cannot be read: {reason}.'
    user_message = 'The disk of the server cannot be read: {reason}.'


class DiskUnwritable(PowerVMError):
    """The bytes of a disk cannot be written."""

    code = 'powervm.disk.unwritable'
    message = 'The {what} cannot be written: {reason}.'
    user_message = message


class DiskNotCleared(PowerVMError):
    """A new disk would show its guest the data of deleted disks."""

    code = 'powervm.disk.uncleared'
    message = (
        'The {what} cannot be cleared of what deleted disks have left there: '
        '{reason}.'
    )
    user_message = message


class GrowthPutOff(PowerVMError):
    """A disk is enlarged later, because its guest runs."""

    code = 'powervm.disk.later'
    message = (
        'Root disk {name} is enlarged while its guest does not run: the guest '
        'could read what deleted disks have left there before it is cleared.'
    )
    user_message = (
        'The root disk is enlarged while the server is off, at its next hard '
        'reboot.'
    )


class ReadingCancelled(PowerVMError):
    """A disk is not read any further, because it is to be deleted."""

    code = 'powervm.disk.cancelled'
    elsewhere = False
    message = 'The {what} is not read any further: it is being deleted.'
    user_message = 'The disk is not read any further: it is being deleted.'


class SnapshotRefused(PowerVMError):
    """No image can be made of a server."""

    code = 'powervm.snapshot.refused'
    elsewhere = False
    message = 'No image is made of the server: {reason}.'
    user_message = message


class ConsoleUnavailable(PowerVMError):
    """The console of an LPAR cannot be shown."""

    code = 'powervm.console'
    retryable = True
    message = 'The console of LPAR {lpar_uuid} is not available: {reason}.'
    user_message = 'PowerVM: {reason}.'


class DiskNotConnected(PowerVMError):
    """The root disk of an LPAR that is to start is not connected to it."""

    code = 'powervm.disk.disconnected'
    elsewhere = False
    message = (
        'Disk {name} is not connected to LPAR {lpar_uuid}, so a guest could '
        'not start. {cure}.'
    )
    user_message = (
        'A disk of the server is not connected, so a guest could not start. '
        '{cure}.'
    )


class VolumeRefused(PowerVMError):
    """A volume cannot be connected to an LPAR of this driver."""

    code = 'powervm.volume.refused'
    elsewhere = False
    message = 'Volume {volume} cannot be connected: {reason}.'
    user_message = message


class VolumeMissing(PowerVMError):
    """Too few Virtual I/O Servers find the disk of a volume."""

    code = 'powervm.volume.missing'
    message = (
        'Volume {volume} is found by {found} Virtual I/O Server(s) instead of '
        '{needed} ([powervm]vios_paths_required): {reason}. Check the zoning, '
        'and what the array maps to these ports.'
    )
    user_message = (
        'Volume {volume} is found by {found} Virtual I/O Server(s) instead of '
        '{needed}.'
    )


class VolumeInUse(PowerVMError):
    """Somebody else has the disk that a volume is on."""

    code = 'powervm.volume.used'
    elsewhere = False
    message = (
        'Volume {volume} is {disk} of {server}, which is in use: {holder}. '
        'Check with `pvmctl scsi list`, and remove what should not be there.'
    )
    user_message = 'Volume {volume} is on a disk that is in use.'


class VolumesImpossible(PowerVMError):
    """No volume can be connected to an LPAR now."""

    code = 'powervm.volume.impossible'
    message = 'No volume can be connected{where}: {reason}.'
    user_message = 'No volume can be connected: {reason}.'


class VolumeHeld(PowerVMError):
    """A volume cannot be disconnected from all Virtual I/O Servers."""

    code = 'powervm.volume.held'
    retryable = True
    message = 'Volume {volume} stays connected: {reason}.'
    user_message = (
        'Volume {volume} stays connected: it cannot be disconnected from '
        'everywhere now. Try again later.'
    )


class VolumeNotExtended(PowerVMError):
    """The host does not see the new size of a volume."""

    code = 'powervm.volume.size'
    message = (
        'Volume {volume} has {wanted_gb:g} GB, but the Virtual I/O Servers '
        'see {found_gb:g} GB of it. Restart the guest; if that does not help, '
        'detach the volume and attach it again.'
    )
    user_message = message


class PortRefused(PowerVMError):
    """A port cannot be connected."""

    code = 'powervm.port.refused'
    elsewhere = False
    message = 'Port {port} cannot be connected: {reason}.'
    user_message = message


class PortsUnknown(PowerVMError):
    """Neutron does not report which ports an instance has."""

    code = 'powervm.port.unknown'
    message = (
        'The adapters of the LPAR of instance {instance_uuid} do not match '
        "the ports in Nova's network cache, and Neutron cannot be asked: "
        '{reason}. No adapter was changed; try again when Neutron answers.'
    )
    user_message = (
        "The adapters of the server differ from Nova's network cache, and "
        'Neutron cannot be asked. No adapter was changed; try again later.'
    )


class PortsDoubtful(PortsUnknown):
    """Neutron lists no port of an instance but may be hiding some."""

    code = 'powervm.port.doubtful'
    message = (
        'Give the user in [neutron] of nova.conf the admin role or, if '
        'instance {instance_uuid} should have no port, remove the adapters of '
        'its LPAR with pvmctl: Neutron lists no port of it, and shows no port '
        'that is bound to {host} or another host. No adapter was removed.'
    )
    user_message = (
        'Neutron lists no port of the server, and may hide some. No adapter '
        'was removed.'
    )


class PortsNotPlugged(PowerVMError):
    """Neutron did not report in time that the ports are connected."""

    code = 'powervm.port.timeout'
    elsewhere = False
    message = (
        'Neutron did not report port(s) {ports} as plugged within {seconds} '
        'seconds ([DEFAULT]vif_plugging_timeout): {reason}.'
    )
    user_message = (
        'Port(s) {ports} were not plugged within {seconds} seconds: {reason}.'
    )
