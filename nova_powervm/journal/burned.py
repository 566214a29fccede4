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

"""The journal of burned devices: a file on the host.

Placement keeps with a provider that its device was used. Where the provider
goes (the compute service is deleted, somebody deletes the provider) only this
file knows. It is written before Placement is told, in one step: whenever the
process is killed, the file is the old one or the new one.

The file holds, in JSON::

    {"version": 1,
     "systems": {"<uuid of the managed system>": {
         "<DRC index>": "<when it was burned, in UTC>"}}}
"""

import datetime
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from nova_powervm import exception
from nova_powervm.domain import slots
from nova_powervm.journal import files

VERSION = 1

_SCHEMA = {
    'type': 'object',
    'required': ['version', 'systems'],
    'additionalProperties': False,
    'properties': {
        'version': {'const': VERSION},
        'systems': {
            'type': 'object',
            'additionalProperties': {
                'type': 'object',
                'propertyNames': {'pattern': '^[0-9A-F]{8}$'},
                'additionalProperties': {'type': 'string'},
            },
        },
    },
}
_EMPTY: Mapping[str, Any] = {'version': VERSION, 'systems': {}}


class FileJournal(files.LockedFile):
    """Keeps the DRC indexes of burned devices in a file.

    One process at a time has it.

    :param path: Of the file. It is made when something is burned.
    """

    schema = _SCHEMA
    empty = _EMPTY
    refusal = exception.JournalUnusable
    if_damaged = (
        'nova-compute does not go on, for a used device could be offered '
        'again. Put a copy from before the damage there. Without one: see "A '
        'damaged journal" in the documentation on one-time use'
    )
    if_locked = 'Stop that one, or give each its own [powervm]burn_journal'

    def read(self, system: str) -> frozenset[int]:
        """Give the DRC indexes of a system's burned devices.

        :param system: Uuid of the managed system.
        :raises exception.JournalUnusable: See open.
        """
        self.open()
        return frozenset(
            int(index, 16)
            for index in self._content['systems'].get(system, ())
        )

    def write(self, system: str, burned: Collection[int]) -> None:
        """Replace what the file says of a system; it is on disk afterwards.

        :param system: Uuid of the managed system.
        :param burned: DRC indexes.
        :raises exception.JournalUnusable: It can't be written.
        """
        self.open()
        systems = self._content['systems']
        known = systems.get(system, {})
        now = datetime.datetime.now(datetime.UTC).isoformat('T', 'seconds')
        indexes = map(slots.format_drc_index, sorted(burned))
        written = {index: known.get(index, now) for index in indexes}
        self._put(
            {'version': VERSION, 'systems': {**systems, system: written}}
        )
