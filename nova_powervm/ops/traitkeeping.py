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

"""The file's traits: what the journal says of them, and what goes into it."""

from collections.abc import Collection
from collections.abc import Mapping

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.domain import planned
from nova_powervm.domain import traitkeeping
from nova_powervm.ops import ports

LOG = logging.getLogger(__name__)


class TraitOps:
    """Remembers which traits of the file the driver has set.

    No device is given away wrongly if this fails. So trouble with the journal
    is a warning, and the traits are set without being remembered: they stay
    when they leave the file.

    :param journal: Keeps the traits while nova-compute is down.
    """

    def __init__(self, journal: ports.TraitJournal) -> None:
        self._journal = journal
        # None: the journal could not be read yet.
        self._kept: traitkeeping.Kept | None = None
        self._saved: traitkeeping.Kept = {}
        self._told = ''

    def close(self) -> None:
        """Let another process have the journal."""
        self._journal.close()

    def look(self) -> traitkeeping.Kept:
        """Give the traits that the driver has set, by provider.

        The journal is read once. While it can't be, none are known, and each
        call tries again.
        """
        if self._kept is None:
            try:
                self._saved = (
                    self._journal.read() if self._journal.exists() else {}
                )
            except exception.TraitJournalUnusable as error:
                self._warn(error)
                return {}
            self._kept = self._saved
            self._told = ''
        return self._kept

    def write_ahead(
        self,
        plan: planned.Plan,
        made: Mapping[int, str],
        there: Collection[str],
    ) -> None:
        """Write down what the plan sets before Placement is told.

        :param plan: The plan.
        :param made: DRC index to the uuid of each provider that it makes.
        :param there: Uuids of all providers that were there before.
        """
        if self._kept is None:
            return
        # What is known holds in this process, written or not: a trait that is
        # gone must not be taken for the driver's when somebody sets it.
        self._kept = traitkeeping.advance(
            self._kept, plan.entries, made, there
        )
        if self._kept == self._saved:
            return
        try:
            self._journal.write(self._kept)
        except exception.TraitJournalUnusable as error:
            self._warn(error)
            return
        self._saved = self._kept
        self._told = ''

    def _warn(self, error: exception.TraitJournalUnusable) -> None:
        """Say it once."""
        text = str(error)
        if text != self._told:
            LOG.warning(
                '%s Traits of the inventory file are set all the same, but '
                'those that leave the file may stay in Placement.',
                text,
            )
        self._told = text
