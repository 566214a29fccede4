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

"""Fetching noVNC for the console in a browser."""

import os
import pathlib
import tempfile
import textwrap
import unittest
from unittest import mock

from demo import console


class FetchTest(unittest.TestCase):
    def test_package_with_other_bytes_is_refused(self):
        """Before, whatever the registry sent was served to the browser."""
        with tempfile.TemporaryDirectory() as place:
            directory = pathlib.Path(place)
            npm = directory / 'npm'
            npm.write_text(
                textwrap.dedent(
                    """\
                    #!/bin/sh
                    mkdir package && echo evil > package/rfb.js
                    tar czf novnc-novnc-1.7.0.tgz package
                    """
                )
            )
            npm.chmod(0o755)
            path = f'{directory}{os.pathsep}{os.environ["PATH"]}'
            with (
                mock.patch.dict(os.environ, PATH=path),
                self.assertRaisesRegex(console.NoVncError, 'has the SHA-512'),
            ):
                console.fetch(directory / 'novnc')
            self.assertFalse((directory / 'novnc').exists())
