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

"""Strategies for hosts, inventory files and providers."""

from hypothesis import strategies as st

from nova_powervm.devices import matching
from nova_powervm.devices import names
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from nova_powervm.devices import slots

LPARS = (
    '4B1C2D3E-0000-4000-8000-000000000001',
    '5B1C2D3E-0000-4000-8000-000000000002',
    '6B1C2D3E-0000-4000-8000-000000000003',
)
#: Few values and some of them often, so that slots and paragraphs meet and
#: many slots are free.
IDS = st.sampled_from((0x10DE, 0x10DE, 0x10DE, 0x1014, None, 0xFFFF))
RARELY = st.sampled_from((False, False, False, False, True))
INDEXES = st.integers(1, 5).map(lambda number: 0x21010000 + number)
CLASSES = st.sampled_from(('CUSTOM_GPU', 'CUSTOM_IOSLOT', 'PGPU'))
TEXT = st.text(st.characters(exclude_categories=['Cs']))

owners = st.builds(
    slots.Owner,
    kind=st.sampled_from(slots.PartitionKind),
    partition_id=st.none() | st.integers(1, 9),
    uuid=st.none() | st.sampled_from(LPARS),
    name=st.none() | st.just('lpar'),
)
host_slots = st.builds(
    slots.Slot,
    drc_index=INDEXES,
    drc_name=st.none() | st.sampled_from(('U78-P1-C1', 'U78-P1-C2')),
    description=st.none() | st.sampled_from(('Empty slot', 'GPU')),
    vendor_id=IDS,
    device_id=IDS,
    subsys_vendor_id=IDS,
    subsys_device_id=IDS,
    pci_class=IDS,
    revision_id=st.none() | st.integers(0, 0xFF),
    owner=st.one_of(st.none(), st.none(), owners),
    sriov=RARELY,
)
any_slots = st.builds(
    slots.Slot,
    drc_index=st.integers(0, 0xFFFFFFFF),
    drc_name=st.none() | TEXT,
    vendor_id=st.none() | st.integers(0, 0xFFFF),
    device_id=st.none() | st.integers(0, 0xFFFF),
    subsys_vendor_id=st.none() | st.integers(0, 0xFFFF),
    subsys_device_id=st.none() | st.integers(0, 0xFFFF),
    pci_class=st.none() | st.integers(0, 0xFFFF),
    revision_id=st.none() | st.integers(0, 0xFF),
)


def _values(key):
    if key == 'drc_name':
        return st.sampled_from(('U78-P1-C1', 'U78-P1-C2'))
    if key == 'drc_index':
        return INDEXES.map(slots.format_drc_index)
    if key == 'revision_id':
        return st.integers(0, 0xFF).map('{:02X}'.format)
    return st.sampled_from(('10DE', '10DE', '1014', 'FFFF'))


identifications = st.sets(
    st.sampled_from(list(policy.PROPERTIES)), max_size=2
).flatmap(lambda keys: st.fixed_dictionaries({k: _values(k) for k in keys}))
paragraphs = st.builds(
    policy.Paragraph,
    name=st.sampled_from(('gpus', 'disks', 'rest')),
    identification=identifications,
    resource_class=CLASSES,
    traits=st.sampled_from(((), ('CUSTOM_FAST',))),
)
policies = st.builds(
    policy.Policy, st.lists(paragraphs, max_size=4).map(tuple)
)

records = st.fixed_dictionaries(
    {'total': st.just(1)}, optional={'reserved': st.integers(0, 2)}
)
provider_names = st.one_of(
    INDEXES.map(lambda index: names.provider_name('host1', index)),
    INDEXES.map(lambda index: names.provider_name('', index, 'spec')),
    st.sampled_from(('host1_0000:81:00.0', 'PowerVM PF 21010001')),
)
providers = st.lists(
    st.builds(
        slot_providers.Provider,
        uuid=st.uuids().map(str),
        name=provider_names,
        inventory=st.dictionaries(CLASSES, records, max_size=2),
        traits=st.frozensets(
            st.sampled_from(
                (
                    names.WITHDRAWN_TRAIT,
                    names.ONE_TIME_USE_TRAIT,
                    'CUSTOM_POWERVM_IOSLOT_CLASS_0200',
                    'CUSTOM_BY_HAND',
                )
            )
        ),
    ),
    max_size=6,
    unique_by=lambda provider: provider.name,
)
_TRAITS = frozenset({'OWNER_NOVA', 'CUSTOM_FAST'})


def _device(index, resource_class, once):
    flag = {names.ONE_TIME_USE_TRAIT} if once else frozenset()
    return matching.Device(
        slots.Slot(index), resource_class, _TRAITS | flag, once
    )


devices = st.lists(
    st.builds(_device, INDEXES, CLASSES, st.booleans()),
    max_size=5,
    unique_by=lambda device: device.slot.drc_index,
)
