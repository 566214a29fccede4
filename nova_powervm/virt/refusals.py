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


"""Refuses what this driver does not support, before anything is changed.

:mod:`nova_powervm.lpar.supported_features` decides about extra specs and image
properties.
"""

import inspect
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import nova.conf
import wrapt
from nova import exception as nova_exception
from nova.compute import task_states
from nova.virt import configdrive
from nova.virt import driver
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import storage
from nova_powervm.lpar import supported_features
from nova_powervm.virt import instance_volumes

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


def log_refusal(operation: str, instance: Any = None, advice: str = '') -> str:
    """Return the message that refuses an operation, and log it.

    :param operation: The operation, as a noun phrase in the singular.
    :param instance: The nova.objects.Instance concerned, if any.
    :param advice: A sentence that says what to do instead.
    """
    reason = f'PowerVM: {operation} is not supported yet'
    if advice:
        reason = f'{reason}. {advice}'
    LOG.info('Refused: %s', reason, instance=instance)
    return reason


class Refusal:
    """A method with Nova's name and signature that refuses an operation.

    :param operation: The operation, as a noun phrase in the singular.
    :param error: Returns the exception for a message; NotImplementedError
        where Nova's API turns that into 501.
    """

    def __init__(
        self,
        operation: str,
        error: Callable[[str], Exception] = nova_exception.NovaException,
    ) -> None:
        self._operation = operation
        self._error = error

    def __set_name__(self, owner: type, name: str) -> None:
        """Replace this by a method of the driver's class."""
        method = getattr(driver.ComputeDriver, name)
        setattr(owner, name, wrapt.FunctionWrapper(method, self._refuse))

    def _refuse(
        self, method: Any, refuser: Any, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        arguments = inspect.signature(method).bind(*args, **kwargs).arguments
        instance = arguments.get('instance')
        raise self._error(log_refusal(self._operation, instance))


def roll_back(reason: str) -> nova_exception.InstanceFaultRollback:
    """Return an exception after which the instance keeps its former state.

    After any other exception Nova sets the instance to ERROR.
    """
    return nova_exception.InstanceFaultRollback(
        nova_exception.NovaException(reason)
    )


def refuse_cross_cell_move(instance: Any) -> None:
    """Refuse to stop a guest for a move to another cell.

    Nova calls power_off in no other move.

    :param instance: nova.objects.Instance.
    :raises nova.exception.NovaException: The server is to move to another
        cell; the reason becomes its fault.
    """
    if instance.task_state == task_states.RESIZE_MIGRATING:
        raise nova_exception.NovaException(
            log_refusal('moving a server to another cell', instance)
        )


def check_build(
    instance: Any,
    image_meta: Any,
    block_device_info: Any,
    injected_files: Any = (),
    *,
    preserve_ephemeral: bool = False,
    keeps_disks: bool = False,
) -> None:
    """Refuse to build an instance without something that its owner asked for.

    :param instance: nova.objects.Instance.
    :param image_meta: nova.objects.ImageMeta.
    :param block_device_info: As Nova passes it to spawn.
    :param injected_files: As Nova passes them to spawn.
    :param preserve_ephemeral: As Nova passes it to rebuild. Nova's own rebuild
        would refuse it too late and set the server to ERROR.
    :param keeps_disks: Whether the instance keeps its disks, which are on
        storage of several hosts, and needs no image.
    :raises exception.InstanceRefused: The instance asks for something that is
        not supported; the message lists every such request.
    """
    refused = [
        *_root_disk(instance, image_meta, block_device_info, keeps_disks),
        *_disks(block_device_info or {}),
        *_other_requests(instance),
        *_specs_and_properties(instance, image_meta),
    ]
    if injected_files and not configdrive.required_by(instance):
        refused.append(
            'it asks for file injection, which requires a config drive '
            '(--config-drive True)'
        )
    if preserve_ephemeral:
        refused.append(
            'it asks to preserve ephemeral disks, which a rebuild recreates'
        )
    if refused:
        raise exception.InstanceRefused(
            instance_uuid=instance.uuid,
            reason=exception.Listing(refused, '; '),
        )


def _root_disk(
    instance: Any, image_meta: Any, info: Any, keeps_disks: bool
) -> Iterator[str]:
    if instance_volumes.boot_volume(info):
        return
    if not instance.image_ref:
        yield 'it has neither an image nor a boot volume'
    elif not image_meta.obj_attr_is_set('id') and not keeps_disks:
        yield 'Nova does not tell its image'


def _disks(info: Any) -> Iterator[str]:
    ephemerals = driver.block_device_info_get_ephemerals(info)
    if len(ephemerals) > len(storage.EPHEMERALS):
        yield (
            f'it asks for {len(ephemerals)} ephemeral disks, but at most '
            f'{len(storage.EPHEMERALS)} can be attached'
        )
    formats = {disk.get('guest_format') for disk in ephemerals} - {None, ''}
    for name in sorted(formats):
        yield (
            f'it asks for an ephemeral disk with the file system {name}, but '
            'disks are created without one'
        )
    if driver.block_device_info_get_encrypted_disks(info):
        yield 'it asks for an encrypted disk'


def _other_requests(instance: Any) -> Iterator[str]:
    if instance.kernel_id or instance.ramdisk_id:
        yield 'its image has a separate kernel or ramdisk'
    requests = instance.pci_requests.requests if instance.pci_requests else ()
    if requests:
        yield (
            'it asks for PCI devices by alias or SR-IOV port; request devices '
            "by the flavor's resource groups"
        )
    if (
        configdrive.required_by(instance)
        and CONF.config_drive_format != 'iso9660'
    ):
        yield (
            f'[DEFAULT]config_drive_format is {CONF.config_drive_format}, but '
            'a virtual optical medium must be iso9660'
        )


def _specs_and_properties(instance: Any, image_meta: Any) -> Iterator[str]:
    yield from refused_specs(instance.flavor)
    properties = image_properties(image_meta)
    for unsupported in supported_features.refused_properties(properties):
        yield f'its image asks for {unsupported}'


def refused_specs(flavor: Any) -> Iterator[str]:
    """Yield the extra specs of a flavor that are not supported.

    :param flavor: nova.objects.Flavor.
    """
    extra_specs = flavor.extra_specs or {}
    for unsupported in supported_features.refused_extra_specs(extra_specs):
        yield f'the flavor asks for {unsupported}'


def image_properties(image_meta: Any) -> dict[str, Any]:
    """Return the properties of an image that are set, by Nova's names."""
    properties = image_meta.properties
    return {
        name: getattr(properties, name)
        for name in properties.fields
        if properties.obj_attr_is_set(name)
    }
