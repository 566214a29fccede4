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

"""Changes of the inventory file while nova-compute is running.

Starting nova takes longer than everything else, so each test has many steps.
"""

import pathlib
import re

import nova.conf

from tests import proofs
from tests.functional import base

CONF = nova.conf.CONF

GPU_SLOTS = {0x21010020, 0x21010021, 0x21010022, 0x21020024}
WITHDRAWN = 'CUSTOM_POWERVM_WITHDRAWN'

#: The first two GPUs by their places.
TWO_PLACES = """\
in C3:
  identification: {drc_name: U78D2.001.EMU0001-P1-C3}
  resource_class: CUSTOM_GPU
in C4:
  identification: {drc_name: U78D2.001.EMU0001-P1-C4}
"""
UNMATCHED = 'others:\n  identification: {vendor_id: ABCD}\n'
FIRST_GPU = {
    'resources1:CUSTOM_GPU': '1',
    'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010020': 'required',
    'trait1:OWNER_NOVA': 'required',
}


class ReloadTestCase(base.PowerVMTestCase):
    """Changes the inventory file; checks Placement and the log."""

    def setUp(self):
        super().setUp()
        self.read = 0

    def begin(self, inventory):
        """Start the host, or restart its nova-compute, with a file."""
        self.forget_log()
        if self.hosts:
            self.restart_host(inventory=inventory)
        else:
            self.start_host(inventory=inventory)

    @property
    def path(self):
        return pathlib.Path(CONF.powervm.inventory_file)

    def write(self, text):
        """Replace the inventory file."""
        new = self.path.with_suffix('.new')
        new.write_text(text)
        new.rename(self.path)

    def cycles(self, number=2):
        """Run some cycles; the second one that sees a change applies it."""
        for _ in range(number):
            self._run_periodics()

    def change(self, text):
        self.write(text)
        self.cycles()

    def log(self, level):
        """Return the driver's log lines of a level since forget_log."""
        return re.findall(
            rf'^\S+ \S+ {level} \[nova_powervm\.\S+\] (.*)$',
            self.stdlog.logger.output[self.read :],
            re.MULTILINE,
        )

    def forget_log(self):
        self.read = len(self.stdlog.logger.output)

    def providers_with(self, trait):
        """Return the slots whose provider has a trait."""
        return {
            index
            for index, provider in self.slot_providers().items()
            if trait in self._get_provider_traits(provider['uuid'])
        }

    def reserved(self, index):
        """Return reserved of a slot's provider, by resource class."""
        uuid = self.slot_providers()[index]['uuid']
        return {
            name: record['reserved']
            for name, record in self._get_provider_inventory(uuid).items()
        }


class ReloadFileTest(ReloadTestCase):
    """A valid file is applied; an invalid one keeps the last one in force."""

    def test_changed_files_are_applied(self):
        self.tell_stories()

    @proofs.proves('D67', 'device.config-reload')
    def story_invalid_file_keeps_last_valid_one_in_force(self):
        self.begin(False)
        self.assertEqual({}, self.slot_providers())
        self.assertIn(
            f'Offering no device: {self.path} (no such file) has no paragraph',
            ' '.join(self.log('INFO')),
        )

        self.write(base.GPUS)
        self.cycles(1)
        self.assertEqual({}, self.slot_providers())
        self.cycles(1)
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        before = self.generations()

        self.assert_keeps_policy('2 problem(s)', self.break_text)
        self.assert_keeps_policy('has no paragraph', self.empty)
        self.assert_keeps_policy('every user can write', self.open_to_all)
        self.assert_keeps_policy('(no such file)', self.path.unlink)
        self.assertEqual(before, self.generations())

        # A file that is as before is still worth a log line.
        self.forget_log()
        self.change(base.GPUS)
        self.assertEqual([], self.log('ERROR'))
        self.assertIn('was read again', ' '.join(self.log('INFO')))
        self.assertEqual(before, self.generations())

        self.forget_log()
        self.cycles(3)
        self.assertEqual([], self.log('INFO'))

    def assert_keeps_policy(self, problem, spoil):
        """Change the file; assert that there is one error and no change."""
        self.forget_log()
        spoil()
        self.cycles(4)
        (line,) = self.log('ERROR')
        self.assertIn('stays in force (1 paragraph(s))', line)
        self.assertIn(problem, self.stdlog.logger.output[self.read :])

    def break_text(self):
        self.write('gpus: {identification: {class: 0302}, x: y}\n')

    def empty(self):
        self.write('# nothing\n')

    def open_to_all(self):
        self.write(base.GPUS)
        self.path.chmod(0o646)

    @proofs.proves('device.config-reload')
    def story_new_traits_and_classes_are_applied(self):
        self.begin(base.GPUS)
        server = self.boot(FIRST_GPU)

        more = base.GPUS.replace('[', '[CUSTOM_NEW, ')
        self.change(more)
        self.assertEqual(GPU_SLOTS, self.providers_with('CUSTOM_NEW'))

        # The trait goes from the allocated provider, too.
        self.change(base.GPUS)
        self.plug_gpu('21010040')
        self.cycles(1)
        self.assertEqual({0x21010040}, set(self.slot_providers()) - GPU_SLOTS)
        self.assertEqual(set(), self.providers_with('CUSTOM_NEW'))

        # The allocated provider keeps its class.
        self.change(base.GPUS.replace('CUSTOM_GPU', 'PGPU'))
        classes = self.slot_classes()
        self.assertEqual({'CUSTOM_GPU'}, classes.pop(0x21010020))
        self.assertEqual([{'PGPU'}] * len(GPU_SLOTS), list(classes.values()))

        # Without paragraph it is withdrawn, and the others are deleted.
        self.forget_log()
        self.change(
            'crypto:\n  identification: {vendor_id: "1014", class: "1080"}\n'
        )
        self.cycles(1)
        self.assertEqual(
            {0x21010020, 0x21010038, 0x21030039}, set(self.slot_providers())
        )
        self.assertEqual({'CUSTOM_GPU': 1}, self.reserved(0x21010020))
        self.assertEqual({0x21010020}, self.providers_with(WITHDRAWN))
        (warning,) = self.log('WARNING')
        self.assertIn('identifies it', warning)
        self.assertIn(server['id'], warning)
        self.assertEqual(self.lpar(server).uuid, self.slot_owner(0x21010020))

        self._delete_server(server)
        self.cycles(1)
        self.assertEqual({0x21010038, 0x21030039}, set(self.slot_providers()))
        self.control().pull('21010040')

    # A device that two paragraphs identify is withheld.

    @proofs.proves('D37', 'device.config-reload')
    def story_conflict_by_new_file_withholds_device(self):
        self.begin(base.GPUS)
        server = self.boot(FIRST_GPU)
        owner = self.slot_owner(0x21010020)

        self.change(base.GPUS + TWO_PLACES)
        self.cycles(2)

        # The free provider is deleted, the allocated one withdrawn.
        self.assertEqual(GPU_SLOTS - {0x21010021}, set(self.slot_providers()))
        self.assertEqual({'CUSTOM_GPU': 1}, self.reserved(0x21010020))
        self.assertEqual({'CUSTOM_GPU': 0}, self.reserved(0x21010022))
        self.assertEqual({0x21010020}, self.providers_with(WITHDRAWN))
        self.assertEqual(owner, self.slot_owner(0x21010020))
        first, second = sorted(self.log('ERROR'))
        for line, index, place, number in (
            (first, '21010020', 'in C3', 7),
            (second, '21010021', 'in C4', 10),
        ):
            self.assertIn(f'slot {index} at U78D2', line)
            self.assertIn("paragraph 'gpus' (line 1)", line)
            self.assertIn(f"paragraph '{place}' (line {number})", line)
            self.assertIn(str(self.path), line)
        self.assertIn(server['id'], first)
        self.boot(base.gpu_groups(1))

        self.forget_log()
        self.change(base.GPUS)
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        self.assertEqual({'CUSTOM_GPU': 0}, self.reserved(0x21010020))
        self.assertEqual(set(), self.providers_with(WITHDRAWN))
        self.assertEqual([], self.log('ERROR'))

    @proofs.proves('D37')
    def story_conflict_by_new_card_withholds_device(self):
        # An empty slot is no device, so two paragraphs may identify it.
        self.begin(
            base.GPUS + 'spare:\n  identification: {drc_index: "21010040"}\n'
        )
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        self.assertIn("paragraph 'spare' (line 7)", ' '.join(self.log('INFO')))

        self.plug_gpu('21010040')
        self.cycles(3)

        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))
        (line,) = self.log('ERROR')
        self.assertIn('slot 21010040', line)
        self.assertIn("paragraph 'gpus' (line 1)", line)
        self.assertIn("paragraph 'spare' (line 7)", line)

        self.control().pull('21010040')
        self.cycles(1)
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

    # A file without matching paragraph does not stop nova-compute.
    @proofs.proves('D13')
    def story_unmatched_file_warns_at_start_and_at_each_change(self):
        self.begin(UNMATCHED)
        self.assertEqual({}, self.slot_providers())
        self.assertEqual(1, self.warnings())
        self.cycles(2)
        self.assertEqual(1, self.warnings())

        self.change(UNMATCHED.replace('ABCD', 'ABCE'))
        self.assertEqual(2, self.warnings())

        # One matching paragraph is enough; the other is logged at INFO.
        self.change(UNMATCHED + base.GPUS)
        self.assertEqual(2, self.warnings())
        self.assertIn(
            "paragraph 'others' (line 1)", ' '.join(self.log('INFO'))
        )
        self.assertEqual(GPU_SLOTS, set(self.slot_providers()))

    def warnings(self):
        return sum('No paragraph of' in line for line in self.log('WARNING'))
