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

It is written before Placement is told. Without it, traits that leave the
inventory file stay.
"""

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

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
_EMPTY: Mapping[str, Any] = {'version': VERSION, 'providers': {}}


class FileTraitJournal(files.LockedFile):
    """Keeps the traits of providers in a file.

    One process at a time has it.

    :param path: Of the file. It is made when a trait is set.
    """

    schema = _SCHEMA
    empty = _EMPTY
    refusal = exception.TraitJournalUnusable
    if_damaged = (
        'Put a copy from before the damage there, or remove it: then the '
        'traits that it held stay when they leave the inventory file'
    )
    if_locked = (
        'Stop that one, or give each its own [powervm]burn_journal, beside '
        'which this file stands'
    )

    def read(self) -> dict[str, frozenset[str]]:
        """Give the traits that were set, by provider.

        :raises exception.TraitJournalUnusable: See open.
        """
        self.open()
        return _kept(self._content)

    def peek(self) -> dict[str, frozenset[str]]:
        """Give the same to who is not nova-compute; nothing is locked.

        :raises exception.TraitJournalUnusable: It is damaged, or this user
            may not read it.
        """
        return _kept(self._load())

    def write(self, kept: Mapping[str, Collection[str]]) -> None:
        """Replace all that the file says; it is on disk afterwards.

        :param kept: As read gives it.
        :raises exception.TraitJournalUnusable: It can't be written.
        """
        self.open()
        providers = {key: sorted(traits) for key, traits in kept.items()}
        self._put({'version': VERSION, 'providers': providers})


def _kept(content: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    providers: Mapping[str, list[str]] = content['providers']
    return {uuid: frozenset(traits) for uuid, traits in providers.items()}
