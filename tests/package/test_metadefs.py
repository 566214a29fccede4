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
"""The metadata definitions that Horizon shows, in Glance's own code."""

import contextlib
import fnmatch
import io
import json
import pathlib
import tempfile
import unittest

import sqlalchemy
from glance.api.v2 import metadef_namespaces
from glance.db.sqlalchemy import metadata
from glance.db.sqlalchemy import models_metadef
from nova.api.validation.extra_specs import validators

from nova_powervm.tool.inventory import app
from nova_powervm.tool.rules import device_kinds
from tests.unit.docs import pages

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / 'etc' / 'metadefs' / 'compute-powervm.json'
#: What ``nova-powervm-inventory generate`` names.
CLASSES = frozenset(kind.resource_class for kind in device_kinds.KINDS)
HONORED = pages.keys('admin/flavors', 'Honored')


class MetadefsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.namespace = json.loads(FILE.read_text())

    def test_glance_accepts_namespace(self):
        schema = metadef_namespaces.get_schema()
        schema.validate(self.namespace)

    def test_glance_manage_loads_file(self):
        with tempfile.TemporaryDirectory() as directory:
            engine = sqlalchemy.create_engine(f'sqlite:///{directory}/glance')
            models_metadef.register_models(engine)
            metadata.db_load_metadefs(engine, str(FILE))
            with engine.connect() as connection:
                loaded = [
                    connection.scalar(
                        sqlalchemy.text(f'SELECT count(*) FROM metadef_{kind}')  # noqa: S608
                    )
                    for kind in ('namespaces', 'properties', 'objects')
                ]
            engine.dispose()
        self.assertEqual(
            [
                1,
                len(self.namespace['properties']),
                len(self.namespace['objects']),
            ],
            loaded,
        )

    def test_nova_and_driver_heed_each_extra_spec(self):
        for key, schema in self.properties():
            for value in schema.get('enum', [schema.get('default', 'name')]):
                with self.subTest(key=key, value=value):
                    validators.validate(key, str(value))
                    self.assertTrue(
                        any(fnmatch.fnmatchcase(key, p) for p in HONORED)
                    )

    def test_flavor_lint_finds_nothing_in_objects(self):
        with tempfile.TemporaryDirectory() as directory:
            inventory = pathlib.Path(directory) / 'inventory.yaml'
            inventory.write_text(
                ''.join(
                    f'{name}:\n'
                    f"  identification: {{device_id: '{number:04X}'}}\n"
                    f'  resource_class: {name}\n'
                    for number, name in enumerate(sorted(CLASSES), 0xA000)
                )
            )
            for chosen in self.namespace['objects']:
                with self.subTest(chosen['name']):
                    self.assertEqual('', lint(chosen, inventory))

    def test_metadefs_offer_every_resource_class_of_devices(self):
        offered = {
            key.partition(':')[2]
            for key, _ in self.properties()
            if key.startswith('resources')
        }
        self.assertLessEqual(CLASSES, offered)

    def properties(self):
        yield from self.namespace['properties'].items()
        for chosen in self.namespace['objects']:
            yield from chosen['properties'].items()


def lint(chosen, inventory):
    """Run ``flavor lint`` on a flavor made of one object.

    :returns: What it prints if it finds anything.
    """
    output = io.StringIO()
    extra_specs = [
        f'--extra-spec={key}={schema["default"]}'
        for key, schema in chosen['properties'].items()
    ]
    with contextlib.redirect_stdout(output):
        status = app.main(
            ['flavor', 'lint', f'--file={inventory}', *extra_specs]
        )
    return output.getvalue() if status else ''
