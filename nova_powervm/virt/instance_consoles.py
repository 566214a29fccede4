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

"""The consoles of instances, as Nova and its proxy ask for them."""

import contextlib
import secrets
from typing import Any

from nova import exception as nova_exception
from nova.console import type as console_types
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.ops import consoles
from nova_powervm.virt import errors
from nova_powervm.virt import system_metadata
from nova_powervm.virt import translation

LOG = logging.getLogger(__name__)

_PATH_BYTES = 24


class InstanceConsoles:
    """Opens the consoles of instances, and closes them.

    Anybody who can connect to this host and knows the path of a console can
    use the console, so the path is random. Nova keeps it with each token. It
    also stays in Nova's record of the instance, for tokens that outlive
    nova-compute.

    :param opener: The consoles of the host.
    :param nodename: Nova's name of this host.
    """

    def __init__(self, opener: consoles.Consoles, nodename: str) -> None:
        self._consoles = opener
        # While an instance moves, it has another path on the other host.
        self._key = system_metadata.console(nodename)

    def open(self, instance: Any) -> console_types.ConsoleVNC:
        """Open the console of an instance, and return where it is.

        Nova's proxy has this called again for each connection.

        :raises nova.exception.ConsoleTypeUnavailable: It cannot be opened;
            the API shows the reason.
        :raises exception.PartitionNotFound: The instance has no LPAR.
        """
        recorded = self._key.read(instance.system_metadata)
        try:
            path = self._consoles.open(
                translation.lpar_of(instance),
                recorded or secrets.token_urlsafe(_PATH_BYTES),
            )
        except exception.PartitionNotFound:
            raise
        except exception.PowerVMError as error:
            LOG.info('The console is refused: %s', error, instance=instance)
            # Nova's API knows no other error that has a reason.
            raise nova_exception.ConsoleTypeUnavailable(
                errors.for_users(error)
            ) from error
        if path != recorded:
            self._record(instance, path)
        address = self._consoles.address
        return console_types.ConsoleVNC(
            host=address.host, port=address.port, internal_access_path=path
        )

    def _record(self, instance: Any, path: str) -> None:
        """Record a path, unless the instance has a task now.

        Nova asks for consoles at any time, without a lock. Until the next time
        Nova asks, only this process knows a path that is not recorded.
        """
        with contextlib.suppress(nova_exception.UnexpectedTaskStateError):
            system_metadata.change(instance, {self._key: path}, only_idle=True)

    def forget(self, instance: Any) -> None:
        """Close the console of an instance; its path is never valid again.

        Log errors instead of raising them: the operation that closes the
        console matters more.
        """
        try:
            self._forget(instance)
        except nova_exception.InstanceNotFound:
            # Nova may have deleted its record.
            pass
        except Exception:
            LOG.exception(
                'The console of the instance may stay open', instance=instance
            )

    def _forget(self, instance: Any) -> None:
        lpar_uuid = translation.lpar_of(instance)
        is_loaded = 'system_metadata' in instance
        is_recorded = is_loaded and bool(
            self._key.read(instance.system_metadata)
        )
        if is_recorded or self._consoles.has(lpar_uuid):
            self._consoles.close(lpar_uuid)
        if is_recorded or not is_loaded:
            system_metadata.change(instance, {self._key: None})
