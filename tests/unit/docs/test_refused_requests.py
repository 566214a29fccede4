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

"""The driver or its pages decide on all that flavors and images can ask."""

import fnmatch
import re
import unittest

from nova.api.validation.extra_specs import validators
from nova.objects import image_meta

from nova_powervm.lpar import supported_features
from tests.unit.docs import pages


class RequestsTest(unittest.TestCase):
    """Nova can't learn anything new that nobody here has decided on."""

    def setUp(self):
        super().setUp()
        self.on_page = [
            *pages.keys('admin/flavors', 'Ignored'),
            *pages.keys('admin/flavors', 'Honored'),
        ]

    def test_extra_specs_of_nova_are_each_decided_on_once(self):
        for name in validators.VALIDATORS:
            key = re.sub(r'\{\w+\}', '1', name)
            on_page = [
                pattern
                for pattern in self.on_page
                if fnmatch.fnmatchcase(key, pattern)
            ]
            with self.subTest(key, on_page=on_page):
                rule = supported_features.rule_of_extra_spec(key)
                self.assertEqual(1, len(on_page) + bool(rule))

    def test_image_properties_of_nova_are_each_decided_on_once(self):
        properties = [
            name
            for rule in supported_features.RULES
            for name in rule.properties
        ]
        properties += [
            key
            for key in self.on_page
            if ':' not in key and key not in validators.VALIDATORS
        ]
        self.assertEqual(
            sorted(image_meta.ImageMetaProps.fields), sorted(properties)
        )
