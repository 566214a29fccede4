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

"""What nova-compute itself remembers on the host, in two files.

The burned devices have one of their own, which is strict: in doubt nothing is
built. Nobody's device hangs on the traits, so they stand in the other.
"""

import os

from nova_powervm.journal.burned import FileJournal
from nova_powervm.journal.traits import FileTraitJournal

__all__ = ['FileJournal', 'FileTraitJournal', 'burned_path', 'traits_path']

_BURNED = 'powervm-burned.json'
_TRAITS = 'powervm-traits.json'


def burned_path(burn_journal: str | None, state_path: str) -> str:
    """Say where the burned devices stand.

    :param burn_journal: ``[powervm]burn_journal``.
    :param state_path: Nova's ``[DEFAULT]state_path``.
    """
    return burn_journal or os.path.join(state_path, _BURNED)


def traits_path(burn_journal: str | None, state_path: str) -> str:
    """Say where the traits stand: beside the burned devices.

    ``/srv/host1.json`` has ``/srv/host1-traits.json`` beside it, so two
    services with a journal each never share this one.

    :param burn_journal: As for :func:`burned_path`, and so is the next.
    """
    if not burn_journal:
        return os.path.join(state_path, _TRAITS)
    stem, suffix = os.path.splitext(burn_journal)
    return f'{stem}-traits{suffix}'
