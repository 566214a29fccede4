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

"""Cyborg's accelerator requests, passed by Nova or fetched from Cyborg."""

import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import nova.conf
import tenacity
from keystoneauth1 import exceptions as keystone_exceptions
from nova import context as nova_context
from nova import exception as nova_exception
from nova import service_auth
from nova.accelerator import cyborg
from nova.conf import service_token
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import slots
from nova_powervm.virt import record_changes
from nova_powervm.virt import system_metadata

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_SERVICE_USER = service_token.SERVICE_USER_GROUP

_HINT_FOR_SERVICE_USER = (
    '. Check that the user in [service_user] of nova.conf has the role admin: '
    'a user without it sees only the requests of its own project'
)

_HINT_FOR_PROFILE = (
    ". Check that its endpoint ends in /v2. If device profile '%s', or that "
    'of another server, was deleted, create it again under its name and let '
    'the requests refer to it; see "A device profile was deleted" in the guide'
)

#: Waits for a number of seconds.
Sleep = Callable[[float], None]
#: Finds the DRC indexes of the accelerators that an instance has.
Owned = Callable[[], Iterable[int]]

# Nova's client has no exception for an empty answer, only this text.
_EMPTY_ANSWER = 'returned no accelerator requests'
# Cyborg lists all requests first, and answers so if the device profile of any
# of them was deleted.
_NOT_FOUND = '[404]'


def parse_requests(
    instance: Any, nodename: str, accel_info: Any
) -> tuple[accelerators.Request, ...]:
    """Parse the requests that Nova passes after waiting for them.

    :param instance: nova.objects.Instance.
    :param nodename: The compute node's name.
    :param accel_info: As Nova passes it to spawn.
    :raises exception.AcceleratorRefused: A request cannot be served.
    """
    return accelerators.parse(
        instance.uuid, nodename, _device_profile(instance), accel_info
    )


def record_slots(
    instance: Any, requests: Sequence[accelerators.Request]
) -> None:
    """Record the accelerators that an instance is built with.

    Nova saves this record with the rest of a new instance. Later the driver
    compares the record with the requests that Cyborg still has.

    :param instance: nova.objects.Instance.
    :param requests: Its requests.
    """
    if requests:
        system_metadata.ACCELERATORS.write(
            instance.system_metadata,
            ' '.join(
                slots.format_drc_index(request.drc_index)
                for request in requests
                if request.drc_index is not None
            ),
        )


def save_slots(
    instance: Any, requests: Sequence[accelerators.Request]
) -> None:
    """Record the accelerators that an instance was started with, and save it.

    Log errors instead of raising them: the instance runs, and its previous
    record stays.

    :param instance: nova.objects.Instance.
    :param requests: Its requests.
    """
    if not requests:
        return
    try:
        record_slots(instance, requests)
        record_changes.save_metadata(instance)
    except Exception:
        LOG.exception(
            'The accelerators of the instance cannot be recorded',
            instance=instance,
        )


def _parse_all(
    instance: Any, nodename: str, accel_info: Any, owned: Owned = tuple
) -> tuple[accelerators.Request, ...]:
    """Parse the requests of an existing instance; refuse if some are lost."""
    requests = parse_requests(instance, nodename, accel_info)
    if requests:
        recorded = system_metadata.ACCELERATORS.read(instance.system_metadata)
        accelerators.refuse_lost(
            instance.uuid,
            # An earlier version of the driver recorded nothing.
            {*owned()}
            if recorded is None
            else {int(text, 16) for text in recorded.split()},
            requests,
        )
    return requests


def await_requests(
    context: Any,
    instance: Any,
    nodename: str,
    accel_info: Any,
    sleep: Sleep = time.sleep,
) -> tuple[accelerators.Request, ...]:
    """Parse the requests that Nova passes, and wait until they are bound.

    :param context: The context of the request.
    :param instance: nova.objects.Instance.
    :param nodename: The compute node's name.
    :param accel_info: As Nova passes it to reboot and power_on.
    :param sleep: Waits for a number of seconds.
    :raises exception.AcceleratorsUnknown: Cyborg did not answer.
    :raises exception.AcceleratorRefused: A request cannot be served.
    """
    if accelerators.is_binding(accel_info):
        accel_info = _poll_until_settled(context, instance, sleep)
    return _parse_all(instance, nodename, accel_info)


def fetch_requests(
    context: Any,
    instance: Any,
    nodename: str,
    *,
    wait: bool = True,
    owned: Owned = tuple,
    sleep: Sleep = time.sleep,
) -> tuple[accelerators.Request, ...]:
    """Fetch the requests if Nova passes none.

    Ask Cyborg only if the flavor has a device profile.

    :param context: The context of the request. One without a user's token is
        replaced by one of the service user.
    :param instance: nova.objects.Instance.
    :param nodename: The compute node's name.
    :param wait: Whether to wait for those that Cyborg is still binding.
    :param owned: Finds the accelerators of an instance without a record.
    :param sleep: Waits for a number of seconds.
    :raises exception.AcceleratorsUnknown: Cyborg did not answer, or is still
        binding them.
    :raises exception.AcceleratorRefused: A request cannot be served.
    """
    if _device_profile(instance) is None:
        return ()
    if wait:
        accel_info = _poll_until_settled(context, instance, sleep)
    else:
        accel_info = _query_cyborg(context, instance)
        if accelerators.is_binding(accel_info):
            raise exception.AcceleratorsUnknown(
                instance_uuid=instance.uuid, reason='it is still binding them'
            )
    return _parse_all(instance, nodename, accel_info, owned)


def _poll_until_settled(context: Any, instance: Any, sleep: Sleep) -> Any:
    """Fetch the requests until all are settled or the time limit is over.

    :returns: The last answer.
    """
    seconds = CONF.arq_binding_timeout

    def tell(state: tenacity.RetryCallState) -> None:
        if state.attempt_number == 1:
            LOG.info(
                'Cyborg is still binding accelerators of the instance; '
                'waiting up to %d seconds ([DEFAULT]arq_binding_timeout).',
                seconds,
                instance=instance,
            )

    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_result(accelerators.is_binding),
        wait=tenacity.wait_exponential(multiplier=0.5, max=10),
        stop=lambda state: state.idle_for >= seconds,
        before_sleep=tell,
        retry_error_callback=lambda state: (
            state.outcome.result() if state.outcome else None
        ),
        sleep=sleep,
    )
    return attempts(_query_cyborg, context, instance)


def _query_cyborg(context: Any, instance: Any) -> Any:
    """Read an instance's requests from Cyborg's API.

    :raises exception.CyborgSilent: Cyborg did not answer, or with an error.
    :raises exception.AcceleratorsUnknown: It shows no request of the instance.
    """
    try:
        client = cyborg.get_client(_with_token(context))
        return client.get_arqs_for_instance(instance.uuid)
    except (
        nova_exception.NovaException,
        keystone_exceptions.ClientException,
    ) as error:
        if _EMPTY_ANSWER not in str(error):
            hint = (
                _HINT_FOR_PROFILE % _device_profile(instance)
                if _NOT_FOUND in str(error)
                else ''
            )
            raise exception.CyborgSilent(
                instance_uuid=instance.uuid,
                reason=exception.PrivateText(
                    f'{error}{hint}', 'it does not answer'
                ),
            ) from error
        hint = '' if context.auth_token else _HINT_FOR_SERVICE_USER
        raise exception.AcceleratorsUnknown(
            instance_uuid=instance.uuid,
            reason=exception.PrivateText(
                f'{error}{hint}', 'it shows no request of the server'
            ),
        ) from error


def _with_token(context: Any) -> Any:
    """Return a context that Cyborg's API accepts.

    While nova-compute starts, Nova uses a context without a token and a
    service catalog.
    """
    if context.auth_token:
        return context
    plugin = service_auth.get_service_auth_plugin(_SERVICE_USER)
    if plugin is None:
        LOG.warning(
            'Section [service_user] of nova.conf has no credentials for '
            'asking Cyborg without a user. Set auth_type, auth_url, username, '
            'password and so on.'
        )
        return context
    return nova_context.RequestContext(
        user_auth_plugin=plugin, overwrite=False
    )


def _device_profile(instance: Any) -> str | None:
    profile = (instance.flavor.extra_specs or {}).get(accelerators.PROFILE)
    return str(profile) if profile else None
