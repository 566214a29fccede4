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

"""Puts what flavors, images and volumes can ask for into the documentation."""

from collections.abc import Iterable
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
        keys = rule.extra_specs + rule.properties
        if keys and rule.decision is decision:
            yield f'   * - {_literals(keys)}'
            yield f'     - {_sentence(rule)}'


def volume_rows() -> Iterator[str]:
    """Give the rows for what Cinder says about a volume, a rule each."""
    for rule in supported_features.RULES:
        if rule.connection:
            yield f'   * - {_literals(rule.connection)}'
            yield f'     - {rule.decision}'
            yield f'     - {_sentence(rule)}'


def _literals(values: Iterable[str]) -> str:
    return ', '.join(f'``{value}``' for value in values)


def _sentence(rule: supported_features.Rule) -> str:
    reason = rule.reason[0].upper() + rule.reason[1:]
    if rule.only:
        return f'{reason}. Only refused: {_literals(sorted(rule.only))}.'
    if not rule.nothing:
        return f'{reason}.'
    if rule.nothing >= supported_features.FALSE:
        return f'{reason}. False asks for nothing.'
    return f'{reason}. Not refused: {_literals(sorted(rule.nothing))}.'


class Promises(docutils.SphinxDirective):
    """Puts the table of the decision that its argument names."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        decision = supported_features.Decision(self.arguments[0])
        return self.table(
            '50 50',
            ('Extra specs and image properties', 'Why'),
            rows(decision),
        )

    def table(
        self, widths: str, titles: Iterable[str], lines: Iterable[str]
    ) -> list[nodes.Node]:
        """Return the nodes of a table with some rows."""
        first, *others = titles
        found = statemachine.StringList(
            [
                '.. list-table::',
                '   :header-rows: 1',
                f'   :widths: {widths}',
                '',
                f'   * - {first}',
                *(f'     - {title}' for title in others),
                *lines,
            ],
            source=supported_features.__file__,
        )
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(found, 0, section)
        return list(section.children)


class VolumePromises(Promises):
    """Puts the table of what Cinder says about volumes."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        titles = ('Key', 'Decision', 'Why')
        return self.table('35 15 50', titles, volume_rows())


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('promises', Promises)
    app.add_directive('volume-promises', VolumePromises)
    return {'parallel_read_safe': True}
