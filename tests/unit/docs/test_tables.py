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

"""Tables and lists of the pages agree with the code that they are about."""

import csv
import fnmatch
import itertools
import re
import unittest

import ddt
import yaml
from nova.api.validation.extra_specs import validators
from nova.objects import image_meta
from oslo_config import cfg

from nova_powervm import conf
from nova_powervm.conf import cleaning
from nova_powervm.inventory_file import problems
from nova_powervm.inventory_file import yaml_document
from nova_powervm.lpar import steps
from nova_powervm.lpar import supported_features
from nova_powervm.neutron import options as neutron_options
from nova_powervm.ops import sweep
from tests import proofs
from tests.functional import request_states
from tests.unit.docs import pages


@ddt.ddt
class OptionsTest(unittest.TestCase):
    @ddt.unpack
    @ddt.data(
        ('powervm', conf),
        ('powervm_clean', cleaning),
        ('pvm_sea', neutron_options),
    )
    def test_options_are_those_that_pages_and_samples_name(
        self, group, module
    ):
        listed = {
            opt.dest: opt
            for name, opts in module.list_opts()
            for opt in opts
            if name == group
        }
        registered = cfg.ConfigOpts()
        module.register_opts(registered)
        # Samples and pages are made from the list.
        self.assertEqual({*registered[group]}, {*listed})
        self.assertEqual([], [n for n in listed if not listed[n].help.strip()])
        for document, text in pages.documents().items():
            for name in re.findall(rf'\[{group}\](\w+)', text):
                self.assertIn(name, listed, document)

    @proofs.proves('D11')
    def test_inventory_file_option_has_documented_default(self):
        registered = cfg.ConfigOpts()
        conf.register_opts(registered)
        self.assertEqual(
            '/etc/nova/inventory.yaml',
            registered.powervm.inventory_file,
        )


class InventoryPageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.page = pages.documents()['configuration/inventory']

    def test_page_lists_every_code_of_a_problem(self):
        section = self.page.partition('\nProblems\n')[2]
        codes = re.findall(
            r'``([a-z\d-]+)``', section.partition('\nSchema\n')[0]
        )
        self.assertEqual(sorted(problems.Code), sorted(codes))

    def test_page_states_limits_of_loader(self):
        text = pages.words(self.page)
        self.assertIn(f'more than {yaml_document.MAX_NODES} keys', text)
        self.assertEqual(10, yaml_document.MAX_DEPTH)
        self.assertIn('more than ten levels', text)

    def test_values_listed_as_needing_quotes_need_them(self):
        table = self.page.partition('Written')[2].partition('\n\n')[0]
        cells = re.findall(r'(?m)^   \* - ``.*', table)
        values = re.findall('``(.+?)``', '\n'.join(cells))
        self.assertGreater(len(values), 7)
        for value in values:
            if not set('*?') & set(value):
                self.assertNotEqual(value, yaml.safe_load(value))


class RequestsTest(unittest.TestCase):
    """Driver or pages decide on all that flavors and images can ask."""

    def setUp(self):
        super().setUp()
        self.on_page = [
            *pages.keys('admin/flavors', 'Ignored'),
            *pages.keys('admin/flavors', 'Honored'),
        ]

    def test_extra_specs_of_nova_are_each_decided_on_once(self):
        for name in validators.VALIDATORS:
            key = re.sub(r'\{\w+\}', '1', name)
            found = [p for p in self.on_page if fnmatch.fnmatchcase(key, p)]
            with self.subTest(key, on_page=found):
                rule = supported_features.rule_of_extra_spec(key)
                self.assertEqual(1, len(found) + bool(rule))

    def test_image_properties_of_nova_are_each_decided_on_once(self):
        properties = [
            *(name for r in supported_features.RULES for name in r.properties),
            *(
                key
                for key in self.on_page
                if ':' not in key and key not in validators.VALIDATORS
            ),
        ]
        self.assertEqual(
            sorted(image_meta.ImageMetaProps.fields), sorted(properties)
        )


class RequestStatesTest(unittest.TestCase):
    """The table of requests' states on the page about Cyborg."""

    #: Columns of the page that stand for several operations.
    COLUMNS = {  # noqa: RUF012
        'Create': ('Create', 'Create, on the second host'),
        'Reboot, start': ('Soft reboot', 'Hard reboot', 'Start'),
    }
    TABLE = re.compile(r'\.\. csv-table::\n(?:   :.*\n)+\n((?:   .+\n)+)')

    def test_page_has_cells_of_tested_table(self):
        text = pages.documents()['admin/cyborg']
        text = text.partition('Request states\n')[2]
        (table,) = self.TABLE.findall(text)
        head, *rows = csv.reader(table.splitlines(), skipinitialspace=True)
        cells = {
            (operation, state): cell
            for states, *row in rows
            for title, cell in zip(head[1:], row, strict=True)
            for operation in self.COLUMNS.get(title, (title,))
            for state in states.split(', ')
        }
        wanted = {
            (operation, state): str(result)
            for operation, row in request_states.TABLE.items()
            for state, result in row.items()
        }
        self.assertEqual(wanted, cells)
        for result in request_states.Result:
            self.assertRegex(text, rf'(?m)^{result}\n   \S')

    def test_real_services_tell_each_result_and_each_state(self):
        told = request_states.TOLD
        for operation, row in request_states.TABLE.items():
            results = {row[state] for state in told[operation]}
            self.assertEqual(set(row.values()), results, operation)
        states = itertools.chain(*told.values())
        self.assertEqual({*request_states.STATES}, {*states})


class GeneratedTablesTest(unittest.TestCase):
    """What the tables that are made from the code take for granted."""

    def test_orders_have_every_step(self):
        self.assertEqual(
            {step.__name__ for step in steps.Step.__subclasses__()},
            {step.__name__ for step in (*steps.MAKING, *steps.CHANGING)},
        )

    def test_steps_before_the_stop_let_the_guest_run(self):
        before = steps.CHANGING[: steps.CHANGING.index(steps.Stop)]
        self.assertEqual([], [step for step in before if step.needs_off])

    def test_kinds_of_the_sweep_are_unique_and_moments_have_rows(self):
        kinds = [row.kind for row in sweep.TABLE]
        self.assertCountEqual({*kinds}, kinds)
        moments = {moment for row in sweep.TABLE for moment in row.when}
        self.assertEqual({*sweep.When}, moments)
