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

"""What Nova knows to ask for, and what the driver has decided of it."""

import re
import unittest

from nova.api.validation.extra_specs import validators
from nova.objects import image_meta

from nova_powervm.lpar import supported_features


class DecidedTest(unittest.TestCase):
    """Nova can't learn anything new that nobody here has decided on."""

    def test_extra_specs_of_nova_each_have_rule(self):
        for name in validators.VALIDATORS:
            key = re.sub(r'\{\w+\}', '1', name)
            with self.subTest(key):
                self.assertIsNotNone(
                    supported_features.rule_of_extra_spec(key)
                )

    def test_image_properties_of_nova_each_have_exactly_one_rule(self):
        known = set(image_meta.ImageMetaProps.fields)
        decided = [
            n for rule in supported_features.RULES for n in rule.properties
        ]
        self.assertEqual(known, set(decided))
        self.assertEqual(len(known), len(decided))
