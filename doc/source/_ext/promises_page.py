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

"""Puts what flavors and images can ask for into the documentation."""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils

from nova_powervm.lpar import supported_features


def rows(decision: supported_features.Decision) -> Iterator[str]:
    """Give the rows of one decision as reStructuredText, a rule each."""
    for rule in supported_features.RULES:
        if rule.decision is decision:
            keys = ', '.join(
                f'``{key}``' for key in rule.extra_specs + rule.properties
            )
            yield f'   * - {keys}'
            yield f'     - {_sentence(rule)}'


def _sentence(rule: supported_features.Rule) -> str:
    reason = rule.reason[0].upper() + rule.reason[1:]
    if not rule.nothing:
        return f'{reason}.'
    if rule.nothing >= supported_features.FALSE:
        return f'{reason}. False asks for nothing.'
    values = ', '.join(f'``{value}``' for value in sorted(rule.nothing))
    return f'{reason}. Not refused: {values}.'


class Promises(docutils.SphinxDirective):
    """Puts the table of the decision that its argument names."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        decision = supported_features.Decision(self.arguments[0])
        lines = statemachine.StringList(
            [
                '.. list-table::',
                '   :header-rows: 1',
                '   :widths: 50 50',
                '',
                '   * - Extra specs and image properties',
                '     - Why',
                *rows(decision),
            ],
            source=supported_features.__file__,
        )
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(lines, 0, section)
        return list(section.children)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('promises', Promises)
    return {'parallel_read_safe': True}
