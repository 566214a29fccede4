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

"""Versions of Nova's services, asked as nova-compute asks: the conductor."""

import threading
from collections.abc import Callable
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import nova.conf
import oslo_messaging
from nova import config as nova_config
from nova import context as nova_context
from nova import objects
from nova import rpc
from nova.conductor import rpcapi
from nova.objects import base as nova_objects
from oslo_upgradecheck import upgradecheck

from nova_powervm.tool import upgrade_checks

CONF = nova.conf.CONF
#: Seconds to wait for the conductor: a person waits, too.
ANSWER_TIMEOUT = 10


def check_service_versions(files: Sequence[str]) -> upgradecheck.Result:
    """Ask for the lowest version of a nova-compute service of the cell.

    A compute node has no access to Nova's database, so the conductor is
    asked, on the message queue that nova.conf names.

    :param files: The configuration files.
    """
    objects.register_all()
    if rpc.TRANSPORT is None:
        nova_config.parse_args(['nova-powervm-status'], [*files] or None)
    conductor = rpcapi.ConductorAPI()
    # The option is there as soon as a client has been made.
    CONF.set_override('rpc_response_timeout', ANSWER_TIMEOUT)
    try:
        return upgrade_checks.check_compute_versions(_lowest(conductor))
    except (oslo_messaging.MessagingException, OSError) as error:
        return upgrade_checks.warning(
            f"Nova's conductor can not be asked ({_kind(error)}). Look at "
            'transport_url in nova.conf, and whether nova-conductor runs.'
        )


def _lowest(conductor: Any) -> int:
    """Ask the conductor; what the process asks by is left as it was."""
    before = nova_objects.NovaObject.indirection_api
    nova_objects.NovaObject.indirection_api = conductor
    try:
        return _within(
            ANSWER_TIMEOUT,
            lambda: int(
                objects.Service.get_minimum_version(
                    nova_context.get_admin_context(), 'nova-compute'
                )
            ),
        )
    finally:
        nova_objects.NovaObject.indirection_api = before
        CONF.clear_override('rpc_response_timeout')


def _within(seconds: float, ask: Callable[[], int]) -> int:
    """Give what a function gives, if it does so in time.

    A message queue that can't be reached is tried again for ever, before the
    time that an answer may take begins. Whoever tries ends with the process.

    :raises TimeoutError: It took longer.
    """
    outcome: futures.Future[int] = futures.Future()

    def run() -> None:
        try:
            outcome.set_result(ask())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name='ask-conductor', daemon=True).start()
    futures.wait([outcome], seconds)
    if not outcome.done():
        raise TimeoutError(f'no answer within {seconds} seconds')
    return outcome.result()


def _kind(error: Exception) -> str:
    return str(error).split('\n', maxsplit=1)[0] or type(error).__name__
