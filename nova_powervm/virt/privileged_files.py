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

"""Files of the management partition that only root can access."""

import contextlib
import os
from collections.abc import Iterator

import nova.privsep.path
from nova import exception as nova_exception


class PrivilegedFiles:
    """Accesses files by Nova's privilege separation."""

    def write(self, path: str, text: str) -> None:
        """Write to a file that exists.

        :raises FileNotFoundError: It does not exist.
        """
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        try:
            nova.privsep.path.writefile(path, 'w', text)
        except nova_exception.FileNotFound as error:
            # It has just gone.
            raise FileNotFoundError(path) from error

    @contextlib.contextmanager
    def readable(self, path: str) -> Iterator[None]:
        """Own a file for as long as it is to be read.

        The owner can read it, whatever its group and the groups of
        nova-compute's user are.
        """
        if os.access(path, os.R_OK):
            yield
            return
        owner = os.stat(path).st_uid
        nova.privsep.path.chown(path, uid=os.getuid())
        try:
            yield
        finally:
            # A device may have been removed meanwhile.
            with contextlib.suppress(nova_exception.FileNotFound):
                nova.privsep.path.chown(path, uid=owner)
