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

"""What the documents say of messages, reasons and layers is the code's."""

import inspect
import re
import tomllib
import unittest

from nova_powervm import exception
from nova_powervm.domain import slots
from tests.unit.docs import pages

_PLACE = re.compile(r'\{\w+\}')


def messages():
    """Give name and pattern of each error that has words of its own."""
    for name, error in inspect.getmembers(exception, inspect.isclass):
        own = vars(error).get('message')
        if own and own != '{reason}':
            yield name, own


class MessageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.text = pages.words(
            pages.documents()['admin/troubleshooting'].replace('\n   ', '\n')
        )

    def test_every_error_is_explained(self):
        for name, message in messages():
            # The list of problems follows its head.
            head = message.removesuffix('\n{problems}')
            shown = _PLACE.sub(lambda place: f'<{place[0][1:-1]}>', head)
            with self.subTest(error=name):
                self.assertIn(pages.words(shown), self.text)


class ReasonTest(unittest.TestCase):
    def test_every_reason_is_explained(self):
        text = pages.documents()['admin/devices']
        for slot, duplicated in (
            (slots.Slot(1, vendor_id=slots.EMPTY_ID), ()),
            (slots.Slot(1), (1,)),
            (slots.Slot(1, sriov=True), ()),
        ):
            reason = slots.reason_unavailable(slot, (), duplicated)
            self.assertIn(f'``{reason}``', text)


class ArchitectureTest(unittest.TestCase):
    def test_every_import_contract_is_named(self):
        settings = tomllib.loads((pages.ROOT / 'pyproject.toml').read_text())
        text = pages.documents()['contributor/architecture']
        for contract in settings['tool']['importlinter']['contracts']:
            self.assertIn(f'* {contract["name"]}\n', text)
