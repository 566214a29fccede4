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

"""Directive ``emulator-table``: keys of worlds, requests or calls."""

from typing import Any

import emulator_coverage
import emulator_reference
from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils

_TABLES = {
    'calls': emulator_coverage.page,
    'keys': emulator_reference.list_keys,
    'requests': emulator_reference.list_requests,
}


class Table(docutils.SphinxDirective):
    """Inserts the tables that its argument names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the tables."""
        lines = statemachine.StringList(
            list(_TABLES[self.arguments[0]]()),
            source=__file__,
        )
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(lines, 0, section)
        return list(section.children)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('emulator-table', Table)
    return {'parallel_read_safe': True}
