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
import tempfile
import textwrap
import unittest

import ddt

_PATH = pathlib.Path(__file__).parents[3] / 'tools' / 'docstrings.py'
_SPEC = importlib.util.spec_from_file_location('docstrings', _PATH)
docstrings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(docstrings)

_PACKAGE = {
    'errors.py': 'class Refused(Exception): ...',
    'ops/drivers.py': '',
    'inner/sizes.py': '''
        import dataclasses
        import typing
        import xml.dom

        from house import errors

        #: The largest.
        LIMIT = 1

        @dataclasses.dataclass
        class Size:
            """:param width: of it."""

            width: int

            @property
            def area(self): ...

        class Grown(Size):
            """:ivar old: what it was."""

            def __init__(self, width, *more):
                """:param more: others."""
                super().__init__(width)
                self.old = width

            def measure(self):
                self.measured: bool = True

        class Marked(str):
            """:param mark: what it has."""

            def __new__(cls, mark): ...

        class Row(typing.NamedTuple):
            """:param first: of the row."""

            first: str

        def grow(size, **changes):
            """DOCSTRING"""
        ''',
}


@ddt.ddt
class DocstringsTest(unittest.TestCase):
    def check(self, docstring, page=''):
        """Return the exit status, and what is said of a docstring or page."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        house = folder / 'house'
        for name, text in _PACKAGE.items():
            module = house / name
            module.parent.mkdir(exist_ok=True, parents=True)
            (module.parent / '__init__.py').touch()
            code = textwrap.dedent(text).replace('DOCSTRING', docstring)
            module.write_text(code)
        pages = folder / 'pages'
        pages.mkdir()
        (pages / 'index.rst').write_text(page)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = docstrings.main([str(house), str(pages)])
        return status, said.getvalue()

    @ddt.data(
        ':param size: it.',
        ':param changes: of it.',
        ':raises errors.Refused: it is too large.',
        ':raises house.errors.Refused: it is too large.',
        ':raises ValueError: it is too small.',
        ':raises xml.dom.NotFoundErr: it is not there.',
        ':class:`Size`',
        ':attr:`~Size.width`',
        ':attr:`Grown.area`',
        ':attr:`Grown.old`',
        ':attr:`Grown.measured`',
        ':data:`LIMIT`',
        ':func:`.sizes.grow`',
        ':mod:`inner.sizes`',
    )
    def test_names_in_scope_are_accepted(self, docstring):
        self.assertEqual((0, ''), self.check(docstring))

    @ddt.unpack
    @ddt.data(
        (':param width: of it.', 'width is no param here'),
        (':ivar size: it.', 'size is no ivar here'),
        (':raises errors.Forgotten: never.', 'there is no errors.Forgotten'),
        (':raises xml.dom.Nothing: never.', 'there is no xml.dom.Nothing'),
        (':class:`.Size`', 'there is no .Size'),
        (':meth:`Grown.shrink`', 'there is no Grown.shrink'),
        (':func:`grow()`', 'there is no grow()'),
        (':mod:`json`', 'there is no json'),
        ('``nova_powervm.attic``', 'there is no nova_powervm.attic'),
    )
    def test_check_shows_line_of_other_names(self, docstring, problem):
        status, said = self.check(docstring)
        self.assertEqual(1, status)
        self.assertRegex(said, r'house/inner/sizes\.py:\d+: ')
        self.assertEqual(problem, said.strip().partition(': ')[2])

    def test_names_in_pages_begin_at_a_package(self):
        page = (
            ':class:`house.inner.sizes.Size`\n'
            ':class:`inner.sizes.Size`\n'
            ':class:`sizes.Size`\n'
        )
        status, said = self.check('', page)
        self.assertEqual(1, status)
        self.assertEqual(
            'index.rst:3: there is no sizes.Size', said.strip().split('/')[-1]
        )

    @ddt.data('ops/__init__.py', 'ops/drivers.py', 'ops/', 'ops.drivers')
    def test_files_and_modules_in_pages_exist(self, name):
        missing = f'``{name.replace("ops", "virt")}``'
        status, said = self.check('', f'``{name}``\n{missing}\n')
        self.assertEqual(1, status)
        self.assertEqual(1, len(said.splitlines()), said)
        self.assertIn('index.rst:2: ', said)
