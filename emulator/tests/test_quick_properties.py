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

"""Quick properties have the names and forms that hosts give them."""

import json
import re

from . import wire

LPAR = {
    'AllocatedVirtualProcessors',
    'AssociatedManagedSystem',
    'CurrentMemory',
    'CurrentProcessingUnits',
    'CurrentProcessors',
    'Description',
    'HasDedicatedProcessors',
    'HasPhysicalIO',
    'IsVirtualServiceAttentionLEDOn',
    'LastActivatedProfile',
    'MemoryMode',
    'MigrationState',
    'OperatingSystemVersion',
    'PartitionID',
    'PartitionName',
    'PartitionState',
    'PartitionType',
    'PowerManagementMode',
    'ProgressState',
    'RMCState',
    'ReferenceCode',
    'RemoteRestartState',
    'ResourceMonitoringIPAddress',
    'SharingMode',
}
VIOS = {
    'APICapable',
    'AllocatedVirtualProcessors',
    'AssociatedManagedSystem',
    'CurrentMemory',
    'CurrentProcessingUnits',
    'CurrentProcessors',
    'HasDedicatedProcessors',
    'IsVirtualServiceAttentionLEDOn',
    'OperatingSystemVersion',
    'PartitionID',
    'PartitionName',
    'PartitionState',
    'PartitionType',
    'RMCState',
    'ReferenceCode',
    'ResourceMonitoringIPAddress',
    'SharingMode',
    'VirtualIOServerLicenseAccepted',
}
SYSTEM = {
    'ActivatedLevel',
    'CapacityOnDemandMemoryCapable',
    'CapacityOnDemandProcessorCapable',
    'ConfigurableSystemMemory',
    'ConfigurableSystemProcessorUnits',
    'CurrentAvailableSystemMemory',
    'CurrentAvailableSystemProcessorUnits',
    'Description',
    'IPAddress',
    'InstalledSystemMemory',
    'InstalledSystemProcessorUnits',
    'IsClassicHMCManagement',
    'IsNotPowerVMManagementMaster',
    'IsPowerVMManagementMaster',
    'MTMS',
    'ManufacturingDefaultConfigurationEnabled',
    'MaximumPartitions',
    'MemoryDefragmentationState',
    'MergedReferenceCode',
    'PhysicalSystemAttentionLEDState',
    'ReferenceCode',
    'ServiceProcessorVersion',
    'State',
    'SystemFirmware',
    'SystemLocation',
    'SystemName',
}
KEYS = {
    'LogicalPartition': LPAR,
    'VirtualIOServer': VIOS,
    'ManagedSystem': SYSTEM,
}
NUMBERS = re.compile(
    'Memory$|ProcessorUnits$|ProcessingUnits$|Processors$|^PartitionID$'
    '|^MaximumPartitions$'
)
TEXT_ALTHOUGH_NUMBER = {'HasDedicatedProcessors'}


class QuickTestCase(wire.WireTestCase):
    def quick(self, path):
        """Return quick properties, parsed."""
        answer = self.get(path, Accept='*/*')
        self.assertRegex(answer.headers['content-type'], 'application/json')
        return json.loads(answer.text)

    def of(self, name):
        return self.quick(f'{self.path_of(name)}/quick')


class QuickKeysTest(QuickTestCase):
    def test_feed_has_captured_keys_of_each_kind(self):
        for kind, keys in KEYS.items():
            with self.subTest(kind):
                found = self.quick(f'uom/{kind}/quick/All')
                self.assertTrue(found)
                for item in found:
                    self.assertEqual(keys | {'UUID'}, set(item))

    def test_single_resource_has_captured_keys_without_uuid(self):
        self.assertEqual(LPAR, set(self.of('novalink')))
        self.assertEqual(VIOS, set(self.of('vios1')))
        path = f'uom/ManagedSystem/{self.system().uuid}/quick'
        self.assertEqual(SYSTEM, set(self.quick(path)))

    def test_children_of_system_have_quick_properties(self):
        system = f'uom/ManagedSystem/{self.system().uuid}'
        for kind in ('LogicalPartition', 'VirtualIOServer'):
            found = self.quick(f'{system}/{kind}/quick/All')
            self.assertEqual(KEYS[kind] | {'UUID'}, set(found[0]))

    def test_quick_property_can_be_read_alone(self):
        found = self.of('vios1')
        for name, value in found.items():
            path = f'{self.path_of("vios1")}/quick/{name}'
            self.assertEqual(value, self.quick(path), name)


class QuickFormTest(QuickTestCase):
    def test_truth_values_are_strings(self):
        for kind in KEYS:
            for item in self.quick(f'uom/{kind}/quick/All'):
                for name, value in item.items():
                    with self.subTest(f'{kind} {name}'):
                        self.assertNotIsInstance(value, bool)

    def test_named_truth_values_are_true_or_false(self):
        for name in (
            'IsVirtualServiceAttentionLEDOn',
            'HasDedicatedProcessors',
            'HasPhysicalIO',
        ):
            with self.subTest(name):
                self.assertIn(self.of('database').get(name), ('true', 'false'))
        self.assertEqual('true', self.of('vios1')['APICapable'])

    def test_partition_with_slot_has_physical_io(self):
        self.assertEqual('true', self.of('database').get('HasPhysicalIO'))
        self.assertEqual('false', self.of('novalink').get('HasPhysicalIO'))

    def test_quantities_are_numbers(self):
        for kind in KEYS:
            for item in self.quick(f'uom/{kind}/quick/All'):
                for name in set(filter(NUMBERS.search, item)):
                    if name in TEXT_ALTHOUGH_NUMBER or item[name] is None:
                        continue
                    with self.subTest(f'{kind} {name}'):
                        self.assertIsInstance(item[name], (int, float))

    def test_associated_system_is_full_url(self):
        expected = (
            f'http://{self.emulator.host}:{self.emulator.port}'
            f'/rest/api/uom/ManagedSystem/{self.system().uuid}'
        )
        for name in ('novalink', 'vios1'):
            with self.subTest(name):
                found = self.of(name)['AssociatedManagedSystem']
                self.assertEqual(expected, found)
                path = f'{self.path_of(name)}/quick/AssociatedManagedSystem'
                self.assertEqual(expected, self.quick(path))

    def test_active_partition_with_rmc_has_address(self):
        for name in ('novalink', 'vios1', 'database'):
            with self.subTest(name):
                found = self.of(name).get('ResourceMonitoringIPAddress')
                self.assertRegex(found or '', r'\A\d+\.\d+\.\d+\.\d+\Z')

    def test_processors_that_do_not_apply_are_null(self):
        shared = self.of('vios1')
        self.assertIsNone(shared['CurrentProcessors'])
        self.assertEqual(2, shared['AllocatedVirtualProcessors'])
        self.create(dedicated_proc='true')
        dedicated = self.of('vm1')
        self.assertIsNone(dedicated['AllocatedVirtualProcessors'])
        self.assertIsNone(dedicated['CurrentProcessingUnits'])

    def test_unknown_quick_property_is_refused_with_document(self):
        path = f'{self.path_of("novalink")}/quick/Colour'
        answer = self.ask('GET', path, Accept='*/*')
        self.assertIn(answer.status, (400, 404))
        self.assertTrue(answer.message)
