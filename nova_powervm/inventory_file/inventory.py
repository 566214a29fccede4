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

"""Inventory file of a running service."""

from oslo_log import log as logging

from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import file_change
from nova_powervm.inventory_file import file_reader

LOG = logging.getLogger(__name__)


class InventoryFile:
    """Reads the file at start and again whenever it has changed.

    An invalid file stops a starting service. In a running service, it leaves
    the last valid policy in force.

    :param path: Path of the file, which is opened again for each reading, so
        that a replaced file or link is detected.
    :raises nova_powervm.exception.PolicyInvalid: See :func:`~.files.load`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        reading = file_reader.read_file(path)
        if reading.error is not None:
            raise reading.error
        self._watch = file_change.FileWatch(reading.policy, reading.status)
        LOG.info(_offer(self.policy))

    @property
    def policy(self) -> policies.Policy:
        """The policy in force."""
        return self._watch.policy

    def refresh(self) -> policies.Policy:
        """Check the file, and use a change that two checks agree on.

        An unchanged file costs one ``stat`` call.

        :returns: The policy in force.
        """
        self._watch, due = self._watch.note_status(
            file_reader.read_status(self._path)
        )
        if due:
            self._watch, news = self._watch.take_reading(
                file_reader.read_file(self._path)
            )
            self._tell(news)
        return self.policy

    def _tell(self, news: file_change.ReadOutcome) -> None:
        if news is file_change.ReadOutcome.TAKEN:
            LOG.info(
                'The inventory file was read again. %s', _offer(self.policy)
            )
        elif news is file_change.ReadOutcome.REFUSED:
            LOG.error(
                'The inventory file has changed and is not used; what was '
                'read before stays in force (%(count)d paragraph(s)). '
                'Correct it: it is read again without a restart. '
                '%(complaint)s',
                {
                    'count': len(self.policy.paragraphs),
                    'complaint': self._watch.complaint,
                },
            )


def _offer(policy: policies.Policy) -> str:
    if not policy.paragraphs:
        return f'Offering no device: {policy.source} has no paragraph.'
    return (
        f'Offering devices by {len(policy.paragraphs)} paragraph(s) of '
        f'{policy.source}.'
    )
