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

"""Values for the tests of the core."""

import dataclasses

from nova_powervm.devices import host_values
from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings


def settings_of(memory_mb, vcpus, proc_units):
    """Return the settings of an LPAR that has no others than its flavor's."""
    return lpar_settings.decide_settings(
        lpar_settings.FlavorSettings(memory_mb, vcpus, proc_units / vcpus), {}
    )


LPAR = '4B1C2D3E-0000-4000-8000-000000000001'
OTHER_LPAR = '5B1C2D3E-0000-4000-8000-000000000002'
SIZES = settings_of(2048, 2, 1.0)
INDEX = 0x21010020
NAME = 'PowerVM IOSlot host1 21010020'


def slot(**changes):
    """Return the slot of a GPU without owner."""
    values = {
        'drc_index': INDEX,
        'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
        'description': 'GPU',
        'vendor_id': 0x10DE,
        'device_id': 0x1EB8,
        'subsys_vendor_id': 0x10DE,
        'subsys_device_id': 0x12A2,
        'pci_class': 0x0302,
        'revision_id': 0xA1,
    }
    return slots.Slot(**{**values, **changes})


def client(uuid=LPAR, **changes):
    """Return an owner that is an ordinary LPAR."""
    return slots.Owner(
        **{'kind': slots.PartitionKind.CLIENT, 'uuid': uuid, **changes}
    )


def paragraph(name='gpus', line=1, **identification):
    """Return a paragraph, by default one that identifies NVIDIA's GPU."""
    return policy.Paragraph(
        name=name,
        identification=identification or {'vendor_id': '10DE'},
        resource_class='CUSTOM_GPU',
        traits=('CUSTOM_FAST',),
        line=line,
    )


def device(index=INDEX, resource_class='CUSTOM_GPU', traits=('OWNER_NOVA',)):
    """Return a device that is offered."""
    return matching.Device(
        slot(drc_index=index), resource_class, frozenset(traits)
    )


def record(reserved=0):
    """Return an inventory record as in the specification."""
    return {
        'total': 1,
        'reserved': reserved,
        'min_unit': 1,
        'max_unit': 1,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


def provider(name=NAME, classes=('CUSTOM_GPU',), reserved=0, traits=()):
    """Return a provider of Nova's tree; its uuid contains its name."""
    return slot_providers.Provider(
        uuid=f'uuid of {name}',
        name=name,
        inventory={rc: record(reserved) for rc in classes},
        traits=frozenset(traits),
    )


def name_of(index):
    """Name a provider of this host."""
    return names.provider_name('host1', index)


def assess(devices=(), providers=(), **changes):
    """Assess a host whose slot has some values, and these devices."""
    return plan.Assessment(
        plan.Facts(policy.Policy(), (slot(**changes),)),
        (),
        slot_providers.pair(devices, providers),
        frozenset(),
    )


def make_plan(
    devices=(), providers=(), allocations=None, verdicts=(), held=()
):
    """Plan for devices that are offered, whatever made them so.

    :param allocations: Placement's answers; that nobody holds anything if
        they are left out.
    :param verdicts: Those of slots that are not offered.
    :param held: DRC indexes of slots that LPARs of instances own.
    """
    once = dataclasses.replace(paragraph(), one_time_use=True)
    flagged = [
        matching.Verdict(device.slot, (once,), None)
        for device in devices
        if device.one_time_use
        and device.slot.drc_index not in {v.slot.drc_index for v in verdicts}
    ]
    made = plan.make_plan(
        plan.Assessment(
            plan.Facts(policy.Policy()),
            (*verdicts, *flagged),
            slot_providers.pair(devices, providers),
            frozenset(held),
        ),
        slot_providers.Allocations({p.uuid: {} for p in providers})
        if allocations is None
        else allocations,
        name_of,
    )
    return dataclasses.replace(made, verdicts=tuple(verdicts))


def managed_system(**changes):
    """Return a host with 16 processors and 64 GiB."""
    values = {
        'name': 'Server-8247-22L',
        'uuid': 'c889bf0d-9996-33ac-84c5-d16727083a77',
        'machine': '8247-22L*1234567',
        'memory_mb': 65536,
        'memory_free_mb': 49152,
        'memory_region_mb': 256,
        'proc_units': 16.0,
        'proc_units_free': 12.5,
        'min_units_per_vcpu': 0.05,
    }
    return host_values.ManagedSystem(**{**values, **changes})


def spec(**changes):
    """Return the specification of an LPAR with two slots."""
    values = {
        'uuid': LPAR,
        'name': 'instance-00000001',
        'settings': SIZES,
        'changed': frozenset(lpar_settings.NAMES),
        'slots': (
            partition.SlotAssignment(0x21010020),
            partition.SlotAssignment(0x21010021, True),
        ),
    }
    return partition.PartitionSpec(**{**values, **changes})


def lpar(**changes):
    """Return the LPAR of :func:`spec`, as the host reports it."""
    values = {
        'uuid': LPAR,
        'name': 'instance-00000001',
        'state': 'not activated',
        'settings': SIZES,
        'slots': {0x21010020: True, 0x21010021: True},
    }
    return partition.Partition(**{**values, **changes})
