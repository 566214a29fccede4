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

"""Nova's record of the virtual slots that the devices of an instance have.

While there is an LPAR, it tells them, and the record follows what operations
read of it anyway. An LPAR that is about to go is read once more. So the record
is only needed when there is none, and an instance of an earlier version gets
one.
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.lpar import virtual_slots
from nova_powervm.lpar import volumes
from nova_powervm.ops import apply
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)


def recorded(instance: Any) -> dict[str, int]:
    """Return the slots on record; see :mod:`nova_powervm.lpar.virtual_slots`.

    :param instance: nova.objects.Instance.
    """
    return system_metadata.virtual_slots(instance.system_metadata)


def note(instance: Any, slots: Mapping[str, int]) -> None:
    """Record the slots of some devices; Nova saves the instance later."""
    for name in _changed(instance, slots):
        key = system_metadata.virtual_slot(name)
        key.write(instance.system_metadata, str(slots[name]))


def note_all(instance: Any, slots: Mapping[str, int]) -> None:
    """Record the slots of all devices, and forget those of others.

    Keep that of a path to a volume that is not there now.
    """
    present = {virtual_slots.owner_of(name) for name in slots}
    for name in recorded(instance):
        if virtual_slots.owner_of(name) not in present:
            key = system_metadata.virtual_slot(name)
            key.remove(instance.system_metadata)
    note(instance, slots)


def save(
    instance: Any, slots: Mapping[str, int], *, only_idle: bool = False
) -> None:
    """Record the slots of some devices at once, if they are not on record.

    :param only_idle: Whether to do so only if the instance has no task.
    """
    changed = _changed(instance, slots)
    if changed:
        system_metadata.change(
            instance,
            {
                system_metadata.virtual_slot(name): str(slots[name])
                for name in changed
            },
            only_idle=only_idle,
        )


def _changed(instance: Any, slots: Mapping[str, int]) -> list[str]:
    known = recorded(instance)
    return [name for name, slot in slots.items() if known.get(name) != slot]


def try_to_save(
    instance: Any, slots: Mapping[str, int], *, only_idle: bool = False
) -> None:
    """Do the same, but only log errors: what has the slots is there."""
    with _errors_logged(instance):
        save(instance, slots, only_idle=only_idle)


def try_to_forget(instance: Any, owner: str) -> None:
    """Forget the slots of a device that is gone; only log errors.

    :param owner: A MAC address or a volume's id.
    """
    with _errors_logged(instance):
        names = [
            name
            for name in recorded(instance)
            if virtual_slots.owner_of(name) == owner
        ]
        if names:
            keys = map(system_metadata.virtual_slot, names)
            system_metadata.change(instance, dict.fromkeys(keys))


@contextlib.contextmanager
def _errors_logged(instance: Any) -> Iterator[None]:
    try:
        yield
    except nova_exception.UnexpectedTaskStateError:
        LOG.debug('The instance has a task now.', instance=instance)
    except Exception:
        # Any error of Nova's database. The next start records them.
        LOG.exception(
            'The virtual slots of the instance cannot be recorded.',
            instance=instance,
        )


def save_present(
    lpars: apply.LparOps,
    instance: Any,
    wanted: Sequence[volumes.Volume] = (),
) -> None:
    """Record the slots in an LPAR that is about to go, if there is one.

    :param wanted: The volumes of the instance.
    :raises exception.PowerVMError: They could not be read.
    """
    with contextlib.suppress(exception.PartitionNotFound):
        save(
            instance,
            lpars.read_virtual_slots(translation.lpar_of(instance), wanted),
        )
