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

"""The errors of nova-powervm.

Every error names the thing, where it stands and what to do about it. Code
that handles errors reads ``code``, ``retryable`` and ``fields``; people read
the message.
"""

from typing import Any
from typing import ClassVar


class PowerVMError(Exception):
    """Base of all errors that nova-powervm raises itself.

    :param fields: The values that ``message`` (a ``str.format`` pattern of
        the class) is filled with. They stay readable as ``error.fields``.
    """

    #: Stable name of the kind of error, for logs, tests and scripts.
    code: ClassVar[str] = 'powervm.error'
    #: Whether the same request can succeed later without anybody's help.
    retryable: ClassVar[bool] = False
    #: Whether building the instance on another host can succeed. If not,
    #: the build is aborted, so that the server's fault tells the reason.
    elsewhere: ClassVar[bool] = True
    message: ClassVar[str] = '{reason}'

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        super().__init__(self.message.format(**fields))

    @property
    def summary(self) -> str:
        """The message for a server's fault, which names the instance itself.

        Nova cuts faults after 255 characters, so the cure stands early.
        """
        return str(self)


class ConfigurationError(PowerVMError):
    """An option or a file that the operator wrote can't be used."""

    code = 'powervm.configuration'


class PolicyInvalid(ConfigurationError):
    """The inventory file has problems; all of them are listed."""

    code = 'powervm.policy.invalid'
    message = '{path}: {count} problem(s) in the inventory file:\n{problems}'


class DeviceConflict(ConfigurationError):
    """One device is taken by two paragraphs of the inventory file."""

    code = 'powervm.policy.conflict'
    message = (
        '{path}: {conflicts}. Change the identification sections so that '
        'each device is identified by one paragraph only.'
    )


class PlacementUnanswered(PowerVMError):
    """Placement did not say what an update or a burn hangs on."""

    code = 'powervm.placement'
    retryable = True
    message = (
        'Placement did not answer {request}: {reason}. Without it no device '
        'for one use is published, and no new trait of the file; the next '
        'cycle tries again.'
    )


class RestUnreachable(PowerVMError):
    """The PowerVM REST server did not answer."""

    code = 'powervm.rest.unreachable'
    retryable = True
    message = 'The PowerVM REST server at {server} does not answer: {reason}'


class RestSilent(RestUnreachable):
    """The server took a request and said nothing until its time was up.

    It is not repeated at once: a read would only wait as long again, and a
    write may have been carried out.
    """

    code = 'powervm.rest.silent'


class RestRefusedLogin(ConfigurationError):
    """The PowerVM REST server does not accept the credentials."""

    code = 'powervm.rest.login'
    message = (
        'The PowerVM REST server at {server} refused the login of '
        '{username}: {reason}. Check [powervm]rest_username and '
        '[powervm]rest_password, or for a local session that nova-compute '
        'may read the NovaLink session file.'
    )


class RestError(PowerVMError):
    """The PowerVM REST server answered a request with an error."""

    code = 'powervm.rest.error'
    message = 'PowerVM REST {action} failed: {reason}'


class RestBusy(RestError):
    """The server can't serve the request just now."""

    code = 'powervm.rest.busy'
    retryable = True


class ViosBusy(RestBusy):
    """A Virtual I/O Server is at work on another request."""

    code = 'powervm.rest.vios_busy'


class RestConflict(RestError):
    """Somebody else changed the resource meanwhile (HTTP 412)."""

    code = 'powervm.rest.conflict'
    retryable = True


class SlotsVanished(RestBusy):
    """The host reports none of the I/O slots that it had."""

    code = 'powervm.system.slots'
    message = (
        'The managed system reports none of its {count} I/O slots any more. '
        'That is not believed for another {seconds} seconds: devices stay as '
        'they were published, and none is given to an instance. If the slots '
        'are gone, wait; if not, look with `pvmctl ioslot list` and restart '
        'pvm-rest.'
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
    """There is no such logical partition on the host."""

    code = 'powervm.partition.missing'
    message = 'There is no LPAR {uuid} on the host.'


class PartitionNotStartable(PowerVMError):
    """An LPAR is in a state in which it can't or must not be started."""

    code = 'powervm.partition.state'
    message = (
        'LPAR {name} of instance {instance} is in the state "{state}": '
        '{reason}.'
    )


class StatesUnknown(PowerVMError):
    """The host does not tell whether the LPARs of instances run."""

    code = 'powervm.partition.unknown'
    retryable = True
    message = 'The power state of {lpars} is unknown: {reason}'


class StatesStayUnknown(StatesUnknown):
    """The host has told other states for a while, and not these."""

    code = 'powervm.partition.stays-unknown'
    retryable = False


class PartitionConflict(PowerVMError):
    """An LPAR stands in the way of the one that is to be made."""

    code = 'powervm.partition.conflict'
    message = 'LPAR {name} ({uuid}) can not be made: {reason}'


class MemorySizeRefused(PowerVMError):
    """The flavor's memory does not fit the host's memory regions."""

    code = 'powervm.partition.memory'
    elsewhere = False
    message = (
        'The flavor asks for {memory_mb} MiB of memory, which is no multiple '
        "of the host's memory region size of {region_mb} MiB. The next "
        'sizes that work are {choices} MiB.'
    )


class ProcessorsRefused(PowerVMError):
    """The flavor's vCPUs don't fit the host's processor rules."""

    code = 'powervm.partition.processors'
    elsewhere = False
    message = (
        'With [powervm]proc_units_factor={factor} the {vcpus} vCPUs of the '
        'flavor get {units} processing units, but the host needs {minimum} '
        'for each. Raise the option to {minimum} or more.'
    )


class ClaimFailed(PowerVMError):
    """The allocated devices can't be given to the instance."""

    code = 'powervm.device.claim'
    message = 'Instance {instance}: {reason}'

    @property
    def summary(self) -> str:
        """The reason alone."""
        return str(self.fields['reason'])


class ForeignDevice(ClaimFailed):
    """The flavor took a device that is not this driver's to give."""

    code = 'powervm.device.foreign'
    elsewhere = False


class AcceleratorRefused(ClaimFailed):
    """An accelerator request of Cyborg's can't be served here."""

    code = 'powervm.device.accelerator'
    elsewhere = False


class AcceleratorsUnknown(PowerVMError):
    """Cyborg does not say which accelerators an instance has."""

    code = 'powervm.device.cyborg'
    retryable = True
    message = (
        'Cyborg does not say which accelerators instance {instance} has: '
        '{reason}. The instance is left as it is.'
    )


class OwnersDiffer(ConfigurationError):
    """A device is allocated through Nova and managed by Cyborg, too."""

    code = 'powervm.device.owners'
    message = (
        'Allocated through Nova and managed by Cyborg, too: {conflicts}. '
        "Take the devices out of Cyborg's configuration, or delete the "
        'instances that have them.'
    )


class SlotsDiffer(PowerVMError):
    """An existing LPAR does not hold exactly its instance's slots."""

    code = 'powervm.device.slots'
    message = (
        'LPAR {name} of instance {instance} shall have the slots [{wanted}] '
        'but has [{found}]: {reason}. It is neither started nor changed. '
        'Put the slots right with pvmctl, or rebuild the server.'
    )


class SlotsMissing(PowerVMError):
    """A running LPAR lacks slots of its instance."""

    code = 'powervm.device.missing'
    message = (
        'LPAR {name} of instance {instance} runs without the slots {slots}. '
        'Reboot the server hard: they are given back to it.'
    )


class DevicesDiffer(PowerVMError):
    """The LPAR does not hold exactly the slots that it was made with."""

    code = 'powervm.device.readback'
    message = (
        'LPAR {name} was made with the slots [{wanted}] but the host reports '
        '[{found}]: {reason}. Look at the LPAR and the slots with pvmctl.'
    )


class InstanceRefused(PowerVMError):
    """The instance wants something that this driver does not do."""

    code = 'powervm.instance.refused'
    elsewhere = False
    message = 'Instance {instance} can not be built by this driver: {reason}'

    @property
    def summary(self) -> str:
        """The reason alone."""
        return f'PowerVM: {self.fields["reason"]}'


class ImageRefused(PowerVMError):
    """The image can't be put on a virtual disk."""

    code = 'powervm.image.refused'
    elsewhere = False
    message = 'Image {image} is refused: {reason}.'


class ImageUnreadable(PowerVMError):
    """Glance did not send the image, or not all of it."""

    code = 'powervm.image.unreadable'
    retryable = True
    message = 'Image {image} could not be read from Glance: {reason}'


class ImageDamaged(PowerVMError):
    """The bytes that Glance sent are not those that it keeps a hash of."""

    code = 'powervm.image.damaged'
    elsewhere = False
    message = (
        'Image {image} arrived damaged: {reason}. Compare it with its '
        'os_hash_value in Glance and upload it anew if it differs.'
    )


class RootDiskTooSmall(PowerVMError):
    """The image does not fit the flavor's root disk."""

    code = 'powervm.disk.small'
    elsewhere = False
    message = (
        'Image {image} needs a root disk of {needed_gb} GB, the flavor has '
        '{flavor_gb} GB. Take a larger flavor.'
    )


class NoRoom(PowerVMError):
    """There is no space for the storage of an instance."""

    code = 'powervm.disk.room'
    message = (
        '{place} has {free_gb} GB free, {needed_gb} GB are needed for '
        '{what}. Enlarge it or delete what nobody needs.'
    )


class PortRefused(PowerVMError):
    """A port can't be connected."""

    code = 'powervm.port.refused'
    elsewhere = False
    message = 'Port {port} can not be connected: {reason}.'


class PortsUnknown(PowerVMError):
    """Neutron does not say which ports an instance has."""

    code = 'powervm.port.unknown'
    message = (
        'The adapters of the LPAR of instance {instance} are not those of its '
        'ports as Nova remembers them, and Neutron can not be asked: '
        '{reason}. None of them was changed; try again when Neutron answers.'
    )


class PortsDoubtful(PortsUnknown):
    """Neutron lists no port of an instance and may be hiding them."""

    code = 'powervm.port.doubtful'
    message = (
        'Give the user in [neutron] of nova.conf the role admin, or, if '
        'instance {instance} shall have no port, remove the adapters of its '
        'LPAR with pvmctl: Neutron lists no port of it, and shows no port '
        'that is bound to {host} or another host. No adapter was taken away.'
    )


class PortsNotPlugged(PowerVMError):
    """Neutron did not tell in time that the ports are connected."""

    code = 'powervm.port.timeout'
    elsewhere = False
    message = (
        'Neutron did not report port(s) {ports} plugged within {seconds} '
        'seconds ([DEFAULT]vif_plugging_timeout): {reason}.'
    )


class PlacementNotConfigured(ConfigurationError):
    """The configuration says nothing usable about access to Placement."""

    code = 'powervm.placement.credentials'
    message = (
        'nova.conf does not say how to log on to Placement: {reason}. Fill '
        'in its section [placement], as nova-compute has it, and name the '
        'file with --config-file.'
    )


class PlacementRefused(PowerVMError):
    """Placement or keystone does not accept the credentials."""

    code = 'powervm.placement.refused'
    message = (
        'The credentials in section [placement] of nova.conf are refused: '
        '{reason}. Compare them with those of nova-compute; they need the '
        'role of a service or an administrator.'
    )


class PlacementUnreachable(PowerVMError):
    """Placement did not answer."""

    code = 'powervm.placement.unreachable'
    retryable = True
    message = (
        'Placement does not answer: {reason}. Look after the service, and '
        'after auth_url, region_name and endpoint_override in section '
        '[placement] of nova.conf.'
    )


class PlacementError(PowerVMError):
    """Placement answered a request with an error."""

    code = 'powervm.placement.error'
    message = 'Placement failed at {request}: HTTP {status} {reason}'


class NodeUnknown(PowerVMError):
    """Placement has no provider of the compute node."""

    code = 'powervm.placement.node'
    message = (
        "Placement has no provider named '{node}'. Start nova-compute, which "
        'makes it, or name the compute node with --node; '
        '"openstack resource provider list" shows those that there are.'
    )


class ComputeApiError(PowerVMError):
    """The compute API can't be asked, or refused."""

    code = 'powervm.compute.api'
    message = 'The compute API: {reason}.'


class ReleaseRefused(PowerVMError):
    """A device can't be given back to those that can be allocated."""

    code = 'powervm.device.release'
    message = 'Not released: {which}: {reason}.'
