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

"""The check of the names in docstrings, comments and pages."""

import contextlib
import importlib.util
import io
import pathlib
import re
import tempfile
import unittest

_PATH = pathlib.Path(__file__).parents[3] / 'tools' / 'docstrings.py'
_SPEC = importlib.util.spec_from_file_location('docstrings', _PATH)
docstrings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(docstrings)

_SIZES = '''\
import xml.dom
from house import errors
class Size:
    def __init__(self, width):
        self.width = width
def grow(size, **changes):
    """DOCSTRING"""
'''
#: The hook runs on all that is here: it shows if a good name is refused.
_BAD = {
    ':param width: of it.': 'width is no param here',
    ':ivar size: it.': 'size is no ivar here',
    ':raises errors.Forgotten: never.': 'there is no errors.Forgotten',
    ':raises xml.dom.Nothing: never.': 'there is no xml.dom.Nothing',
    ':class:`.Size`': 'there is no .Size',
    ':meth:`Size.shrink`': 'there is no Size.shrink',
    ':func:`grow()`': 'there is no grow()',
    ':mod:`json`': 'there is no json',
    '``nova_powervm.attic``': 'there is no nova_powervm.attic',
}


class DocstringsTest(unittest.TestCase):
    def check(self, docstring, page=''):
        """Return what is said of a docstring and of a page, without places."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in {
            'house/__init__.py': '',
            'house/errors.py': 'class Refused(Exception): ...\n',
            'house/ops/__init__.py': '',
            'house/ops/drivers.py': '',
            'house/inner/__init__.py': '',
            'house/inner/sizes.py': _SIZES.replace('DOCSTRING', docstring),
            'pages/index.rst': page,
        }.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = docstrings.main(
                [str(folder / 'house'), str(folder / 'pages')]
            )
        lines = said.getvalue().splitlines()
        self.assertEqual(bool(lines), bool(status))
        return [re.sub(r'^\S*/(?=\w+\.)', '', line) for line in lines]

    def test_other_names_are_shown_with_their_line(self):
        for docstring, problem in _BAD.items():
            with self.subTest(docstring):
                (line,) = self.check(docstring)
                self.assertRegex(
                    line, rf'^sizes\.py:\d+: {re.escape(problem)}$'
                )

    def test_names_and_files_in_pages_exist(self):
        page = (
            ':class:`house.inner.sizes.Size` :class:`inner.sizes.Size`\n'
            ':class:`sizes.Size`\n'
            '``ops/__init__.py`` ``ops/drivers.py`` ``ops/`` ``ops.drivers``\n'
            '``virt/__init__.py``\n``virt/``\n``virt.drivers``\n'
        )
        found = [line.partition(': ')[0] for line in self.check('', page)]
        self.assertEqual([f'index.rst:{n}' for n in (2, 4, 5, 6)], found)
