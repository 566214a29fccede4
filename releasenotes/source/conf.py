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

"""How Sphinx builds the release notes."""

from docutils import nodes

#: What reno calls that which no tag of git precedes.
NO_TAG = '0.0.0'

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

project = 'nova-powervm'
copyright = '2026, nova-powervm developers'
root_doc = 'index'
pygments_style = 'native'

html_theme = 'openstackdocs'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False


def name_unreleased(app, doctree):
    """Head the notes of what has no tag yet; reno only knows of later tags."""
    for title in doctree.findall(nodes.title):
        if title.astext() == NO_TAG:
            title.clear()
            title.append(nodes.Text('Unreleased'))


def setup(app):
    """Add the function to Sphinx."""
    # Before Sphinx collects the titles.
    app.connect('doctree-read', name_unreleased, priority=100)
    return {'parallel_read_safe': True}
