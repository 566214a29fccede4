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


"""The exceptions and the wording for refused operations."""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def log_refusal(operation: str, instance: Any = None, advice: str = '') -> str:
    """Return the message that refuses an operation, and log it.

    :param operation: The operation, as a noun phrase in the singular.
    :param instance: The nova.objects.Instance concerned, if any.
    :param advice: A sentence that says what to do instead.
    """
    reason = f'PowerVM: {operation} is not supported yet'
    if advice:
        reason = f'{reason}. {advice}'
    LOG.info('Refused: %s', reason, instance=instance)
    return reason


def refused_error(
    operation: str, instance: Any = None
) -> nova_exception.NovaException:
    """Return an exception whose reason becomes the server fault."""
    return nova_exception.NovaException(log_refusal(operation, instance))
