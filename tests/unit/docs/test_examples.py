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

"""Examples in the documents are valid."""

import configparser
import pathlib
import re
import tempfile
import unittest

from nova.api.validation.extra_specs import validators
from pypowervm.wrappers import logical_partition as lpar

from demo import config
from emulator.tests import base
from nova_powervm import inventory_file
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.scheduler import filters
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.virt.provider_tree import contents
from tests.unit.docs import pages

_PROPERTY = re.compile(r'--property (\S+?)=(\S+)')
_GROUP = re.compile(r'(?:resources|trait)(\d+):')
#: What a file of Nova's own has, see the guide's page on devices.
_NOVAS = 'schema_version'
_OTHERS = ('group_policy', accelerators.PROFILE)


class SchedulerExampleTest(unittest.TestCase):
    def test_pages_enable_filters_as_demonstration_does(self):
        examples = {
            name: text
            for name, text in pages.blocks('ini')
            if '[filter_scheduler]' in text
        }
        demonstrated = {
            'available_filters': (
                f'{filters.__name__}.{filters.all_filters.__name__}'
            ),
            'enabled_filters': ','.join(config.FILTERS),
            # The demonstration has too few hosts for this.
            'shuffle_best_same_weighed_hosts': 'true',
        }
        for name, text in examples.items():
            with self.subTest(document=name):
                parser = configparser.ConfigParser()
                parser.read_string(text)
                self.assertEqual(
                    demonstrated, dict(parser['filter_scheduler'])
                )
        self.assertEqual({'install/index'}, set(examples))


class CandidatesExampleTest(unittest.TestCase):
    def test_limits_of_candidates_follow_formula_of_commands(self):
        options = {
            'max_allocation_candidates': 'placement',
            'max_placement_results': 'scheduler',
        }
        found = {}
        for name, text in pages.blocks('ini'):
            for option, section in options.items():
                if f'{option} =' in text:
                    parser = configparser.ConfigParser()
                    parser.read_string(text)
                    found[name, option] = parser.getint(section, option)

        page = 'admin/large-clouds'
        self.assertEqual(
            {
                ('admin/devices', 'max_allocation_candidates'): (
                    flavor_lint.max_candidates(125)
                ),
                (page, 'max_allocation_candidates'): (
                    flavor_lint.max_candidates(1000)
                ),
                (page, 'max_placement_results'): (
                    flavor_lint.max_candidates(1000)
                ),
            },
            found,
        )
        self.assertLess(
            flavor_lint.max_candidates(125), flavor_lint.max_candidates(126)
        )


class InventoryExampleTest(unittest.TestCase):
    def test_inventory_examples_are_valid(self):
        examples = [
            (name, text)
            for name, text in pages.blocks('yaml')
            if _NOVAS not in text
        ]
        for name, text in examples:
            with self.subTest(document=name):
                policy = inventory_file.parse(text, name)
                self.assertTrue(policy.paragraphs)
        self.assertLessEqual(
            {'README', 'admin/devices', 'configuration/inventory'},
            {name for name, _ in examples},
        )

    def test_nova_accepts_provider_config_examples(self):
        texts = [text for _, text in pages.blocks('yaml') if _NOVAS in text]
        self.assertTrue(texts)
        for text in texts:
            with tempfile.TemporaryDirectory() as directory:
                path = pathlib.Path(directory) / 'example.yaml'
                path.write_text(text)
                self.assertTrue(contents.read_additions(directory))


class CommandExampleTest(unittest.TestCase):
    def test_pages_with_cloud_commands_are_run(self):
        found = {
            name
            for name in pages.documents()
            for line, _ in pages.commands(name)
            if line.startswith(('openstack ', 'nova-powervm-inventory '))
        }
        self.assertEqual({*pages.FOLLOWED, pages.LIVED, pages.ADOPTED}, found)


class FlavorExampleTest(unittest.TestCase):
    """Extra specs in examples, validated by nova."""

    def test_nova_accepts_extra_specs_of_examples(self):
        for _, key, value in self.properties():
            validators.validate(key, value)

    def test_groups_of_examples_request_devices(self):
        # nova accepts traits1:..., too, and takes it for a group "s1".
        for name, specs in self.flavors():
            numbers = {
                match[1] for key in specs if (match := _GROUP.match(key))
            }
            asked = {
                key.split(':')[0].removeprefix('resources')
                for key in specs
                if key.startswith('resources')
            }
            self.assertEqual(asked, numbers, name)
            unknown = [
                key
                for key in specs
                if not _GROUP.match(key) and key not in _OTHERS
            ]
            self.assertEqual([], unknown, name)
            if len(numbers) > 1:
                self.assertIn(specs['group_policy'], ('none', 'isolate'))
            self.assertEqual(
                len(numbers), sum(claims.requested_amounts(specs).values())
            )

    def test_groups_of_examples_require_owner_nova(self):
        for name, specs in self.flavors():
            for key in specs:
                match = _GROUP.match(key)
                if match:
                    owner = f'trait{match[1]}:OWNER_NOVA'
                    self.assertEqual('required', specs.get(owner), name)

    def flavors(self):
        """Return document and extra specs of each example flavor."""
        found = [
            (name, dict(_PROPERTY.findall(command)))
            for name, text in pages.blocks('console')
            for command in re.split(r'^[$#] ', text, flags=re.MULTILINE)
            if 'flavor' in command and '--property' in command
        ]
        self.assertGreaterEqual(len(found), 3)
        return found

    def properties(self):
        for name, specs in self.flavors():
            for key, value in specs.items():
                yield name, key, value


class DeletionByHandTest(base.EmulatorTestCase):
    """What the page about the demonstration does in place of pvmctl."""

    def test_program_of_page_deletes_lpar(self):
        self.create('other')
        self.create('vm1')
        (program,) = (
            text
            for name, text in pages.blocks('python')
            if name == 'contributor/demo'
        )
        for placeholder, value in (
            ("'nova'", repr(self.emulator.username)),
            ('<password>', self.emulator.password),
            ('<port>', str(self.emulator.port)),
            ('<name>', 'vm1'),
        ):
            program = program.replace(placeholder, value)

        exec(program, {})  # noqa: S102

        left = lpar.LPAR.get(self.adapter, parent=self.system())
        self.assertIn('other', [each.name for each in left])
        self.assertNotIn('vm1', [each.name for each in left])
