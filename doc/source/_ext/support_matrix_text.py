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

"""The support matrix as lines of reStructuredText, for one driver.

Sphinx is not needed here, so tests can do without it.
"""

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Protocol

#: Prefix of the features' keys, and title, of each group.
GROUPS = {
    'device.': 'Devices',
    'system.': 'Operating systems of guests',
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


class Support(Protocol):
    """What a driver does of a feature."""

    status: str
    notes: str | None


class Feature(Protocol):
    """A row, as sphinx-feature-classification reads it."""

    key: str
    title: str
    status: str
    notes: str | None
    cli: str | None

    @property
    def implementations(self) -> Mapping[str, Support]:
        """What each driver does of it."""


def page(features: Iterable[Feature]) -> Iterator[str]:
    """Give the page as lines of reStructuredText."""
    for status in SYMBOLS:
        yield from (f'.. role:: support-{status}', '')
    features = list(features)
    groups = {
        title: [f for f in features if f.key.startswith(prefix)]
        for prefix, title in GROUPS.items()
    }
    for title, members in groups.items():
        if not members:
            continue
        yield from (title, '-' * len(title), '')
        yield from _summary(members, _source(members[0]))
        for feature in members:
            yield from _details(feature)


def _source(feature: Feature) -> str:
    """Tell who says whether drivers have to support a feature."""
    own = ('device.', 'system.')
    return 'We say' if feature.key.startswith(own) else 'Nova says'


def _summary(features: Iterable[Feature], source: str) -> Iterator[str]:
    yield from (
        '.. list-table::',
        '   :header-rows: 1',
        '   :widths: 62 18 20',
        '   :class: support-matrix',
        '',
        '   * - Feature',
        f'     - {source}',
        '     - PowerVM',
    )
    for feature in features:
        yield f'   * - :ref:`{feature.title} <{_label(feature)}>`'
        yield f'     - {feature.status}'
        yield f'     - {_badge(feature)}'
    yield ''


def _details(feature: Feature) -> Iterator[str]:
    title = feature.title
    note = _one_line(feature.implementations[_DRIVER].notes)
    yield from ('', f'.. _{_label(feature)}:', '', title, '~' * len(title), '')
    yield from (f'{_badge(feature)} {_one_line(feature.notes)}', '')
    yield from (note, '')
    for command in (feature.cli or '').split(';'):
        if command:
            yield f'* ``{command}``'
    yield ''


def _one_line(text: str | None) -> str:
    return ' '.join((text or '').split())


def _label(feature: Feature) -> str:
    return 'support-' + re.sub('[^a-z]', '-', feature.key.lower())


def _badge(feature: Feature) -> str:
    status = feature.implementations[_DRIVER].status
    return f':support-{status}:`{SYMBOLS[status]}`'
