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

"""The inventory file of a running service."""

from oslo_log import log as logging

from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import file_change
from nova_powervm.inventory_file import file_reader

LOG = logging.getLogger(__name__)


class InventoryFile:
    """Reads the file once, and again when it has changed.

    A bad file stops a starting service. In a running one it leaves the last
    good one in force.

    :param path: The file's path. It is opened by this path each time, so
        that a file or link which is put in its place is seen.
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
        """What is in force."""
        return self._watch.policy

    def refresh(self) -> policies.Policy:
        """Look at the file, and take it over if two looks agree.

        An unchanged file costs one ``stat``.

        :returns: What is in force now.
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
