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

"""Watches the inventory file of a running service."""

from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import file_reader

LOG = logging.getLogger(__name__)


class InventoryFile:
    """Reads the file at start and again whenever it has changed.

    An invalid file stops a starting service. In a running service, it leaves
    the last valid policy in force.

    :param path: Path of the file, which is opened again for each reading, so
        that a replaced file or link is detected.
    :ivar policy: The policy in force.
    :raises nova_powervm.exception.PolicyInvalid: See :func:`.load`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # Status of the file that was read last, and why it is not in force.
        self._read, found = file_reader.read_file(path)
        self._complaint = ''
        if isinstance(found, exception.PolicyInvalid):
            raise found
        self.policy = found
        # A different status at the last look.
        self._awaited: file_reader.Status | None = None
        LOG.info(_describe_offer(self.policy))

    def refresh(self) -> policies.Policy:
        """Check the file, and use a change that two checks agree on.

        Many a part of a file is valid on its own. A file that is still being
        written could withdraw devices, or offer those that a paragraph at its
        end denies. It is therefore read when two checks in a row find the
        same status. An unchanged file costs one ``stat`` call. One that was
        refused is read in each check, because the reason may be elsewhere,
        such as in the mode of its directory.

        :returns: The policy in force.
        """
        found = file_reader.read_status(self._path)
        expected, self._awaited = self._awaited, None
        if found == expected or (found == self._read and self._complaint):
            status, content = file_reader.read_file(self._path)
            # Or else it is being written.
            if status == found:
                self._judge(status, content)
        elif found != self._read:
            self._awaited = found
        return self.policy

    def _judge(
        self,
        status: file_reader.Status,
        found: policies.Policy | exception.PolicyInvalid,
    ) -> None:
        """Use the policy that was read, or keep the one in force."""
        last = self._read, self._complaint
        self._read, self._complaint = status, ''
        if isinstance(found, exception.PolicyInvalid):
            self._complaint = str(found)
        elif self.policy.paragraphs and not found.paragraphs:
            # This is more often a mistake than intended.
            self._complaint = (
                f'{found.source} has no paragraph. To offer no device in a '
                'running service, write a paragraph with allow: false that '
                "identifies drc_name: '*'."
            )
        else:
            self.policy = found
            offer = _describe_offer(found)
            LOG.info('The inventory file was read again. %s', offer)
            return
        if last != (self._read, self._complaint):
            LOG.error(
                'The inventory file has changed and is not used; what was '
                'read before stays in force (%(count)d paragraph(s)). '
                'Correct it: it is read again without a restart. '
                '%(complaint)s',
                {
                    'count': len(self.policy.paragraphs),
                    'complaint': self._complaint,
                },
            )


def _describe_offer(policy: policies.Policy) -> str:
    if not policy.paragraphs:
        return f'Offering no device: {policy.source} has no paragraph.'
    return (
        f'Offering devices by {len(policy.paragraphs)} paragraph(s) of '
        f'{policy.source}.'
    )
