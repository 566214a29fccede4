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

"""A directive with the table of the operations on LPARs.

.. lpar-operations::

It is made from :mod:`nova_powervm.lpar.operations`.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils

from nova_powervm.lpar import operations

_HEADINGS = (
    'Operation',
    'Creates the LPAR',
    'Stops the guest',
    'Adds slots (burns)',
    'Frees slots of a move',
    'Sizes',
    'Adapters',
    'Disks',
    'After a failure',
)


def list_rows() -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row of the table."""
    for row in operations.ALL:
        yield (
            row.name,
            row.creates,
            row.stops,
            *('yes' if each else 'no' for each in _allowed(row)),
            row.adapters,
            row.disks,
            row.failure,
        )


def _allowed(row: operations.Operation) -> tuple[bool, ...]:
    return row.adds_slots, row.frees_slots, row.sizes


class Operations(docutils.SphinxDirective):
    """Inserts the table."""

    def run(self) -> list[nodes.Node]:
        """Return the table's node."""
        lines = ['.. list-table::', '   :header-rows: 1', '']
        for row in (_HEADINGS, *list_rows()):
            marks = ['   * -'] + ['     -'] * (len(row) - 1)
            lines += [
                f'{mark} {cell}' for mark, cell in zip(marks, row, strict=True)
            ]
        section = nodes.section()
        section.document = self.state.document
        source = statemachine.StringList(lines, source=operations.__file__)
        self.state.nested_parse(source, 0, section)
        return list(section.children)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('lpar-operations', Operations)
    return {'parallel_read_safe': True}
