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

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils import statemachine
from sphinx import application
from sphinx.util import nodes as sphinx_nodes
from sphinx_feature_classification import support_matrix

#: Prefix of the features' keys, and title, of each group.
GROUPS = {
    'device.': 'Devices',
    'operation.': 'Operations on servers and hosts',
    'guest.': 'Guest configuration',
    'console.': 'Consoles',
    'storage.': 'Storage',
}
SYMBOLS = {
    'complete': '✔ complete',
    'partial': '◐ partial',
    'missing': '✖ missing',
}

_DRIVER = 'driver.powervm'
_TESTS = re.compile(r'\s*\bTests: (?P<names>tests\.[^`]+)\.$')


class Directive(support_matrix.Directive):
    """Draw the matrix of the file that the argument names."""

    def run(self) -> list[nodes.Node]:
        """Return the tables and the sections."""
        features = self._load_support_matrix().features
        lines = statemachine.StringList(
            list(_page(features)), source=self.arguments[0]
        )
        section = nodes.section()
        section.document = self.state.document
        sphinx_nodes.nested_parse_with_titles(self.state, lines, section)
        return list(section.children)


def _page(features: list[support_matrix.Feature]) -> Iterator[str]:
    for status in SYMBOLS:
        yield from (f'.. role:: support-{status}', '')
    groups = {
        title: [f for f in features if f.key.startswith(prefix)]
        for prefix, title in GROUPS.items()
    }
    for title, members in groups.items():
        yield from (title, '-' * len(title), '')
        yield from _summary(members)
        for feature in members:
            yield from _details(feature)


def _summary(features: list[support_matrix.Feature]) -> Iterator[str]:
    yield from (
        '.. list-table::',
        '   :header-rows: 1',
        '   :widths: 62 18 20',
        '   :class: support-matrix',
        '',
        '   * - Feature',
        '     - Nova says',
        '     - PowerVM',
    )
    for feature in features:
        yield f'   * - :ref:`{feature.title} <{_label(feature)}>`'
        yield f'     - {feature.status}'
        yield f'     - {_badge(feature)}'
    yield ''


def _details(feature: support_matrix.Feature) -> Iterator[str]:
    title = feature.title
    note = ' '.join((feature.implementations[_DRIVER].notes or '').split())
    tests = _TESTS.search(note)
    yield from ('', f'.. _{_label(feature)}:', '', title, '~' * len(title), '')
    yield from (f'{_badge(feature)} {_one_line(feature.notes)}', '')
    text = note[: tests.start()] if tests else note
    yield from (text, '')
    for command in (feature.cli or '').split(';'):
        if command:
            yield f'* ``{command}``'
    yield ''
    if tests:
        names = tests['names'].split(', ')
        yield '.. container:: support-tests'
        yield ''
        yield f'   Tests: {", ".join(f"``{name}``" for name in names)}'
        yield ''


def _one_line(text: str | None) -> str:
    return ' '.join((text or '').split())


def _label(feature: support_matrix.Feature) -> str:
    return 'support-' + re.sub('[^a-z]', '-', feature.key.lower())


def _badge(feature: support_matrix.Feature) -> str:
    status = feature.implementations[_DRIVER].status
    return f':support-{status}:`{SYMBOLS[status]}`'


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    # Without this it reads the features about operations only.
    support_matrix.FEATURE_PREFIX = tuple(GROUPS)
    app.add_directive('support_matrix', Directive)
    return {'parallel_read_safe': True}
