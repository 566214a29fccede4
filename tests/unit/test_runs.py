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

"""Tests that the test run leaves out still use what there is."""

import ast
import functools
import pathlib
import unittest

ROOT = pathlib.Path(__file__).parents[2]
#: What the test run leaves out.
RUNS = ('benchmark', 'cloud', 'fuzz', 'promtool', 'soak', 'tempest', 'upgrade')
_OF_ALL = {'__doc__', '__file__', '__name__'}
#: Where the code of this project is.
PLACES = (ROOT, ROOT / 'emulator')


def source_of(module):
    """Return the file of a module of this project, or None."""
    for place in PLACES:
        path = place.joinpath(*module.split('.'))
        for found in (path.with_suffix('.py'), path / '__init__.py'):
            if found.is_file():
                return found
    return None


@functools.cache
def names_in(path):
    """Return the names that a file defines, and whether it may have others."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {one.asname or one.name for one in node.names}
    return found


def missing_names(path):
    """Yield what a file takes from modules of this project in vain."""
    tree = ast.parse(path.read_text())
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                name = f'{node.module}.{one.name}'
                source, parent = source_of(name), source_of(node.module)
                if source:
                    modules[one.asname or one.name] = source
                elif parent and one.name not in names_in(parent):
                    yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(
            node.value, ast.Name
        ):
            source = modules.get(node.value.id)
            if source and node.attr not in names_in(source) | _OF_ALL:
                yield f'{node.value.id}.{node.attr}'


class RunsTest(unittest.TestCase):
    maxDiff = None

    def test_runs_use_names_that_exist(self):
        found = {
            str(path.relative_to(ROOT)): missing
            for run in RUNS
            for path in sorted((ROOT / 'tests' / run).rglob('*.py'))
            if (missing := sorted({*missing_names(path)}))
        }
        self.assertEqual({}, found)
