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

"""Changes of what the driver keeps in the system metadata of instances."""

from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import objects

from nova_powervm.virt import record_changes


def change(
    instance: Any,
    edit: Callable[[dict[str, str]], object],
    *,
    only_idle: bool = False,
) -> None:
    """Change the metadata in Nova's record and in the caller's object.

    :param instance: nova.objects.Instance.
    :param edit: Changes the metadata in place.
    :param only_idle: See :func:`change_recorded`.
    """
    recorded = change_recorded(instance.uuid, edit, only_idle=only_idle)
    if 'system_metadata' not in instance:
        return
    if 'system_metadata' in instance.obj_what_changed():
        # The caller will save it.
        edit(instance.system_metadata)
    else:
        instance.system_metadata = recorded
        instance.obj_reset_changes(['system_metadata'])


def change_recorded(
    uuid: str,
    edit: Callable[[dict[str, str]], object],
    *,
    only_idle: bool = False,
) -> dict[str, str]:
    """Change the metadata of an instance as recorded now.

    Saving an instance replaces all of its metadata. Therefore load it again,
    so as not to lose what others have written meanwhile.

    :param edit: Changes the metadata in place.
    :param only_idle: Whether to change it only if the instance has no task:
        whoever is not part of the task may overwrite what that writes.
    :returns: The changed metadata.
    :raises nova.exception.UnexpectedTaskStateError: It has a task.
    """
    instance = objects.Instance.get_by_uuid(
        nova_context.get_admin_context(),
        uuid,
        expected_attrs=['system_metadata'],
    )
    edit(instance.system_metadata)
    record_changes.save_metadata(instance, only_idle=only_idle)
    return dict(instance.system_metadata)
