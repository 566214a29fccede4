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

The record is needed only when an instance has no LPAR. Operations update it
with the slots that they read of the LPAR anyway, and read an LPAR once more
before they remove it. So instances of earlier versions get a record, too.
"""

import contextlib
from collections.abc import Collection
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


def recorded_of_ports(instance: Any) -> set[int]:
    """Return the slots on record for network adapters.

    :param instance: nova.objects.Instance.
    """
    return {
        slot
        for name, slot in recorded(instance).items()
        if virtual_slots.owner_of(name) == name
    }


def note_all(instance: Any, slots: Mapping[str, int]) -> None:
    """Record the slots of all devices of a build, which Nova saves later.

    Keep the recorded slots of other paths to the same volumes.
    """
    devices = {virtual_slots.owner_of(name) for name in slots}
    recorded_devices = {
        virtual_slots.owner_of(name) for name in recorded(instance)
    }
    system_metadata.write_virtual_slots(
        instance.system_metadata, slots, recorded_devices - devices
    )


def _save(
    instance: Any,
    slots: Mapping[str, int],
    removed: Collection[str] = (),
    *,
    only_idle: bool = False,
) -> None:
    """Record slots at once: Nova's object may be older than its record."""
    if removed or not slots.items() <= recorded(instance).items():
        system_metadata.edit(
            instance,
            lambda metadata: system_metadata.write_virtual_slots(
                metadata, slots, removed
            ),
            only_idle=only_idle,
        )


def try_to_save(
    instance: Any, outcome: apply.Outcome, *, only_idle: bool = False
) -> None:
    """Record the slots of an operation that has succeeded; only log errors.

    :param only_idle: Whether to record them only if the instance has no task.
    """
    with _errors_logged(instance):
        _save(instance, outcome.slots, outcome.removed, only_idle=only_idle)


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
    lpars: apply.LparOperations,
    instance: Any,
    attached: Sequence[volumes.Volume] = (),
) -> None:
    """Record the slots of an LPAR that is about to be removed, if it exists.

    :param attached: The volumes of the instance.
    :raises exception.PowerVMError: They could not be read.
    """
    with contextlib.suppress(exception.PartitionNotFound):
        _save(
            instance,
            lpars.read_virtual_slots(translation.lpar_of(instance), attached),
        )
