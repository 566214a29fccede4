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

"""How Sphinx builds the documentation."""

import pathlib
import sys

_HERE = pathlib.Path(__file__).parent
# The pages of the emulator are part of this documentation. The link is made
# here because a source distribution cannot have it.
_EMULATOR = _HERE / 'emulator'
if not _EMULATOR.exists():
    _EMULATOR.symlink_to('../../emulator/doc/source')
for _folder in (_HERE, _EMULATOR):
    sys.path.insert(0, str(_folder / '_ext'))

extensions = [
    'cliff.sphinxext',
    'emulator_pages',
    'inventory_reference_page',
    'openstackdocstheme',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
    'proofs_page',
    'refusals_page',
    'release_notes_page',
    'support_matrix_page',
    'tables_page',
]

project = 'nova-powervm'
copyright = '2026, nova-powervm developers'
root_doc = 'index'
exclude_patterns = ['_generated']
modindex_common_prefix = ['nova_powervm.']
pygments_style = 'native'

html_theme = 'openstackdocs'
html_theme_options = {
    # Readers of this project's documents are not OpenStack's to count.
    'analytics_tracking_code': '',
    # It tells of releases of OpenStack, and is fetched from its site.
    'display_badge': False,
    'sidebar_search': True,
}
html_static_path = ['_static']
html_css_files = ['nova-powervm.css']
html_last_updated_fmt = '%Y-%m-%d'
openstackdocs_auto_name = False
# A version comes from a tag of git, and there may be none.
openstackdocs_auto_version = False
openstackdocs_pdf_link = False

config_generator_config_file = [
    (
        '../../etc/nova-powervm-config-generator.conf',
        '_generated/nova-powervm',
    ),
    (
        '../../etc/neutron-powervm-config-generator.conf',
        '_generated/neutron-powervm',
    ),
    (
        '../../etc/cyborg-powervm-config-generator.conf',
        '_generated/cyborg-powervm',
    ),
]

# Each page of a command is its manual page, too.
man_pages = [
    (
        'cli/nova-powervm-inventory',
        'nova-powervm-inventory',
        "look after a PowerVM host's devices",
        [project],
        1,
    ),
    (
        'cli/nova-powervm-check',
        'nova-powervm-check',
        'check whether a PowerVM host fits the driver',
        [project],
        1,
    ),
    (
        'cli/nova-powervm-clean',
        'nova-powervm-clean',
        'clean and release used devices of a PowerVM host',
        [project],
        1,
    ),
    (
        'cli/nova-powervm-status',
        'nova-powervm-status',
        'check whether a PowerVM host is ready for an upgrade',
        [project],
        1,
    ),
]
