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

"""What lint says about the extra specs of this driver."""

import unittest

import ddt

from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import setting_lint


def lint(vcpus=4, memory_mb=1024, ratio=4.0, **specs):
    """Return severity, key, and words of what is found."""
    specs = {key.replace('__', ':'): value for key, value in specs.items()}
    return [
        (str(found.severity), found.key, f'{found.problem}; {found.hint}')
        for found in setting_lint.lint_settings(
            flavors.Flavor(specs, memory_mb, vcpus), 0.1, ratio
        )
    ]


@ddt.ddt
class SettingLintTest(unittest.TestCase):
    @ddt.named_data(
        ['nothing', {}],
        ['others', {'hw__numa_nodes': '2'}],
        ['limits', {'powervm__max_mem': '2048'}],
        [
            'counted',
            {'powervm__dedicated_proc': 'true', 'resources__VCPU': '16'},
        ],
        ['ratio of one', {'powervm__dedicated_proc': 'true', 'ratio': 1.0}],
        ['as many', {'powervm__proc_units': '1'}],
        ['size unknown', {'powervm__max_mem': '512', 'memory_mb': None}],
    )
    def test_good_flavor_has_no_finding(self, fields):
        self.assertEqual([], lint(**fields))

    @ddt.named_data(
        ['key', {'powervm__maxmem': '1'}, 'maxmem', 'mean powervm:max_mem'],
        ['value', {'powervm__max_mem': 'x'}, 'max_mem', 'a whole number'],
        ['size', {'powervm__max_mem': '512'}, 'max_mem', 'the memory, 1024'],
        [
            'restart',
            {'powervm__srr_capability': '1', 'resources1__CUSTOM_GPU': '1'},
            'srr_capability',
            'with its devices',
        ],
    )
    def test_refused_extra_spec_is_an_error(self, fields, key, words):
        ((severity, found, text),) = lint(**fields)

        self.assertEqual(('error', f'powervm:{key}'), (severity, found))
        self.assertIn(words, text)

    @ddt.named_data(
        ['dedicated', {'powervm__dedicated_proc': 'true'}, '16'],
        ['guaranteed', {'powervm__proc_units': '2.5'}, '10'],
        ['at least', {'powervm__min_proc_units': '2'}, '8'],
        ['little', {'powervm__proc_units': '0.3'}, '2'],
        [
            'overridden',
            {'powervm__proc_units': '1.25', 'resources__VCPU': '4'},
            '5',
        ],
    )
    def test_wrong_count_of_processors_is_a_warning(self, fields, charge):
        ((severity, key, text),) = lint(**fields)

        self.assertEqual(('warning', 'resources:VCPU'), (severity, key))
        self.assertIn(f'of a server are {charge} VCPU', text)
        self.assertIn(f'write resources:VCPU={charge}', text)
