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

"""Finds the LPARs of instances and their power states."""

import dataclasses
from collections.abc import Callable
from typing import Any

from nova import exception as nova_exception
from nova.virt import hardware
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.ops import interfaces
from nova_powervm.ops import power
from nova_powervm.virt import deferred_starts
from nova_powervm.virt import host_operations
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)


class Instances:
    """Finds the LPARs that belong to instances.

    :param host: The operations on the host.
    :param deferred: Instances to start.
    """

    def __init__(
        self,
        host: host_operations.HostOperations,
        deferred: deferred_starts.DeferredStarts,
    ) -> None:
        self._host = host
        self._deferred_starts = deferred

    def lpar_names(self) -> list[str]:
        """Return the names of the LPARs that belong to instances."""
        lpar_names = self._host.partitions.names()
        instances = self._host.records.instances_of(lpar_names)
        return [name for uuid, name in lpar_names.items() if uuid in instances]

    def uuids(self) -> list[str]:
        """Return the uuids of the instances that have an LPAR here."""
        lpar_names = self._host.partitions.names()
        return sorted(self._host.records.instances_of(lpar_names).values())

    def has_lpar(self, instance: Any) -> bool:
        """Return whether an instance has an LPAR here."""
        try:
            self._host.partitions.state(translation.lpar_of(instance))
        except exception.PartitionNotFound:
            return False
        return True

    def read_power(self, instance: Any) -> partition.Power:
        """Return the power state of an instance.

        If the instance waits for its start, return UNKNOWN instead of OFF:
        Nova would stop an instance that it has recorded as running.

        :raises exception.PowerVMError: The host does not tell it.
        """
        lpar_uuid = translation.lpar_of(instance)
        with self._host.startup.limit_waits():
            state = partition.power(self._host.partitions.state(lpar_uuid))
        if state is partition.Power.FAILED:
            LOG.error(
                'The LPAR of the instance has failed (reference code %s).',
                power.reference_code(self._host.partitions, lpar_uuid)
                or 'none',
                instance=instance,
            )
        if state is partition.Power.OFF and self._deferred_starts.is_waiting(
            instance
        ):
            return partition.Power.UNKNOWN
        return state

    def diagnose(self, instance: Any) -> dict[str, Any]:
        """Describe the LPAR of an instance for its administrator.

        The keys are free: Nova passes them on until microversion 2.47.

        :raises exception.PartitionNotFound: There is no LPAR.
        """
        lpar = interfaces.require_lpar(
            self._host.partitions, translation.lpar_of(instance)
        )
        return {
            'state': lpar.state,
            'reference_code': lpar.reference_code,
            'io_slots': [*map(slots.format_drc_index, sorted(lpar.slots))],
            **dataclasses.asdict(lpar.settings),
        }


def describe(
    instance: Any, read_power: Callable[[], partition.Power]
) -> hardware.InstanceInfo:
    """Return the power state of an instance, or Nova's record if unknown.

    Nova overwrites its record with the result. After an error it deletes the
    allocations of an instance that was just built, while the LPAR keeps
    running. Therefore only raise the error that the LPAR is missing.

    :raises exception.PartitionNotFound: There is no LPAR.
    """
    state = partition.Power.UNKNOWN
    try:
        state = read_power()
    except exception.PartitionNotFound:
        raise
    except (
        exception.PowerVMError,
        nova_exception.VirtDriverNotReady,
    ) as error:
        LOG.warning('The power state is unknown: %s', error, instance=instance)
    except Exception:
        # Any error would cost the instance its allocations: see above.
        LOG.exception('The power state is unknown', instance=instance)
    return translation.instance_info(state, instance.power_state)
