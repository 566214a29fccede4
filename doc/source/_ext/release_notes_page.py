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

"""The directive ``release-notes`` of reno, for a repository without tags.

reno calls what precedes the first tag "0.0.0". A reader would take that for a
release.
"""

from typing import Any

from docutils import nodes
from reno import sphinxext
from sphinx import application

_NO_TAG = '0.0.0'
UNRELEASED = 'Unreleased'


class ReleaseNotes(sphinxext.ReleaseNotesDirective):
    """Put all notes, with what is not released under its own title."""

    def run(self) -> list[nodes.Node]:
        """Return the notes."""
        self.options.setdefault('unreleased-version-title', UNRELEASED)
        found: list[nodes.Node] = super().run()
        for section in found:
            for title in section.findall(nodes.title):
                if title.astext() == _NO_TAG:
                    title.clear()
                    title.append(nodes.Text(UNRELEASED))
        return found


def setup(app: application.Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive('release-notes', ReleaseNotes)
    return {'parallel_read_safe': True}
