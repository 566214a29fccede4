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

"""The directives ``tree-diagram`` and ``sequence-diagram``.

HTML gets a drawing with its alternative text. Manual pages and plain text
get the description that it is drawn from.
"""

from html import escape
from typing import Any
from typing import ClassVar

import diagrams
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx import application
from sphinx.util import docutils


class Diagram(docutils.SphinxDirective):
    """Draw the content of the directive."""

    has_content = True
    option_spec: ClassVar = {'alt': directives.unchanged_required}

    def draw(self) -> str:
        """Return the SVG."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return the drawing for HTML, and its description for the rest."""
        if 'alt' not in self.options:
            raise self.error('a diagram needs :alt:')
        try:
            svg = self.draw()
        except ValueError as error:
            raise self.error(f'can not be drawn: {error}') from error
        alt = ' '.join(self.options['alt'].split())
        html = (
            f'<div class="diagram" role="img" '
            f'aria-label="{escape(alt)}">{svg}</div>'
        )
        text = '\n'.join(self.content)
        return [
            addnodes.only('', nodes.raw('', html, format='html'), expr='html'),
            addnodes.only('', nodes.literal_block('', text), expr='not html'),
        ]


class Tree(Diagram):
    """Draw a tree of boxes."""

    def draw(self) -> str:
        """Return the SVG."""
        return diagrams.draw_tree(diagrams.parse_tree(self.content))


class Sequence(Diagram):
    """Draw messages between actors."""

    def draw(self) -> str:
        """Return the SVG."""
        return diagrams.draw_sequence(*diagrams.parse_sequence(self.content))


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directives to Sphinx."""
    app.add_directive('tree-diagram', Tree)
    app.add_directive('sequence-diagram', Sequence)
    return {'parallel_read_safe': True}
