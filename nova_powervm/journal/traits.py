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

"""The journal of the file's traits: which of them the driver itself has set.

Placement does not say who set a trait. The file holds, in JSON::

    {"version": 1,
     "providers": {"<uuid of a provider>": ["<trait>", ...]}}

A provider that is being made stands there by its name until the next update
finds it. Without the file, traits that leave the inventory file stay.
"""

from collections.abc import Collection
from collections.abc import Mapping

from nova_powervm import exception
from nova_powervm.journal import files

VERSION = 1

_SCHEMA = {
    'type': 'object',
    'required': ['version', 'providers'],
    'additionalProperties': False,
    'properties': {
        'version': {'const': VERSION},
        'providers': {
            'type': 'object',
            'additionalProperties': {
                'type': 'array',
                'items': {'type': 'string'},
            },
        },
    },
}


class FileTraitJournal(files.LockedFile):
    """Keeps the traits of providers in a file.

    One process at a time has it.

    :param path: Of the file. It is made when a trait is set.
    """

    schema = _SCHEMA
    empty = {'version': VERSION, 'providers': {}}
    refusal = exception.TraitJournalUnusable
    if_damaged = (
        'Put a copy from before the damage there, or remove it: then the '
        'traits that it held stay when they leave the inventory file'
    )
    if_locked = (
        'Stop that one, or give each a [powervm]burn_journal in a directory '
        'of its own'
    )

    def read(self) -> dict[str, frozenset[str]]:
        """Give the traits that were set, by provider.

        :raises exception.TraitJournalUnusable: See open.
        """
        self.open()
        providers: Mapping[str, list[str]] = self._content['providers']
        return {key: frozenset(traits) for key, traits in providers.items()}

    def write(self, kept: Mapping[str, Collection[str]]) -> None:
        """Replace all that the file says; it is on disk afterwards.

        :param kept: As read gives it.
        :raises exception.TraitJournalUnusable: It can't be written.
        """
        self.open()
        providers = {key: sorted(traits) for key, traits in kept.items()}
        self._put({'version': VERSION, 'providers': providers})
