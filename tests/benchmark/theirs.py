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

"""Nova's own PCI devices in Placement, over its fake libvirt."""

import nova.tests.functional  # noqa: F401  patches first
from nova.compute import pci_placement_translator
from nova.pci import manager
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_pci_in_placement
from oslo_serialization import jsonutils

from tests.benchmark import measuring
from tests.functional import base

_IDS = {
    'vendor_id': fakelibvirt.PCI_VEND_ID,
    'product_id': fakelibvirt.PCI_PROD_ID,
}
_SLOTS_OF_A_BUS = 32


class Theirs(
    measuring.MeasuringMixin, test_pci_in_placement.PlacementPCIReportingTests
):
    """``[pci]report_in_placement`` with the libvirt driver."""

    PCI_DEVICE_SPEC = (jsonutils.dumps(_IDS),)
    PCI_ALIAS = (jsonutils.dumps(_IDS | {'name': 'device'}),)

    def setUp(self):
        base.prepare_nova(self)
        super().setUp()
        self.flags(group='filter_scheduler', pci_in_placement=True)
        self.api.microversion = '2.93'

    def driver_parts(self):
        # What the libvirt driver does to list the devices does not count.
        names = (
            'update_devices_from_hypervisor_resources',
            'clean_usage',
            'save',
        )
        translator = ('update_provider_tree_for_pci',)
        return [
            (manager.PciDevTracker, names),
            (pci_placement_translator, translator),
        ]

    def prepare(self):
        self.pci_info = devices = fakelibvirt.HostPCIDevicesInfo(
            num_pci=0, num_pfs=0, num_vfs=0
        )
        for number in range(self.devices):
            bus, slot = divmod(number, _SLOTS_OF_A_BUS)
            devices.add_device(
                dev_type='PCI',
                bus=0x81 + bus,
                slot=slot,
                function=0,
                iommu_group=40 + number,
                numa_node=0,
            )

    def start(self):
        self.start_compute(hostname='host1', pci_info=self.pci_info)

    def service(self):
        return self.computes['host1']

    def flavor(self, kind):
        specs = {'pci_passthrough:alias': 'device:1'} if kind else {}
        return self._create_flavor(
            memory_mb=512, vcpu=1, disk=1, ephemeral=0, extra_spec=specs
        )

    def send(self, flavor):
        body = self._build_server(flavor_id=flavor, networks='none')
        return self.api.post_server({'server': body})['id']

    def host_requests(self):
        return 0, 0
