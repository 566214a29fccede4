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

"""How options become the fields of a dataclass."""

import dataclasses
import types
import unittest
from collections.abc import Sequence

from oslo_config import cfg

from nova_powervm.conf import fields


@dataclasses.dataclass(frozen=True)
class Login:
    user: str | None = fields.option(cfg.StrOpt, 'rest_user')
    secret: str = fields.option(cfg.StrOpt, secret=True, default='hidden')


@dataclasses.dataclass(frozen=True)
class Settings:
    words: Sequence[str] = fields.option(
        cfg.ListOpt, default=['b', 'a'], parse=sorted
    )
    login: Login = dataclasses.field(default_factory=Login)
    size: int = fields.option(cfg.IntOpt, default=1, min=0)
    other: int = 7


class FieldsTest(unittest.TestCase):
    def read(self, dataclass, values, **others):
        """Return the settings of a configuration with some values."""
        conf = cfg.ConfigOpts()
        options = [*fields.options_of(Settings)]
        fields.register(conf, cfg.OptGroup('any'), options)
        for name, value in values.items():
            conf.set_override(name, value, group='any')
        return fields.read(dataclass, conf.any, **others)

    def test_dataclass_has_options_in_order(self):
        options = [*fields.options_of(Settings)]
        self.assertEqual(
            ['words', 'rest_user', 'secret', 'size'],
            [option.name for option in options],
        )
        self.assertEqual(0, options[-1].type.min)

    def test_defaults_of_options_are_those_of_fields(self):
        self.assertEqual(Settings(), self.read(Settings, {}))
        self.assertEqual(['a', 'b'], Settings().words)

    def test_read_takes_values_by_names_of_options(self):
        values = {'words': ['y', 'x'], 'rest_user': 'admin', 'size': 3}
        self.assertEqual(
            Settings(['x', 'y'], Login('admin'), 3),
            self.read(Settings, values),
        )

    def test_read_leaves_out_what_is_given(self):
        group = types.SimpleNamespace(rest_user='admin')
        self.assertEqual(
            Login('admin', 'given'), fields.read(Login, group, secret='given')
        )

    def test_secrets_are_not_shown(self):
        self.assertNotIn('hidden', repr(Settings()))
