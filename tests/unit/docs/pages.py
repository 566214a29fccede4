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

"""Reads the documents as text, without Sphinx."""

import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).parents[3]
SOURCE = ROOT / 'doc' / 'source'

#: Documents whose console examples tests.functional.test_guide runs.
FOLLOWED = (
    'README',
    'admin/aix',
    'admin/cleaning',
    'admin/cyborg',
    'admin/devices',
    'admin/hosts',
    'admin/large-clouds',
    'admin/metrics',
    'admin/one-time-use',
    'admin/quotas',
    'admin/stuck-servers',
    'admin/troubleshooting',
    'admin/upgrade',
    'admin/volumes',
    'admin/watching',
    'cli/nova-powervm-inventory',
    'install/index',
    'user/devices',
)
#: The document whose console examples tests.cloud.life_cycle runs.
LIVED = 'admin/life-of-a-card'
#: The document whose console examples tests.cloud.adoption runs.
ADOPTED = 'admin/adopting'

_BLOCK = re.compile(
    r'^(?P<indent> *)\.\. code-block:: (?P<language>\S+)\n\n'
    r'(?P<body>(?:(?P=indent) +\S.*\n|\s*\n)+)',
    re.MULTILINE,
)

_SECTION = re.compile(r'\n(?=\S.*\n[-~]{4,}\n)')
#: The first cell of a row of a list-table.
_FIRST_CELL = re.compile(r'^ +\* - (.*(?:\n +[^-* ].*)*)', re.MULTILINE)

_COMMAND = re.compile(r'(?:.*\\\n)*.*')


def documents():
    """Return name, as in toctrees, and text of each document."""
    found = {
        str(path.relative_to(SOURCE).with_suffix('')): path.read_text()
        for path in sorted(SOURCE.rglob('*.rst'))
    }
    return {**found, 'README': (ROOT / 'README.rst').read_text()}


def blocks(language):
    """Return document and text of each code block of a language."""
    for name, text in documents().items():
        for block in _BLOCK.finditer(f'{text}\n'):
            if block['language'] == language:
                yield name, textwrap.dedent(block['body'])


def keys(name, title):
    """Return the literals in the first column of the tables of a section."""
    (section,) = (
        text
        for text in _SECTION.split(documents()[name])
        if text.startswith(f'{title}\n')
    )
    cells = '\n'.join(_FIRST_CELL.findall(section))
    return re.findall('``(.+?)``', cells)


def words(text):
    """Collapse white space, so that line breaks don't matter."""
    return ' '.join(text.split())


def commands(name):
    """Return command line and shown output of each example of a page.

    A backslash at the end continues a line.
    """
    for document, text in blocks('console'):
        if document == name:
            for example in re.split(r'^[$#] ', text, flags=re.MULTILINE)[1:]:
                line = _COMMAND.match(example)[0]
                shown = example[len(line) :]
                yield re.sub(r'\\\n\s*', '', line), shown.strip('\n')
