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

"""Unsupported extra specs and image properties."""

import unittest

import ddt

from nova_powervm.lpar import supported_features

# Properties that clouds set on images of Linux for ppc64le.
ORDINARY = {
    'hw_architecture': 'ppc64le',
    'hw_cdrom_bus': 'scsi',
    'hw_disk_bus': 'virtio',
    'hw_machine_type': 'pseries',
    'hw_qemu_guest_agent': True,
    'hw_rng_model': 'virtio',
    'hw_scsi_model': 'virtio-scsi',
    'hw_video_model': 'vga',
    'hw_vif_model': 'virtio',
    'hw_vif_multiqueue_enabled': True,
    'img_config_drive': 'mandatory',
    'img_hv_type': 'qemu',
    'os_distro': 'rhel',
    'os_type': 'linux',
}


@ddt.ddt
class UnsupportedExtraSpecsTest(unittest.TestCase):
    @ddt.data(
        ('hw:cpu_policy', 'dedicated'),
        ('hw:cpu_policy', 'mixed'),
        ('hw:cpu_dedicated_mask', '0'),
        ('hw:cpu_realtime', 'yes'),
        ('hw:cpu_max_sockets', '1'),
        ('hw:numa_nodes', '1'),
        ('hw:numa_cpus.0', '0,1'),
        ('hw:numa_mem.1', '2048'),
        ('hw:pci_numa_affinity_policy', 'required'),
        ('hw:mem_page_size', 'large'),
        ('hw:mem_page_size', '2MB'),
        ('hw:mem_encryption', 'True'),
        ('hw:pmem', '6GB'),
        ('hw:tpm_version', '2.0'),
        ('hw:watchdog_action', 'reset'),
        ('os:secure_boot', 'required'),
        ('quota:cpu_shares', '64'),
        ('quota:disk_read_iops_sec', '100'),
        ('quota:vif_inbound_average', '1'),
        ('quota:memory_shares_level', 'custom'),
        ('quota:of_tomorrow', '1'),
        ('pci_passthrough:alias', 'gpu:1'),
        ('accel:device-profile', 'gpu'),
        ('accel:device_profile_name', 'gpu'),
    )
    @ddt.unpack
    def test_unsupported_extra_spec_is_reported(self, key, value):
        (broken,) = supported_features.refused_extra_specs({key: value})
        self.assertEqual((key, value), (broken.key, broken.value))
        self.assertIn(f'{key}={value}, but ', str(broken))

    @ddt.data(
        ('hw:cpu_policy', 'shared'),
        ('hw:cpu_policy', 'Shared'),
        ('hw:cpu_thread_policy', 'prefer'),
        ('hw:emulator_threads_policy', 'share'),
        ('hw:cpu_realtime', 'no'),
        ('hw:cpu_sockets', '2'),
        ('hw:pci_numa_affinity_policy', 'preferred'),
        ('hw:mem_page_size', 'small'),
        ('hw:mem_page_size', 'any'),
        ('hw:mem_encryption', 'false'),
        ('hw:locked_memory', 'true'),
        ('hw:watchdog_action', 'disabled'),
        ('hw:serial_port_count', '1'),
        ('os:secure_boot', 'disabled'),
        ('quota:cpu_quota', '-1'),
        ('quota:cpu_period', '10000'),
        ('quota:cpu_shares_level', 'normal'),
        ('quota:cpu_shares_share', '12'),
        ('quota:disk_total_iops_sec', '0'),
        ('hw_rng:allowed', 'true'),
        ('hide_hypervisor_id', 'true'),
        ('accel:device_profile', 'gpu'),
        ('resources1:CUSTOM_GPU', '1'),
        ('trait1:CUSTOM_X', 'required'),
        ('trait:COMPUTE_NODE', 'required'),
        ('group_policy', 'none'),
        ('capabilities:hypervisor_type', 'powervm'),
        ('aggregate_instance_extra_specs:ssd', 'true'),
        ('vmware:hw_version', '13'),
        ('powervm:dedicated_proc', 'true'),
        ('billing_code', '42'),
    )
    @ddt.unpack
    def test_harmless_extra_specs_are_accepted(self, key, value):
        self.assertEqual(
            [], list(supported_features.refused_extra_specs({key: value}))
        )


class UnsupportedImagePropertiesTest(unittest.TestCase):
    def test_common_image_properties_are_accepted(self):
        self.assertEqual(
            [], list(supported_features.refused_properties(ORDINARY))
        )

    def test_unsupported_image_property_is_reported(self):
        for name, value in (
            ('hw_architecture', 'x86_64'),
            ('hw_firmware_type', 'uefi'),
            ('hw_firmware_type', 'bios'),
            ('hw_cpu_policy', 'dedicated'),
            ('hw_numa_nodes', 2),
            ('hw_numa_cpus', [{0}, {1}]),
            ('hw_mem_encryption', True),
            ('hw_tpm_model', 'tpm-crb'),
            ('os_secure_boot', 'required'),
            ('os_distro', 'ibmi'),
            ('os_distro', 'IBMi'),
        ):
            with self.subTest(name=name, value=value):
                (broken,) = supported_features.refused_properties(
                    {**ORDINARY, name: value}
                )
                self.assertEqual(
                    (name, str(value)), (broken.key, broken.value)
                )

    def test_image_properties_without_effect_are_accepted(self):
        for name, value in (
            ('hw_mem_encryption', False),
            ('hw_firmware_stateless', False),
            ('hw_redirected_usb_ports', 0),
            ('os_secure_boot', 'optional'),
            ('os_distro', 'aix'),
        ):
            with self.subTest(name=name, value=value):
                self.assertEqual(
                    [],
                    list(supported_features.refused_properties({name: value})),
                )


class RulesTest(unittest.TestCase):
    def test_reasons_are_shorter_than_100_characters(self):
        for rule in supported_features.RULES:
            with self.subTest(rule.reason):
                self.assertLess(len(rule.reason), 100)
                self.assertTrue(
                    rule.extra_specs or rule.properties or rule.connection
                )
