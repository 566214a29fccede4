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

"""Has PowerVM say whether an LPAR could move to another host.

For ``nova-powervm-check partition --target``. Nothing is moved, and no keys
are exchanged: the only jobs are validations.
"""

import re
from collections.abc import Sequence
from typing import Any

from pypowervm import adapter as pvm_adapter
from pypowervm.tasks import management_console

from nova_powervm import exception
from nova_powervm.lpar import live_migration as rules
from nova_powervm.lpar import partition
from nova_powervm.powervm import live_migration
from nova_powervm.powervm import partitions
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system

#: The system of no host.
NO_SYSTEM = 'nova-check-none'
#: A code of PowerVM's messages: HSCLA246, REST0126, NovaLink's PVME01050010.
CODE = r'(?:HSC[A-Z][0-9A-F]{4}|REST0[0-9A-F]{3}|(?:PVM|VIOS)E[0-9A-F]{8})'
_CODE = re.compile(rf'\b{CODE}\b')


class Validation:
    """An LPAR that somebody runs, and where it could move to.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system that has the LPAR.
    :param server: The name or the uuid of the LPAR.
    :param target: The system that it could move to.
    :raises exception.ConfigurationError: There is no such LPAR, or it does
        not run.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        managed: system.RestSystem,
        server: str,
        target: rules.Target,
    ) -> None:
        self._adapter = adapter
        self._managed = managed
        self._partitions = partitions.RestPartitions(adapter, managed)
        self._live = live_migration.RestLiveMigrations(adapter, managed)
        self.target = target
        self.lpar = self._find(server)
        self.guest = self._live.guest(self.lpar.uuid, ())
        self._before = self._visible()

    def _find(self, server: str) -> partition.Partition:
        named = [
            uuid
            for uuid, name in self._partitions.names().items()
            if server in (name, uuid) or server.upper() == uuid
        ]
        found = self._partitions.find(named[0]) if len(named) == 1 else None
        if found is None:
            raise exception.ConfigurationError(
                reason=f'{len(named) or "no"} LPARs of the host are called '
                f'{server}. Name one that runs; `openstack server show` tells '
                'the name (OS-EXT-SRV-ATTR:instance_name)'
            )
        if found.power is not partition.Power.RUNNING:
            raise exception.ConfigurationError(
                reason=f'LPAR {found.name} is in the state {found.state}. '
                'Name one that runs'
            )
        return found

    @property
    def is_settled(self) -> bool:
        """Whether the LPAR was not being migrated."""
        return self.guest.state == rules.SETTLED

    @property
    def is_capable(self) -> bool:
        """Whether the host says that it can migrate running LPARs."""
        capability = live_migration.CAPABILITY
        return bool(self._managed.wrapper.get_capability(capability))

    @property
    def migrations(self) -> dict[str, int]:
        """How many migrations the host has, and how many it can have."""
        self._managed.read()
        data = self._managed.wrapper.migration_data
        return {
            'in progress': int(data['active_migrations_in_progress'] or 0),
            'most': int(data['active_migrations_supported'] or 0),
        }

    def keys(self) -> tuple[bool, int]:
        """Return whether there is a key of its own, and how many it lets in.

        Whether the other host lets this one in, only a validation tells.
        """
        with rest_errors.translated("reading the management console's keys"):
            own = management_console.get_public_key(self._adapter)
            others = management_console.get_authorized_keys(self._adapter)
        return bool(own), len(others)

    def validate(self, name: str | None = None) -> str:
        """Have PowerVM validate the migration.

        :param name: A system other than the target.
        :returns: Why it would not work; empty if it would.
        """
        target = rules.Target(name or self.target.system, self.target.address)
        try:
            self._live.validate(self.lpar.uuid, target)
        except exception.RestError as error:
            if error.retryable:
                # The job has not ended, or never begun.
                raise
            return ' '.join(str(error).split()) or 'no reason'
        return ''

    def _visible(self) -> Sequence[Any]:
        """Return what a migration would change."""
        found = self._partitions.find(self.lpar.uuid)
        return found, self._live.guest(self.lpar.uuid, ())

    def is_unchanged(self) -> bool:
        """Return whether the LPAR is as it was before the validations."""
        return self._visible() == self._before


def codes_in(text: str) -> list[str]:
    """Return the codes of messages in a text, which name nothing."""
    return sorted({*_CODE.findall(text)})
