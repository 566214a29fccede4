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

"""The directive ``support_matrix``, drawn for one driver.

sphinx-feature-classification reads the file, but draws "partial" with the
sign of "complete", shows one group of features, and centers all text. This
takes its place: a table and a section of details for each group, with notes
in reStructuredText.
"""

from typing import Any

import support_matrix_text
from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import nodes as sphinx_nodes
from sphinx_feature_classification import support_matrix


class Directive(support_matrix.Directive):
    """Draw the matrix of the file that the argument names."""

    def run(self) -> list[nodes.Node]:
        """Return the tables and the sections."""
        features = self._load_support_matrix().features
        lines = statemachine.StringList(
            list(support_matrix_text.page(features)), source=self.arguments[0]
        )
        section = nodes.section()
        section.document = self.state.document
        sphinx_nodes.nested_parse_with_titles(self.state, lines, section)
        return list(section.children)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    # Without this it reads the features about operations only.
    support_matrix.FEATURE_PREFIX = tuple(support_matrix_text.GROUPS)
    app.add_directive('support_matrix', Directive)
    return {'parallel_read_safe': True}
