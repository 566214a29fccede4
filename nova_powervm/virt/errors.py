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

"""Translates the driver's errors for Nova, and for users."""

import inspect
from typing import Any
from typing import TypeVar

import wrapt
from nova import exception as nova_exception
from nova import objects
from nova.compute import utils as compute_utils
from oslo_context import context as oslo_context
from oslo_log import log as logging

from nova_powervm import exception

LOG = logging.getLogger(__name__)

_UNKNOWN = 'unknown'
_Class = TypeVar('_Class', bound=type)


class RefusedByPolicy(nova_exception.GroupAffinityViolation):
    """A build is refused to its project, and the host is not to blame.

    Nova counts the failed builds of each host, and its scheduler avoids hosts
    with many of them: a project that is refused builds could take a host from
    all other projects. GroupAffinityViolation is the one error of a build that
    Nova does not count (``_build_and_run_instance`` makes a
    RescheduledByPolicyException of it). Nova tries another host.
    """

    msg_fmt = '%(reason)s'


def translate_errors(cls: _Class) -> _Class:
    """Translate the errors of all public methods of a driver class.

    Keep the signatures: Nova's tests compare them.
    """
    for name, member in list(vars(cls).items()):
        if not name.startswith('_') and inspect.isfunction(member):
            setattr(cls, name, _translate(member))
    return cls


@wrapt.decorator
def _translate(
    wrapped: Any, driver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    try:
        return wrapped(*args, **kwargs)
    except exception.PowerVMError as error:
        raise to_nova(error, _find_instance_uuid(args, kwargs)) from error


def _find_instance_uuid(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Find the uuid of the instance among a driver method's arguments."""
    for value in (*args, *kwargs.values()):
        if hasattr(value, 'uuid') and hasattr(value, 'flavor'):
            return str(value.uuid)
    return _UNKNOWN


def to_nova(
    error: exception.PowerVMError, instance_uuid: str = _UNKNOWN
) -> nova_exception.NovaException:
    """Return Nova's exception for one of the driver's.

    :param error: The driver's exception.
    :param instance_uuid: Uuid of the instance concerned, in whose faults and
        events the message is shown.
    """
    # Without an instance, only the services' own log has the message.
    message = str(error) if instance_uuid == _UNKNOWN else for_users(error)
    if isinstance(
        error, exception.PartitionNotFound | exception.ReadingCancelled
    ):
        return nova_exception.InstanceNotFound(instance_id=instance_uuid)
    if isinstance(error, exception.ConfigurationError):
        return nova_exception.InvalidConfiguration(message)
    if isinstance(error, exception.RestUnreachable):
        return nova_exception.HypervisorUnavailable(message)
    return nova_exception.NovaException(message)


def build_error_to_nova(
    error: exception.PowerVMError, instance_uuid: str
) -> nova_exception.NovaException:
    """Return Nova's exception for a failed build.

    Nova tries another host unless the error says that this cannot help. In
    that case Nova aborts the build, and the server fault has the driver's
    message. (After the last failed try it has a message of Nova's own.)
    """
    if isinstance(error, exception.BurnLimitReached):
        return RefusedByPolicy(reason=error.summary)
    if error.elsewhere:
        return nova_exception.InstanceDeployFailure(reason=for_users(error))
    return nova_exception.BuildAbortException(
        instance_uuid=instance_uuid, reason=for_users(error)
    )


def for_users(error: Exception) -> str:
    """Return the text of an error for users, and log it if the log has more.

    If the log has more, or Nova would cut the text, end it in the id of the
    request, by which operators find the whole message in the log.

    :param error: An exception of the driver or of Nova, whose message is for
        users, or any other one, of which users read only the class.
    """
    if not isinstance(error, exception.PowerVMError):
        return str(compute_utils.exception_to_dict(error)['message'])
    if not error.withholds and len(error.summary) <= exception.ROOM:
        return error.summary
    context = oslo_context.get_current()
    reference = f' (log: {context.request_id})' if context else ''
    text = f'{error.summary[: exception.ROOM - len(reference)]}{reference}'
    LOG.info(
        'Users read "%(text)s" of this error: %(error)s',
        {'text': text, 'error': error},
    )
    return text


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
        context, instance.uuid, event, want_result=False, host=instance.host
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
