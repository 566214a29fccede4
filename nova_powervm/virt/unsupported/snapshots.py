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

"""Refuses snapshots."""

from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states

from nova_powervm.virt import action_events
from nova_powervm.virt.unsupported import messages

#: Name of the event that records a refused snapshot.
_EVENT = 'powervm_snapshot'


def refusal(context: Any, instance: Any) -> nova_exception.NovaException:
    """Return the error that refuses a snapshot, after recording it.

    Nova's API has answered by then, and Nova marks the instance action as
    successful. Therefore add a failed event with the reason to the action.
    The action of a backup has the reason anyway.
    """
    refused = messages.refused_error('a snapshot', instance)
    if instance.task_state == task_states.IMAGE_SNAPSHOT:
        action_events.record_failure(context, instance, _EVENT, refused)
    return refused
