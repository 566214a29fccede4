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

"""Config drives hold any files that Nova and users put on them."""

import io
import unittest

import pycdlib
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from oslo_utils.imageutils import format_inspector

from nova_powervm.virt import config_drives

#: Without what a file name can not have, what is no name, and what is longer
#: than pycdlib lets a Joliet name be; Nova's own names are short.
_NAMES = st.text(
    st.characters(exclude_categories=['Cs', 'Cc'], exclude_characters='/'),
    min_size=1,
    max_size=40,
).filter(lambda name: name not in ('.', '..') and len(name.encode()) <= 64)
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map('/'.join)


def _is_no_directory(files):
    """Return whether no path is also a directory of another."""
    return not any(
        other.startswith(f'{path}/') for path in files for other in files
    )


trees = st.dictionaries(_PATHS, st.binary(max_size=5000), max_size=8).filter(
    _is_no_directory
)


def read(disc, kind):
    """Return the files by path, as an extension of ISO 9660 names them."""
    found = {}
    for directory, _, names in disc.walk(**{kind: '/'}):
        for name in names:
            path = f'{directory.rstrip("/")}/{name}'
            data = io.BytesIO()
            disc.get_file_from_iso_fp(data, **{kind: path})
            found[path.removeprefix('/')] = data.getvalue()
    return found


class ConfigDriveTest(unittest.TestCase):
    @settings(deadline=None, max_examples=60)
    @given(trees)
    def test_rock_ridge_and_joliet_return_written_files(self, files):
        disc = pycdlib.PyCdlib()
        disc.open_fp(io.BytesIO(config_drives.make_iso(files.items())))
        self.addCleanup(disc.close)
        self.assertEqual(files, read(disc, 'rr_path'))
        self.assertEqual(files, read(disc, 'joliet_path'))

    @settings(deadline=None, max_examples=20)
    @given(trees)
    def test_config_drive_matches_iso_format(self, files):
        image = config_drives.make_iso(files.items())
        inspector = format_inspector.ISOInspector()
        inspector.eat_chunk(image)
        inspector.finish()
        self.assertTrue(inspector.format_match)
