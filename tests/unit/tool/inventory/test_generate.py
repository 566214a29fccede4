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

"""The command generate."""

import os
import re
import stat

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import inventory_file
from nova_powervm.devices import host_values
from nova_powervm.devices import matching
from nova_powervm.powervm import captures
from nova_powervm.tool.inventory import generate as generating
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import pci_ids
from nova_powervm.tool.rules import device_kinds
from tests import proofs
from tests.property import strategies
from tests.unit.devices import values
from tests.unit.tool.inventory import base


def reading(*slots, owners_known=True):
    """Make a reading of a host with these slots."""
    managed = host_values.ManagedSystem(
        'host', 'u', 'm', 0, 0, 0, 0, 0, 0, tuple(slots)
    )
    return host_reader.HostReading(managed, 'here', owners_known)


def generate(*slots, **options):
    """Make a file for these slots."""
    return generating.generate_file(
        reading(*slots), pci_ids.DeviceNames(), **options
    )


def uncommented(text):
    """Take the # away from all paragraphs."""
    lines = [
        line[1:] if re.match(r'#(\S|  )', line) and _is_yaml(line) else line
        for line in text.splitlines()
    ]
    return '\n'.join(lines)


def _is_yaml(line):
    return bool(
        re.match(r'#(  )?(  )?[a-z_0-9-]+:( "[0-9A-F]+"| [A-Z_]+)?$', line)
    )


class GenerateFileTest(base.ToolTestCase):
    def offered(self, text, *slots):
        policy = inventory_file.parse(text, 'generated')
        verdicts = matching.judge(policy, slots)
        self.assertEqual((), matching.conflicts(verdicts))
        return {
            v.slot.drc_index: v.paragraphs[0] for v in verdicts if v.offered
        }

    @proofs.proves('D43')
    def test_resource_class_auto_follows_pci_class(self):
        slots = [
            values.slot(drc_index=n, pci_class=pci_class)
            for n, pci_class in enumerate((0x0302, 0x0108, 0x1000, 0x1200), 1)
        ]
        text = generate(*slots, resource_class='auto')
        offered = self.offered(text, *slots)
        self.assertEqual(
            [
                'CUSTOM_GPU',
                'CUSTOM_NVME',
                'CUSTOM_CRYPTO',
                'CUSTOM_ACCELERATOR',
            ],
            [offered[n].resource_class for n in (1, 2, 3, 4)],
        )
        for kind in (
            device_kinds.GPU,
            device_kinds.NVME,
            device_kinds.CRYPTO,
            device_kinds.ACCELERATOR,
        ):
            self.assertIn(f'# ---- {kind.title}\n', text)

    def test_devices_of_one_type_share_a_paragraph(self):
        slots = [
            values.slot(drc_index=1, drc_name='P1-C1'),
            values.slot(drc_index=2, drc_name='P1-C2'),
            values.slot(drc_index=3, drc_name='P1-C3', device_id=0x1DB6),
        ]
        text = generate(*slots)
        self.assertEqual(2, len(inventory_file.parse(text, 'x').paragraphs))
        self.assertEqual({1, 2, 3}, set(self.offered(text, *slots)))
        self.assertIn('# 2 x GPU (10DE:1EB8): P1-C1, P1-C2\n', text)

    def test_card_without_ids_shares_no_paragraph_with_its_class(self):
        known = values.slot(drc_index=1)
        for unreported in (
            ('vendor_id', 'device_id'),
            ('vendor_id',),
            ('device_id',),
            ('pci_class',),
        ):
            silent = values.slot(drc_index=2, **dict.fromkeys(unreported))
            text = uncommented(generate(known, silent))
            offered = self.offered(text, known, silent)
            self.assertEqual({1, 2}, set(offered))
            self.assertNotEqual(offered[1], offered[2])
            self.assertIn('drc_index: "00000002"', text)

    @proofs.proves('D4')
    def test_wired_adapters_are_commented_out_with_the_reason(self):
        slot = values.slot(pci_class=0x0200)
        text = generate(slot)
        self.assertEqual((), inventory_file.parse(text, 'x').paragraphs)
        self.assertIn('not offered, because they are connected to a', text)
        self.assertIn('\n#network-10de-1eb8-0200:\n', text)
        self.assertEqual(
            {slot.drc_index}, set(self.offered(uncommented(text), slot))
        )

    def test_unavailable_slots_are_left_out_with_the_reason(self):
        slots = [
            values.slot(drc_index=1, drc_name='P1-C1', sriov=True),
            values.slot(
                drc_index=2, device_id=2, owner=values.client(name='db')
            ),
            values.slot(drc_index=3, vendor_id=0xFFFF),
        ]
        text = generate(*slots)
        self.assertEqual((), inventory_file.parse(text, 'x').paragraphs)
        self.assertNotIn('vendor_id', text)
        words = ' '.join(text.replace('#', ' ').split())
        self.assertIn(
            'P1-C1, GPU (10DE:1EB8): the adapter is in SR-IOV', words
        )
        self.assertIn('it is owned by partition db', words)
        self.assertIn('# Empty slots: 1', text)

    def test_device_of_an_instance_gets_a_paragraph(self):
        slot = values.slot(owner=values.client())
        self.assertNotIn('vendor_id', generate(slot))
        text = generate(slot, instance_lpars=[values.LPAR])
        self.assertEqual(1, len(inventory_file.parse(text, 'x').paragraphs))

    def test_taken_device_of_a_free_type_is_a_comment(self):
        free = values.slot(drc_index=1)
        taken = values.slot(
            drc_index=2, drc_name='P9', owner=values.client(name='db')
        )
        text = generate(free, taken)
        self.assertIn('# not now: P9, it is owned by partition db', text)
        self.assertEqual({1}, set(self.offered(text, free, taken)))

    def test_comment_warns_of_unknown_owners(self):
        text = generating.generate_file(
            reading(values.slot(), owners_known=False), pci_ids.DeviceNames()
        )
        self.assertIn('does not report the owners of', text)

    def test_text_from_the_host_can_not_leave_its_comment(self):
        slot = values.slot(description='x\ny: z\r\u2028w', drc_name='a\nb: c')
        self.assertEqual(
            {slot.drc_index}, set(self.offered(generate(slot), slot))
        )

    @given(
        st.lists(strategies.any_slots, max_size=6),
        st.sampled_from((None, 'auto', 'CUSTOM_X')),
    )
    def test_generated_file_is_valid_for_any_host(self, slots, resource_class):
        text = generate(*slots, resource_class=resource_class)
        for version in (text, uncommented(text)):
            self.offered(version, *slots)
        # With every paragraph in force each free device is offered.
        duplicated = {
            s.drc_index
            for s in slots
            if sum(t.drc_index == s.drc_index for t in slots) > 1
        }
        free = {
            s.drc_index
            for s in slots
            if not (s.is_empty or s.sriov or s.owner)
        } - duplicated
        self.assertEqual(free, set(self.offered(uncommented(text), *slots)))


class CapturesTest(base.ToolTestCase):
    """Stored answers of real systems, read by each command that takes them."""

    def setUp(self):
        super().setUp()
        self.fabric = self.write(
            'all.yaml', 'all:\n  identification: {class: "0200"}'
        )

    def test_commands_read_each_capture(self):
        for name, system in base.CAPTURES:
            with self.subTest(capture=name, system=system):
                options = ['--system-name', system] if system else []
                source = ['--system-xml', base.capture(name), *options]
                managed = captures.read([base.capture(name)], system).system
                self.generate(source, managed.io_slots)
                self.show(source, is_known=system == 'HV4')
                result = self.run_tool('validate', self.fabric, *source)
                self.assertIn(result.status, (0, 1), result)
                self.assertIn('It offers', result.out)

    def generate(self, source, io_slots):
        result = self.run_tool('generate', *source)
        self.assertEqual(0, result.status, result)
        for text in (result.out, uncommented(result.out)):
            policy = inventory_file.parse(text, 'generated')
            verdicts = matching.judge(policy, io_slots)
            self.assertEqual((), matching.conflicts(verdicts))
            self.assertEqual((), matching.unused(policy, io_slots))

    def show(self, source, is_known):
        """Show the slots, of which the owners are known or not."""
        result = self.run_tool('show', '-f', 'json', *source)
        self.assertEqual(0, result.status, result)
        self.assertEqual(not is_known, 'warning' in result.err)
        owners = {row['Owner'] for row in result.json}
        if is_known:
            self.assertIn(None, owners)
        else:
            self.assertEqual({'not known'}, owners)


class HostTest(base.HostTestCase):
    @proofs.proves('D43')
    def test_generated_file_of_emulated_host_is_valid(self):
        result = self.succeed('generate', '--resource-class', 'auto')
        policy = inventory_file.parse(result.out, 'generated')
        self.assertEqual(
            {'CUSTOM_GPU', 'CUSTOM_NVME', 'CUSTOM_CRYPTO'},
            policy.resource_classes,
        )
        path = self.write('own.yaml', result.out)
        self.assertIn('no problems', self.succeed('validate', path).out)

    def test_default_resource_class_is_custom_ioslot(self):
        text = self.succeed('generate').out
        policy = inventory_file.parse(text, 'generated')
        self.assertEqual({'CUSTOM_IOSLOT'}, policy.resource_classes)

    def test_resource_class_is_used_and_checked(self):
        text = self.succeed('generate', '--resource-class', 'CUSTOM_X').out
        policy = inventory_file.parse(text, 'generated')
        self.assertEqual({'CUSTOM_X'}, policy.resource_classes)
        result = self.run_tool('generate', '--resource-class', 'VCPU')
        self.assertEqual(1, result.status)
        self.assert_one_line(result.err, 'VCPU', 'auto')

    def test_output_has_mode_0640(self):
        output = self.directory / 'new.yaml'
        old = os.umask(0o777)
        self.addCleanup(os.umask, old)
        result = self.succeed('generate', '--output', output)
        os.umask(old)
        self.assertIn('chgrp nova', result.out)
        self.assertEqual(0o640, stat.S_IMODE(output.stat().st_mode))
        self.assertEqual(self.succeed('generate').out, output.read_text())

    def test_output_is_not_overwritten_without_force(self):
        result = self.run_tool('generate', '--output', self.inventory)
        self.assertEqual(1, result.status)
        self.assert_one_line(result.err, self.inventory, '--force')
        with open(self.inventory) as kept:
            self.assertEqual(base.GPUS, kept.read())
        self.succeed('generate', '--output', self.inventory, '--force')
        with open(self.inventory) as replaced:
            self.assertIn('gpu-10de-1db6-0302', replaced.read())
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.inventory).st_mode))

    def test_force_follows_a_link_and_leaves_no_other_file(self):
        link = self.directory / 'link.yaml'
        link.symlink_to(self.inventory)
        before = set(os.listdir(self.directory))
        self.succeed('generate', '--output', link, '--force')
        self.assertTrue(link.is_symlink())
        self.assertIn('gpu-10de', link.read_text())
        self.assertEqual(before, set(os.listdir(self.directory)))

    def test_missing_output_directory_names_the_output_file(self):
        result = self.run_tool('generate', '--output', '/nonexistent/x.yaml')
        self.assertEqual(1, result.status)
        self.assert_one_line(result.err, '/nonexistent/x.yaml')
