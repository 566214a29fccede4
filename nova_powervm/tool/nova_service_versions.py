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

"""Upgrade check of Nova's service versions, by way of the conductor."""

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
#: Timeout in seconds for the conductor: a user is waiting.
ANSWER_TIMEOUT = 10


def check_service_versions(files: Sequence[str]) -> upgradecheck.Result:
    """Check the lowest version of the nova-compute services of the cell.

    A compute node has no access to Nova's database, so the check asks the
    conductor through the message queue that nova.conf names.
    """
    objects.register_all()
    if rpc.TRANSPORT is None:
        nova_config.parse_args(['nova-powervm-status'], [*files] or None)
    conductor = rpcapi.ConductorAPI()
    # Creating a client registers the option.
    CONF.set_override('rpc_response_timeout', ANSWER_TIMEOUT)
    try:
        return upgrade_checks.check_compute_versions(_lowest(conductor))
    except (oslo_messaging.MessagingException, OSError) as error:
        return upgrade_checks.warning(
            f"Nova's conductor cannot be asked ({_kind(error)}). Check "
            'transport_url in nova.conf, and that nova-conductor is running.'
        )


def _lowest(conductor: Any) -> int:
    """Ask the conductor, and restore the process's indirection API."""
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
    """Call a function with a time limit.

    oslo.messaging retries an unreachable message queue forever, before its own
    timeout begins. The thread that retries ends with the process.

    :returns: The result of the function.
    :raises TimeoutError: The time limit was exceeded.
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
