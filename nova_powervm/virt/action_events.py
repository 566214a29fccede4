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

"""Reasons for users, where Nova records a refused operation as a success."""

from typing import Any

from nova import exception as nova_exception
from nova import objects
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def record_failure(
    context: Any,
    instance: Any,
    event: str,
    refused: nova_exception.NovaException,
) -> None:
    """Add a failed event to the instance action of the user's request.

    Log errors instead of raising them: they must not replace the reason.

    :param context: The context of the request that created the action.
    :param instance: nova.objects.Instance.
    :param event: The name of the event.
    :param refused: The exception whose message the event records.
    """
    try:
        _add_failed_event(context, instance, event, refused)
    except nova_exception.InstanceActionNotFound:
        # The request did not come through the API.
        pass
    except Exception:
        LOG.exception('Event %s cannot be recorded', event, instance=instance)


def _add_failed_event(
    context: Any,
    instance: Any,
    event: str,
    refused: nova_exception.NovaException,
) -> None:
    events = objects.InstanceActionEvent
    events.event_start(
        context,
        instance.uuid,
        event,
        want_result=False,
        host=instance.host,
    )
    events.event_finish_with_failure(
        context,
        instance.uuid,
        event,
        exc_val=refused,
        # Nova records an event without a traceback as a success.
        exc_tb='',
        want_result=False,
    )
