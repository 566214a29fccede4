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

"""How a flavor's groups are made from the inventory file."""

import unittest

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.tool.rules import flavors

PREFIX = 'CUSTOM_POWERVM_IOSLOT'
POLICY = policies.Policy(
    (
        policies.Paragraph(
            'gpus',
            {'vendor_id': '10DE', 'device_id': '1DB6', 'drc_name': 'U78*'},
            'CUSTOM_GPU',
            ('CUSTOM_TESLA',),
        ),
        policies.Paragraph('nvme', {'vendor_id': '144D', 'class': '01??'}),
        policies.Paragraph('rest', {'vendor_id': '1*'}, 'CUSTOM_REST'),
        policies.Paragraph('never', {'vendor_id': '10DE'}, allow=False),
    ),
    'inventory.yaml',
)


class DeviceRequestTest(unittest.TestCase):
    def test_paragraph_gives_class_and_traits_without_wildcards(self):
        for arguments, resource_class, traits in (
            (
                ['gpus'],
                'CUSTOM_GPU',
                {
                    'CUSTOM_TESLA',
                    f'{PREFIX}_VENDOR_ID_10DE',
                    f'{PREFIX}_DEVICE_ID_1DB6',
                },
            ),
            (['nvme'], 'CUSTOM_IOSLOT', {f'{PREFIX}_VENDOR_ID_144D'}),
            (
                ['rest', '1014:034a'],
                'CUSTOM_REST',
                {f'{PREFIX}_VENDOR_ID_1014', f'{PREFIX}_DEVICE_ID_034A'},
            ),
        ):
            with self.subTest(arguments):
                self.assertEqual(
                    flavors.DeviceRequest(resource_class, frozenset(traits)),
                    flavors.request_for_paragraph(POLICY, *arguments),
                )

    def test_device_gets_the_class_of_its_paragraph(self):
        request = flavors.request_for_device(POLICY, '1014:034A')
        self.assertEqual('CUSTOM_REST', request.resource_class)

    def test_unsuitable_paragraph_or_device_is_refused(self):
        by_paragraph = flavors.request_for_paragraph
        by_device = flavors.request_for_device
        for words, request, *arguments in (
            ('there are: gpus, nvme, rest', by_paragraph, 'gpu'),
            ('there are: gpus, nvme, rest', by_paragraph, 'never'),
            (
                'does not match devices 8086:0000',
                *(by_paragraph, 'gpus', '8086:0000'),
            ),
            ('no paragraph of inventory.yaml', by_device, '8086:0000'),
            ('CUSTOM_GPU and CUSTOM_REST', by_device, '10DE:1DB6'),
            *(
                ('as in 10DE:1DB6', by_device, text)
                for text in ('10DE', '10DE:', '10DE:1DB*', 'nvidia:v100', '')
            ),
        ):
            with (
                self.subTest(arguments),
                self.assertRaisesRegex(exception.ConfigurationError, words),
            ):
                request(POLICY, *arguments)


class ExtraSpecsTest(unittest.TestCase):
    def test_single_device_needs_no_group_policy(self):
        request = flavors.DeviceRequest('PGPU', frozenset({'CUSTOM_FAST'}))
        self.assertEqual(
            {
                'resources1:PGPU': '1',
                'trait1:CUSTOM_FAST': 'required',
                'trait1:OWNER_NOVA': 'required',
            },
            flavors.make_extra_specs([request]),
        )

    def test_existing_groups_conflict(self):
        wanted = flavors.make_extra_specs(
            [flavors.DeviceRequest('PGPU', frozenset())]
        )
        self.assertEqual((), flavors.find_conflicting_keys(wanted, wanted))
        self.assertEqual(
            ('group_policy', 'resources2:PGPU', 'trait2:CUSTOM_X'),
            flavors.find_conflicting_keys(
                {
                    'resources:VCPU': '1',
                    'hw:cpu_policy': 'shared',
                    'resources2:PGPU': '1',
                    'trait2:CUSTOM_X': 'required',
                    'group_policy': 'isolate',
                },
                wanted,
            ),
        )
