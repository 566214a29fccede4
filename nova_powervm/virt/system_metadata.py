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

"""The keys of the driver in the system metadata of instances.

nova-api copies all of it into the properties of each image that is made of an
instance (``initialize_instance_snapshot_metadata`` of ``nova.compute.utils``):
snapshots, those of volumes too, backups and shelved images, which others may
read and build servers from. It leaves out what begins with ``os_glance``,
whatever ``[DEFAULT]non_inheritable_image_properties`` says, because Glance
lets nobody set such a property. Therefore all keys begin so, and no module
but this one makes any.

What Nova itself records of an image's properties begins with ``image_``.
Nothing here ever reads that: users choose it.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import vm_states
from oslo_concurrency import lockutils
from oslo_log import log as logging

from nova_powervm.lpar import virtual_slots as lpar_virtual_slots
from nova_powervm.virt import record_changes

LOG = logging.getLogger(__name__)

_PREFIX = 'os_glance_powervm_'
# What keys began with until the first release. It accepts them, and renames
# them; the second one can do without this, Key.old, rename and rename_old.
_OLD_PREFIX = 'powervm_'
_TO = 'to '
_CONSOLE = 'console@'
_VIRTUAL_SLOT = 'slot@'
# The column of Nova's database takes 255 characters, and a host's name may
# have as many.
_HOST_LIMIT = 128


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key of the driver's.

    A host of an earlier version writes an item under the old name, and leaves
    the new name as it was. This version removes the old name as it writes the
    new one. Therefore the old name counts if there are both.

    :param item: The item of the instance that the key has the value of.
    """

    item: str

    @property
    def name(self) -> str:
        """The key in Nova's record."""
        return f'{_PREFIX}{self.item}'

    @property
    def old(self) -> str:
        """The key in records of earlier versions."""
        return f'{_OLD_PREFIX}{self.item}'

    def read(self, metadata: Mapping[str, str]) -> str | None:
        """Return the value, or None.

        Ignore the old path of a console: it is in images, and not valid.
        """
        old = None
        if not self.item.startswith(_CONSOLE):
            old = metadata.get(self.old)
        value = metadata.get(self.name) if old is None else old
        return None if value is None else str(value)

    def write(self, metadata: dict[str, str], value: str) -> None:
        """Write a value, without saving it."""
        metadata.pop(self.old, None)
        metadata[self.name] = value

    def remove(self, metadata: dict[str, str]) -> None:
        """Remove the value, if there is one, without saving it."""
        metadata.pop(self.old, None)
        metadata.pop(self.name, None)


#: Values by their keys; None removes one.
Changes = Mapping[Key, str | None]
#: Edits metadata.
Edit = Callable[[dict[str, str]], None]

#: The slots of an instance's accelerator requests.
ACCELERATORS = Key('accelerators')
#: The image of an instance's disk.
IMAGE = Key('image_ref')
#: Where a live migration moves an instance, until Nova knows its end.
LIVE_MIGRATION = Key('live_migration')
#: The identity of the pool that has an instance's disks.
POOL = Key('pool')
#: The size in GiB that the root disk could not be grown to.
ROOT_GB = Key('root_gb')


def live_migration(metadata: Mapping[str, str]) -> str | None:
    """Return the host to which PowerVM moves an instance, if it does."""
    value = LIVE_MIGRATION.read(metadata)
    return None if value is None else value.removeprefix(_TO)


def write_live_migration(
    instance: Any, destination: str | None, *, only_idle: bool = False
) -> None:
    """Record where a live migration moves an instance, at once.

    :param destination: The host; None if the live migration has ended.
    """
    # The value is no host's name, which stands for keys of that host.
    value = None if destination is None else f'{_TO}{destination}'
    change(instance, {LIVE_MIGRATION: value}, only_idle=only_idle)


def console(nodename: str) -> Key:
    """Return the key of the path of a console on a host."""
    return Key(f'{_CONSOLE}{_fit(nodename)}')


def of_host(item: str, nodename: str) -> Key:
    """Return the key of an item that an instance can have on several hosts."""
    return Key(f'{item}@{_fit(nodename)}')


def virtual_slot(name: str) -> Key:
    """Return the key of a virtual slot.

    :param name: The name of the slot's device; see
        :mod:`nova_powervm.lpar.virtual_slots`.
    """
    return Key(f'{_VIRTUAL_SLOT}{name}')


def virtual_slots(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the virtual slots on record."""
    prefix = virtual_slot('').name
    return {
        name.removeprefix(prefix): int(value)
        for name, value in metadata.items()
        if name.startswith(prefix) and value.isdecimal()
    }


def write_virtual_slots(
    metadata: dict[str, str],
    slots: Mapping[str, int],
    removed: Collection[str],
) -> None:
    """Write virtual slots, and remove those of devices that are gone.

    A slot has one device: if another device is on record for it, that device
    is gone, or the number of its Virtual I/O Server has changed.

    :param removed: The MAC addresses and volume ids of devices that are gone.
    """
    numbers = {*slots.values()}
    for name, slot in virtual_slots(metadata).items():
        if slot in numbers or lpar_virtual_slots.owner_of(name) in removed:
            virtual_slot(name).remove(metadata)
    for name, slot in slots.items():
        virtual_slot(name).write(metadata, str(slot))


def items_of_host(
    metadata: Mapping[str, str], nodename: str
) -> Mapping[str, frozenset[Key]]:
    """Return the items whose value is the name of a host, with their keys.

    The keys of items that the first versions wrote do not have the host.
    """
    items: dict[str, frozenset[Key]] = {}
    for name, value in metadata.items():
        key = _parse(name)
        if key is not None and value == nodename:
            item = key.item.removesuffix(f'@{_fit(nodename)}')
            items[item] = items.get(item, frozenset()) | {key}
    return items


def _parse(name: str) -> Key | None:
    """Return a key of the driver's by its present or old name, or None."""
    for prefix in (_PREFIX, _OLD_PREFIX):
        if name.startswith(prefix):
            return Key(name.removeprefix(prefix))
    return None


def _fit(nodename: str) -> str:
    """Return a host's name, or a digest of one that is too long for a key."""
    if len(nodename) <= _HOST_LIMIT:
        return nodename
    return hashlib.sha256(nodename.encode()).hexdigest()


def rename(metadata: dict[str, str]) -> None:
    """Give keys of an earlier version their present names, without saving.

    Drop the paths of consoles, which older images of the instance show.
    """
    for name in [name for name in metadata if name.startswith(_OLD_PREFIX)]:
        value = metadata.pop(name)
        key = Key(name.removeprefix(_OLD_PREFIX))
        if not key.item.startswith(_CONSOLE):
            key.write(metadata, value)


def rename_old(nodename: str) -> None:
    """Rename the keys that an earlier version wrote for a host's instances.

    Leave out instances with a task, as :func:`change_recorded` says, and those
    whose move can still be reverted, perhaps by a host of an earlier version.
    Their old keys are valid until the next start.

    :param nodename: Nova's name of this host.
    :raises nova.exception.NovaException: Nova's database failed.
    """
    for instance in objects.InstanceList.get_by_host(
        nova_context.get_admin_context(),
        nodename,
        expected_attrs=['system_metadata'],
    ):
        if instance.vm_state != vm_states.RESIZED and any(
            name.startswith(_OLD_PREFIX) for name in instance.system_metadata
        ):
            _rename_recorded(instance)


def _rename_recorded(instance: Any) -> None:
    try:
        _edit_recorded(instance.uuid, rename, only_idle=True)
    except nova_exception.InstanceNotFound:
        pass
    except nova_exception.UnexpectedTaskStateError:
        LOG.info(
            'The instance has a task. The keys of its system metadata that '
            'begin with powervm_ keep their names until the next start.',
            instance=instance,
        )
    except Exception:
        # Old keys are read, too; one instance must not stop the service.
        LOG.exception(
            'The keys of the system metadata that begin with powervm_ cannot '
            'be renamed, and get into images of the instance. The next start '
            'tries again.',
            instance=instance,
        )


def change(
    instance: Any, changes: Changes, *, only_idle: bool = False
) -> None:
    """Change the metadata in Nova's record and in the caller's object.

    :param instance: nova.objects.Instance.
    :param changes: See :func:`change_recorded`.
    :param only_idle: See :func:`change_recorded`.
    """
    edit(instance, functools.partial(_apply, changes), only_idle=only_idle)


def edit(instance: Any, how: Edit, *, only_idle: bool = False) -> None:
    """Edit the metadata in Nova's record and in the caller's object.

    :param instance: nova.objects.Instance.
    :param how: Edits it; the record may have changed meanwhile.
    :param only_idle: See :func:`change_recorded`.
    """
    recorded = _edit_recorded(instance.uuid, how, only_idle=only_idle)
    if 'system_metadata' not in instance:
        return
    if 'system_metadata' in instance.obj_what_changed():
        # The caller will save it.
        how(instance.system_metadata)
    else:
        instance.system_metadata = recorded
        instance.obj_reset_changes(['system_metadata'])


def change_recorded(
    uuid: str, changes: Changes, *, only_idle: bool = False
) -> dict[str, str]:
    """Change the metadata of an instance as recorded now.

    :param changes: Values by their keys; None removes one.
    :param only_idle: Whether to change it only if the instance has no task. A
        caller that is not part of the task could overwrite its changes.
    :returns: The changed metadata.
    :raises nova.exception.UnexpectedTaskStateError: It has a task.
    """
    return _edit_recorded(
        uuid, functools.partial(_apply, changes), only_idle=only_idle
    )


def _apply(changes: Changes, metadata: dict[str, str]) -> None:
    for key, value in changes.items():
        if value is None:
            key.remove(metadata)
        else:
            key.write(metadata, value)


def _edit_recorded(uuid: str, how: Edit, *, only_idle: bool) -> dict[str, str]:
    """Edit the metadata of an instance as recorded now.

    Saving an instance replaces all of its metadata. Therefore load it again,
    to keep what others have written meanwhile, and hold a lock: Nova attaches
    several ports of an instance at once.
    """
    with lockutils.lock(f'powervm-metadata-{uuid}'):
        instance = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            uuid,
            expected_attrs=['system_metadata'],
        )
        how(instance.system_metadata)
        record_changes.save_metadata(instance, only_idle=only_idle)
    return dict(instance.system_metadata)
