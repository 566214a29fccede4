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

"""Options, their samples and their documentation."""

import pathlib
import re
import tempfile
import unittest

from oslo_config import cfg
from oslo_config import generator

from nova_powervm import conf
from nova_powervm.conf import cleaning
from nova_powervm.neutron import options as neutron_options
from tests import proofs
from tests.unit.docs import pages


def shown(default):
    """Return a default as the generator writes it."""
    if default is None:
        return '<None>'
    if isinstance(default, bool):
        return str(default).lower()
    return ','.join(default) if isinstance(default, list) else str(default)


class OptionsMixin:
    """Tests of the sample and the documentation of an option group."""

    group = ''
    generator = ''
    module = None

    def options(self):
        """Return the options by name, as the generator finds them."""
        return {
            opt.dest: opt
            for group, opts in self.module.list_opts()
            for opt in opts
            if group == self.group
        }

    def test_sample_shows_every_option(self):
        text = self.sample()
        self.assertIn(f'[{self.group}]', text)
        for name, opt in self.options().items():
            self.assertIn(
                f'#{name} = {shown(opt.default)}'.rstrip() + '\n', text
            )

    def test_sample_explains_every_option(self):
        text = pages.words(self.sample().replace('#', ' '))
        for name, opt in self.options().items():
            self.assertTrue(opt.help.strip(), name)
            self.assertIn(pages.words(opt.help.replace('#', ' ')), text)

    def test_sample_values_are_defaults(self):
        values = cfg.ConfigOpts()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'sample.conf')
            path.write_text(self.sample())
            values(['--config-file', str(path)], project='any')
        self.module.register_opts(values)
        for name, opt in self.options().items():
            self.assertEqual(opt.default, values[self.group][name])

    def test_options_named_by_pages_exist(self):
        pattern = re.compile(rf'\[{self.group}\](\w+)')
        for document, text in pages.documents().items():
            for name in pattern.findall(text):
                self.assertIn(name, self.options(), document)

    def sample(self):
        generator_file = pages.ROOT / 'etc' / self.generator
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'sample.conf')
            generator.main(
                [
                    *('--config-file', str(generator_file)),
                    *('--output-file', str(path)),
                ]
            )
            return path.read_text()


class NovaOptionsTest(OptionsMixin, unittest.TestCase):
    group = 'powervm'
    generator = 'nova-powervm-config-generator.conf'
    module = conf

    @proofs.proves('D11')
    def test_inventory_file_option_has_documented_default(self):
        self.assertEqual(
            '/etc/nova/inventory.yaml',
            self.options()['inventory_file'].default,
        )


class CleaningOptionsTest(OptionsMixin, unittest.TestCase):
    group = 'powervm_clean'
    generator = 'nova-powervm-config-generator.conf'
    module = cleaning


class NeutronOptionsTest(OptionsMixin, unittest.TestCase):
    group = 'pvm_sea'
    generator = 'neutron-powervm-config-generator.conf'
    module = neutron_options
