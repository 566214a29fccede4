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


"""How operations are refused: in one form of words."""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def refusal(operation: str, instance: Any = None, advice: str = '') -> str:
    """Give the words that refuse an operation, and log them.

    :param operation: A noun.
    :param instance: nova.objects.Instance that it was to be done with.
    :param advice: A sentence on what to do instead.
    """
    reason = f'PowerVM: {operation} is not supported yet'
    if advice:
        reason = f'{reason}. {advice}'
    LOG.info('Refused: %s', reason, instance=instance)
    return reason


def refused(
    operation: str, instance: Any = None
) -> nova_exception.NovaException:
    """Give the exception of an operation whose reason becomes a fault."""
    return nova_exception.NovaException(refusal(operation, instance))


def rolled_back(
    operation: str, instance: Any
) -> nova_exception.InstanceFaultRollback:
    """Give the exception after which a server is what it was.

    Any other makes Nova set it to ERROR.
    """
    return nova_exception.InstanceFaultRollback(refused(operation, instance))
