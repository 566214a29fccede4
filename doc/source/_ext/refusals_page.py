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

"""Puts what the driver refuses of flavors, images and volumes into a page."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import docutils

from nova_powervm.lpar import supported_features

_REQUESTS = 'Extra specs and image properties'


def rows(kind: str) -> Iterator[str]:
    """Give the rules about one kind of keys as rows of reStructuredText."""
    for rule in supported_features.RULES:
        requests = rule.extra_specs + rule.properties
        keys = rule.connection if kind == 'volumes' else requests
        if keys:
            yield f'   * - {_literals(keys)}'
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


class Refusals(docutils.SphinxDirective):
    """Puts the table of what is refused of ``requests`` or ``volumes``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        (kind,) = self.arguments
        title = 'Key' if kind == 'volumes' else _REQUESTS
        table = statemachine.StringList(
            [
                '.. list-table::',
                '   :header-rows: 1',
                '   :widths: 50 50',
                '',
                f'   * - {title}',
                '     - Why',
                *rows(kind),
            ],
            source=supported_features.__file__,
        )
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(table, 0, section)
        return list(section.children)


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('refusals', Refusals)
    return {'parallel_read_safe': True}
