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

"""Puts clauses of specifications, and the tests that prove them, on a page.

``clauses`` has a clause on each line, ``matrix-proofs`` takes the rows of
the support matrix.
"""

import functools
from collections.abc import Iterator
from typing import Any

import proofs_text
from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils


class _Proofs(docutils.SphinxDirective):
    """Inserts a table whose tests are looked for at each build."""

    def list_lines(self, found: dict[str, list[str]]) -> Iterator[str]:
        """Yield the lines of the table."""
        raise NotImplementedError()

    def run(self) -> list[nodes.Node]:
        """Return the table's node."""
        self.env.note_reread()
        section = nodes.section()
        section.document = self.state.document
        lines = statemachine.StringList(
            list(self.list_lines(_found())), source=proofs_text.__file__
        )
        self.state.nested_parse(lines, 0, section)
        return list(section.children)


class Clauses(_Proofs):
    """Inserts clauses with their tests."""

    has_content = True

    def list_lines(self, found: dict[str, list[str]]) -> Iterator[str]:
        """Yield the lines of the table."""
        text = '\n'.join(f' {line}' for line in self.content)
        return proofs_text.clause_table(text, found)


class MatrixProofs(_Proofs):
    """Inserts the rows of the support matrix with their tests."""

    def list_lines(self, found: dict[str, list[str]]) -> Iterator[str]:
        """Yield the lines of the table."""
        return proofs_text.matrix_table(found)


_found = functools.cache(proofs_text.proofs)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directives to Sphinx."""
    app.add_directive('clauses', Clauses)
    app.add_directive('matrix-proofs', MatrixProofs)
    return {'parallel_read_safe': True}
