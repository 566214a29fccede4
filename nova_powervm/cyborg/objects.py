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

"""Reported slots as the objects of Cyborg's driver interface.

Cyborg stores a device, its deployable and the attach handle in tables, and
compares each report with them. So the objects depend on nothing but the slot:
attributes are named after their values, and the keys in texts are sorted.
"""

import json
import uuid

from cyborg.objects.driver_objects import driver_attach_handle
from cyborg.objects.driver_objects import driver_attribute
from cyborg.objects.driver_objects import driver_controlpath_id
from cyborg.objects.driver_objects import driver_deployable
from cyborg.objects.driver_objects import driver_device

from nova_powervm.cyborg import report
from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.devices import slots

_PCI = 'PCI'
_UNKNOWN = 'unknown'

# Cyborg demands these keys of a PCI handle; slots of PowerVM have no address.
_ADDRESS = {'domain': '0000', 'bus': '00', 'device': '00', 'function': '0'}


def to_device(
    entry: report.Entry, host: str, driver_name: str
) -> driver_device.DriverDevice:
    """Translate a slot to a device with one deployable and attach handle.

    :param entry: The slot.
    :param host: The name of the compute node's provider.
    :param driver_name: The name of the entry point.
    """
    index = slots.format_drc_index(entry.drc_index)
    return driver_device.DriverDevice(
        vendor=_property(entry, 'vendor_id') or _UNKNOWN,
        model=_property(entry, 'device_id') or _UNKNOWN,
        type=_PCI,
        std_board_info=_text(
            {
                'product_id': _property(entry, 'device_id'),
                'class': _property(entry, 'class'),
            }
        ),
        vendor_board_info=_text({'drc_index': index}),
        stub=False,
        controlpath_id=driver_controlpath_id.DriverControlPathID(
            cpid_type=_PCI, cpid_info=_text({accelerators.SLOT_KEY: index})
        ),
        deployable_list=[_deployable(entry, host, index, driver_name)],
    )


def provider_uuid(host: str, drc_index: int) -> str:
    """Return the uuid that Cyborg computes for the provider of a slot.

    :param host: The name of the compute node's provider.
    :param drc_index: The slot's DRC index.
    """
    name = names.cyborg_provider_name(host, drc_index)
    return str(uuid.uuid3(uuid.NAMESPACE_DNS, name))


def _deployable(
    entry: report.Entry, host: str, index: str, driver_name: str
) -> driver_deployable.DriverDeployable:
    attributes = {'rc': entry.resource_class} | {
        f'trait_{trait}': trait for trait in sorted(entry.traits)
    }
    attach_handle = driver_attach_handle.DriverAttachHandle(
        attach_type=_PCI,
        attach_info=_text({**_ADDRESS, accelerators.SLOT_KEY: index}),
        in_use=False,
    )
    return driver_deployable.DriverDeployable(
        name=names.cyborg_provider_name(host, entry.drc_index),
        num_accelerators=1,
        driver_name=driver_name,
        attribute_list=[
            driver_attribute.DriverAttribute(key=key, value=value)
            for key, value in attributes.items()
        ],
        attach_handle_list=[attach_handle],
    )


def _property(entry: report.Entry, key: str) -> str | None:
    """Return a property of the slot, as its traits have it."""
    prefix = names.property_trait(key, '')
    for trait in sorted(entry.traits):
        if trait.startswith(prefix):
            return trait.removeprefix(prefix)
    return None


def _text(values: dict[str, str | None]) -> str:
    """Return values as text that is the same each time."""
    present = {k: v for k, v in values.items() if v is not None}
    return json.dumps(present, sort_keys=True)
