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

"""The options: their sample and what the documents say of them."""

import pathlib
import re
import tempfile
import unittest

from oslo_config import cfg
from oslo_config import generator

from nova_powervm import conf
from tests.unit.docs import pages

GENERATOR = pages.ROOT / 'etc' / 'nova-powervm-config-generator.conf'
_OPTION = re.compile(r'\[powervm\](\w+)')


def options():
    """Give the options by name, as the generator finds them."""
    return {opt.dest: opt for _, opts in conf.list_opts() for opt in opts}


def shown(default):
    """Write a default as the generator does."""
    if default is None:
        return '<None>'
    if isinstance(default, bool):
        return str(default).lower()
    return ','.join(default) if isinstance(default, list) else str(default)


class OptionsTest(unittest.TestCase):
    def test_the_sample_shows_every_option(self):
        text = self.sample()
        self.assertIn('[powervm]', text)
        for name, opt in options().items():
            self.assertIn(
                f'#{name} = {shown(opt.default)}'.rstrip() + '\n', text
            )

    def test_the_sample_explains_every_option(self):
        text = pages.words(self.sample().replace('#', ' '))
        for name, opt in options().items():
            self.assertTrue(opt.help.strip(), name)
            self.assertIn(pages.words(opt.help.replace('#', ' ')), text)

    def test_the_sample_is_read_without_a_change(self):
        values = cfg.ConfigOpts()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'sample.conf')
            path.write_text(self.sample())
            values(['--config-file', str(path)], project='nova')
        conf.register_opts(values)
        for name, opt in options().items():
            self.assertEqual(opt.default, values.powervm[name])

    def test_options_of_the_documentation_exist(self):
        for document, text in pages.documents().items():
            for name in _OPTION.findall(text):
                self.assertIn(name, options(), document)

    def test_defaults_of_the_documentation(self):
        self.assertEqual(
            '/etc/nova/inventory.yaml', options()['inventory_file'].default
        )

    def sample(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'sample.conf')
            generator.main(
                ['--config-file', str(GENERATOR), '--output-file', str(path)]
            )
            return path.read_text()
