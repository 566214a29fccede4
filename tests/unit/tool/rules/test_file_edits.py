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

import os
import subprocess
import tempfile
import unittest

from nova_powervm import inventory_file
from nova_powervm.tool.rules import file_edits
from tests.unit.devices import values

SLOT = values.slot()
OTHER = values.slot(drc_index=0x21010021, drc_name='U78CB.001.WZS0JZB-P1-C3')
GPUS = """\
gpus:
  identification: {vendor_id: "10DE"}
  resource_class: CUSTOM_GPU"""
OWN = """\
# A comment
one:
  identification:
    drc_index: "21010020"

  resource_class: CUSTOM_ONE
# Another comment
cards:
  identification: {vendor_id: "1014"}
"""
DENIED = f"""\
{GPUS}
not-21010020:
  identification:
    drc_index: "21010020"
  allow: false
"""


class EditTest(unittest.TestCase):
    """Edits, made by the shell as an operator makes them."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, 'in ventory.yaml')

    def read(self, text):
        if text is not None:
            with open(self.path, 'w') as file:
                file.write(text)
        with open(self.path) as file:
            text = file.read()
        return file_edits.SlotFile(
            self.path, text, inventory_file.parse(text, self.path)
        )

    def carry_out(self, edit):
        self.assertTrue(edit.command, edit)
        subprocess.run(['/bin/sh', '-c', edit.command], check=True)
        return self.read(None)

    def giving(self, file):
        return [
            paragraph.name if paragraph else None
            for paragraph in (
                file.giving(slot, (SLOT, OTHER)) for slot in (SLOT, OTHER)
            )
        ]

    def test_paragraph_of_several_slots_is_denied_for_one(self):
        edit = file_edits.take_out(self.read(GPUS), SLOT, (SLOT, OTHER))
        self.assertIn("paragraph 'gpus' (line 1) identifies it", edit.what)
        after = self.carry_out(edit)
        self.assertEqual([None, 'gpus'], self.giving(after))
        self.assertIn(SLOT.drc_name, after.text)

    def test_paragraph_of_the_slot_alone_is_removed(self):
        edit = file_edits.take_out(self.read(OWN), SLOT, (SLOT, OTHER))
        self.assertIn("remove paragraph 'one' (line 2)", edit.what)
        after = self.carry_out(edit)
        self.assertEqual([None, None], self.giving(after))
        self.assertEqual(
            '# A comment\n# Another comment\ncards:\n'
            '  identification: {vendor_id: "1014"}\n',
            after.text,
        )

    def test_last_paragraph_is_kept_and_denied(self):
        # A running service refuses a file without paragraphs.
        alone = OWN.partition('# Another')[0]
        edit = file_edits.take_out(self.read(alone), SLOT, (SLOT, OTHER))
        after = self.carry_out(edit)
        self.assertEqual([None, None], self.giving(after))
        self.assertIn(alone, after.text)
        edit = file_edits.put_in(after, SLOT, (SLOT, OTHER), 'CUSTOM_X')
        self.assertEqual(['one', None], self.giving(self.carry_out(edit)))

    def test_slot_of_an_empty_file_is_denied(self):
        edit = file_edits.deny(self.read('# nothing'), SLOT, (SLOT, OTHER))
        after = self.carry_out(edit)
        self.assertEqual(
            ['not-21010020'], [p.name for p in after.policy.paragraphs]
        )

    def test_denying_paragraph_of_the_slot_alone_is_removed(self):
        edit = file_edits.put_in(
            self.read(DENIED), SLOT, (SLOT, OTHER), 'CUSTOM_X'
        )
        self.assertEqual(['gpus', 'gpus'], self.giving(self.carry_out(edit)))

    def test_wide_denial_is_left_to_an_editor(self):
        wide = (
            GPUS + '\nwide:\n  identification: {class: "*"}\n  allow: false\n'
        )
        edit = file_edits.put_in(
            self.read(wide), SLOT, (SLOT, OTHER), 'CUSTOM_X'
        )
        self.assertEqual('', edit.command)
        self.assertIn("paragraph 'wide' (line 4), which denies it", edit.what)

    def test_unidentified_slot_gets_a_paragraph(self):
        for text in ('', '# nothing', OWN.replace('21010020', '21019999')):
            file = self.read(text)
            edit = file_edits.put_in(file, SLOT, (SLOT, OTHER), 'CUSTOM_X')
            after = self.carry_out(edit)
            self.assertEqual(['slot-21010020', None], self.giving(after))
            (added,) = [
                p for p in after.policy.paragraphs if p.name[:4] == 'slot'
            ]
            self.assertEqual('CUSTOM_X', added.resource_class)

    def test_file_that_no_command_can_extend_is_left_to_an_editor(self):
        flow = '{gpus: {identification: {vendor_id: "10DE"}}}'
        edit = file_edits.take_out(self.read(flow), SLOT, (SLOT, OTHER))
        self.assertEqual('', edit.command)

    def test_names_of_paragraphs_stay_unique(self):
        text = DENIED.replace('allow: false', 'resource_class: CUSTOM_X')
        text = text.replace('21010020"', '21019999"')
        edit = file_edits.take_out(self.read(text), SLOT, (SLOT, OTHER))
        self.assertIn('not-21010020-too:', edit.command)
        self.carry_out(edit)
