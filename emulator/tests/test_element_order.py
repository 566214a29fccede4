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

"""The tables have the order of elements that pypowervm and captures have."""

import importlib
import inspect
import pkgutil
import unittest

from lxml import etree
from pypowervm import wrappers

from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import schema

from . import base
from . import element_documents

POSTED = (
    'ClientNetworkAdapter',
    'Event',
    'File',
    'JobRequest',
    'LogicalPartition',
    'NetworkBridge',
    'VirtualIOServer',
    'VirtualNetwork',
    'VirtualSwitch',
    'VolumeGroup',
)
# Elements of newer hosts, of which there are public records of 2026.
NEWER = (
    'AssignAllResources',
    'AssociatedPersistentMemoryConfiguration',
    'DefaultProfileName',
    'DynamicLogicalPartitionVIOSCapable',
    'HardwareAcceleratorQoS',
    'HasPhysicalIO',
    'KeyStoreSize',
    'KvmCapable',
    'LastActivatedProfile',
    'OperatingSystemType',
    'SystemName',
    'VirtualSerialNumber',
)


def orders():
    """Yield element and order of children of pypowervm's wrappers.

    Only of elements that the tables have; the others are not served.
    """
    for module in pkgutil.iter_modules(wrappers.__path__):
        found = importlib.import_module(f'{wrappers.__name__}.{module.name}')
        for _, wrapper in inspect.getmembers(found, inspect.isclass):
            kind = getattr(wrapper, 'schema_type', None)
            order = getattr(wrapper, '_child_order', None)
            if order and kind in elements.ORDERS:
                current = elements.ORDERS.get(f'Current{kind}', ())
                # One order of pypowervm is for both.
                yield (
                    kind,
                    [
                        name
                        for name in order
                        if name != 'Metadata' and name not in current
                    ],
                )


class OrderTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)

    def test_elements_have_order_of_pypowervm(self):
        for kind, order in orders():
            with self.subTest(kind):
                rest = iter(elements.ORDERS[kind])
                # Each search goes on where the one before it has ended.
                missing = [name for name in order if name not in rest]
                self.assertEqual([], missing)

    def test_elements_beyond_pypowervm_are_captured(self):
        captured = {
            (etree.QName(node.getparent()).localname, name)
            for root in element_documents.captured()
            for node in root.element.iterdescendants(etree.Element)
            for name in (etree.QName(node).localname,)
        }
        known = {(kind, name) for kind, order in orders() for name in order}
        kinds = {kind for kind, _ in known}
        other = {
            (kind, name)
            for kind in kinds
            for name in elements.ORDERS[kind]
            if (kind, name) not in known | captured
        }
        self.assertEqual(set(), {name for _, name in other} - set(NEWER))

    def test_captured_documents_are_in_order(self):
        found = set()
        for capture in element_documents.captured():
            if capture.noun in POSTED:
                found.add(capture.noun)
                schema.check(content.parse(etree.tostring(capture.element)))
        self.assertLessEqual({'LogicalPartition', 'VirtualIOServer'}, found)

    def test_served_documents_are_in_order(self):
        for kind, found in element_documents.served().items():
            for element in found if kind in POSTED else ():
                with self.subTest(kind):
                    schema.check(content.parse(etree.tostring(element)))
