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


"""Refuses the operations that Nova begins by stopping the guest."""

from typing import Any

from nova.compute import task_states

from nova_powervm.virt.unsupported import messages

#: Operations by the task state that the instance has then.
_BEGUN_BY_STOPPING = {
    task_states.RESIZE_MIGRATING: 'moving a server to another cell',
}


def check_supported(instance: Any) -> None:
    """Refuse to stop a guest for an operation that is not supported.

    :param instance: nova.objects.Instance.
    :raises nova.exception.NovaException: The task state of the instance names
        such an operation.
    """
    operation = _BEGUN_BY_STOPPING.get(instance.task_state)
    if operation:
        raise messages.refused_error(operation, instance)
