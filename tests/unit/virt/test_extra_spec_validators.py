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

"""What nova-api says about the extra specs of this driver."""

import unittest
import unittest.mock

import ddt
from nova import exception
from nova.api.validation.extra_specs import validators

from nova_powervm.lpar import extra_specs
from nova_powervm.virt import extra_spec_validators

#: Values that the API accepts and refuses, by the class of the row's value.
VALUES = {
    extra_specs.Whole: (('128',), ('x', '99999999999', '-1')),
    extra_specs.Units: (
        ('1', '0.05', '.5', '0.5', '12.25', '999.99'),
        ('0', '0.04', '0.0', '0.125', '1000', '1e2', '-1', 'x', '\u0663'),
    ),
    extra_specs.Truth: (('true', 'No', '1'), ('maybe',)),
    extra_specs.Choice: ((), ('POWER11', 'Default', '')),
}


@ddt.ddt
class ValidatorTest(unittest.TestCase):
    def setUp(self):
        known = {v.name: v for v in extra_spec_validators.register()}
        patched = unittest.mock.patch.multiple(
            validators, VALIDATORS=known, NAMESPACES={'powervm'}
        )
        patched.start()
        self.addCleanup(patched.stop)

    @ddt.idata(extra_specs.TABLE)
    def test_api_and_driver_accept_the_same_values(self, row):
        good, bad = VALUES[type(row.value)]
        if isinstance(row.value, extra_specs.Choice):
            good = row.value.values
        elif isinstance(row.value, extra_specs.Whole):
            good = (str(row.value.low), str(row.value.high))
        for text in good:
            with self.subTest(value=text):
                validators.validate(row.key, text)
                row.value.parse(text)
        for text in bad:
            with self.subTest(value=text):
                with self.assertRaises(exception.ValidationError):
                    validators.validate(row.key, text)
                with self.assertRaises(ValueError):
                    row.value.parse(text)

    def test_unknown_key_is_refused(self):
        with self.assertRaises(exception.ValidationError):
            validators.validate('powervm:lmb', '1')
