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
"""Translates pypowervm's wrappers of a host to values."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import iocard
from pypowervm.wrappers import managed_system

from nova_powervm import exception
from nova_powervm.devices import host_values
from nova_powervm.devices import slots

LOG = logging.getLogger(__name__)

#: DRC index to the partition that has the slot in its profile.
Owners = Mapping[int, slots.Owner]
_IO_CONFIGURATION = 'AssociatedSystemIOConfiguration'
# It has one element, named after the type of the adapter.
_ADAPTER = 'RelatedIOAdapter'
_ASSIGNABLE = 'LogicalPartitionAssignmentCapable'


def reports_owners(system: managed_system.System) -> bool:
    """Return whether a slot without a reported owner has no owner."""
    return bool(system.get_capability('ioslot_owner_assignment_capable'))


def managed_system_of(
    system: managed_system.System, owners: Owners | None
) -> host_values.ManagedSystem:
    """Translate a managed system.

    :param system: pypowervm's wrapper.
    :param owners: The owners according to the partitions' profiles, for slots
        without a reported owner; None if the system reports all owners.
    :raises exception.RestBusy: The system does not report its slots.
    """
    return host_values.ManagedSystem(
        name=system.system_name,
        uuid=system.uuid,
        machine=system.mtms.mtms_str,
        memory_mb=system.memory_configurable,
        memory_free_mb=system.memory_free,
        memory_region_mb=system.memory_region_size,
        proc_units=system.proc_units_configurable,
        proc_units_free=system.proc_units_avail,
        min_units_per_vcpu=system.min_proc_units,
        virtual=host_values.ProcessorLimits(
            system.max_vcpus_per_aix_linux_lpar, system.max_sys_vcpus_limit
        ),
        dedicated=host_values.ProcessorLimits(
            system.max_procs_per_aix_linux_lpar, system.max_sys_procs_limit
        ),
        compatibility_modes=system.proc_compat_modes,
        has_dedicated_processors=system.get_capability(
            'dedicated_processor_partition_capable'
        ),
        has_remote_restart=system.get_capability(
            'simplified_remote_restart_capable'
        ),
        has_secure_boot=system.get_capability('partition_secure_boot_capable'),
        io_slots=tuple(_slots(system, owners)),
    )


def _slots(
    system: managed_system.System, owners: Owners | None
) -> Iterator[slots.Slot]:
    if system.element.find(_IO_CONFIGURATION) is None:
        # A recovering host answers like this; it does not mean "no slots".
        raise exception.RestBusy(
            action='reading the managed system',
            reason='it does not report its I/O configuration',
        )
    config = system.asio_config
    sriov = frozenset(_sriov_indexes(config))
    for wrapper in config.io_slots:
        if not wrapper.drc_index:
            # A slot without a DRC index cannot be addressed.
            LOG.debug('No DRC index: %s', wrapper.description)
            continue
        # A reported owner counts even without the capability.
        owner = _reported_owner(wrapper) or (owners or {}).get(
            wrapper.drc_index
        )
        yield _slot(wrapper, owner, wrapper.drc_index in sriov)


def _slot(
    wrapper: Any, owner: slots.Owner | None, in_sriov_mode: bool
) -> slots.Slot:
    return slots.Slot(
        drc_index=wrapper.drc_index,
        drc_name=wrapper.drc_name,
        description=wrapper.description,
        vendor_id=wrapper.pci_vendor_id,
        device_id=wrapper.pci_dev_id,
        subsys_vendor_id=wrapper.pci_subsys_vendor_id,
        subsys_device_id=wrapper.pci_subsys_dev_id,
        pci_class=wrapper.pci_class,
        revision_id=wrapper.pci_rev_id,
        owner=owner,
        sriov=in_sriov_mode,
        assignable=_assignable(wrapper.element),
        bus_group_required=wrapper.bus_grp_required,
    )


def _reported_owner(wrapper: Any) -> slots.Owner | None:
    if wrapper.part_id is None and wrapper.part_uuid is None:
        return None
    return slots.Owner(
        kind=_kind(wrapper.part_type),
        partition_id=wrapper.part_id,
        uuid=_upper(wrapper.part_uuid),
        name=wrapper.part_name,
    )


def _assignable(slot: Any) -> bool:
    """Return whether a partition can own a slot, unless unknown.

    Most hosts do not report this, and pypowervm does not read it.
    """
    return all(
        (said.text or '').strip().lower() == 'true'
        for said in slot.findall(f'{_ADAPTER}/*/{_ASSIGNABLE}')
    )


def profile_owners(partitions: Iterable[Any]) -> Owners:
    """Find the owners of slots in the profiles of all partitions."""
    return dict(_profile_owners(partitions))


def _profile_owners(
    partitions: Iterable[Any],
) -> Iterator[tuple[int, slots.Owner]]:
    for partition in partitions:
        kind = (
            slots.PartitionKind.MANAGEMENT
            if partition.is_mgmt_partition
            else _kind(partition.env)
        )
        owner = slots.Owner(
            kind, partition.id, _upper(partition.uuid), partition.name
        )
        for slot in partition.io_config.io_slots:
            yield slot.drc_index, owner


def _kind(env: str | None) -> slots.PartitionKind:
    if env == base_partition.LPARType.VIOS:
        return slots.PartitionKind.VIOS
    return slots.PartitionKind.CLIENT


def _upper(uuid: str | None) -> str | None:
    return uuid.upper() if uuid else None


def _sriov_indexes(config: managed_system.ASIOConfig) -> Iterator[int]:
    """Find the slots whose adapters are in SR-IOV mode.

    The ``AdapterID`` of such an adapter is the DRC index of its slot. An
    adapter with an unknown mode counts as well.
    """
    dedicated = (
        iocard.SRIOVAdapterMode.DEDICATED,
        iocard.SRIOVAdapterMode.FORCE_DEDICATED,
    )
    for adapter in config.sriov_adapters:
        if adapter.mode not in dedicated and (adapter.id or '').isdigit():
            yield int(adapter.id)
