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
"""Nova's records of the instances that had devices.

Nova keeps a deleted instance with its project and its devices until it is
archived. An instance names the devices that it had last: what it had before a
move or an unshelve is in no record.
"""

import datetime
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import instance_actions
from nova.objects import fields

from nova_powervm.devices import burners
from nova_powervm.virt import instance_records

#: Instances that are read to find who had a device.
_MOST = 1000
#: Instances of a project that are read at once, and how often at most.
_PAGE, _PAGES = 200, 50
#: The actions of users in which an instance gets devices.
_GIVING = (
    instance_actions.CREATE,
    instance_actions.MIGRATE,
    instance_actions.RESIZE,
    instance_actions.UNSHELVE,
)
_MOVES = (fields.MigrationType.MIGRATION, fields.MigrationType.RESIZE)
#: Nova's message of an action that has failed.
_FAILED = 'Error'


def read_holders(
    host: str,
    providers: Collection[str],
    read: Callable[..., Any] | None = None,
) -> Mapping[str, burners.Holder]:
    """Find the last holders of devices, with two requests, or none for none.

    The second is for instances without a host: they are shelved, or their
    build has failed. Nova's conductor takes no times as filters.

    :param host: As in ``instance.host``.
    :param providers: The uuids of the providers.
    :param read: Asks Nova's conductor for a list of instances; None to do it
        as nova-compute does.
    :returns: Provider uuid to holder, without those that no record names.
    """
    read = read or objects.InstanceList.get_by_filters
    return burners.find_last(
        (
            to_holder(instance)
            for place in (host, None)
            if providers
            for instance in read(
                nova_context.get_admin_context(read_deleted='yes'),
                {'host': place},
                sort_key='launched_at',
                sort_dir='desc',
                limit=_MOST,
                expected_attrs=['resources'],
            )
        ),
        providers,
    )


def to_holder(instance: Any) -> burners.Holder:
    """Describe an instance with the devices that it had last.

    :param instance: nova.objects.Instance with its resources.
    """
    return burners.Holder(
        instance_uuid=instance.uuid,
        project=instance.project_id,
        providers=frozenset(instance_records.stored_slots(instance.resources)),
        since=(instance.launched_at or instance.created_at).timestamp(),
        until=instance.deleted_at.timestamp() if instance.deleted else None,
        has_run=instance.launched_at is not None,
    )


def changed_since(
    since: datetime.datetime, **filters: str
) -> Iterator[burners.Holder]:
    """Yield instances that have changed, the last change first.

    :param filters: As for Nova's list of instances.
    """
    marker = None
    for _ in range(_PAGES):
        page = objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(read_deleted='yes'),
            dict(filters),
            sort_key='updated_at',
            sort_dir='desc',
            limit=_PAGE,
            marker=marker,
            expected_attrs=['resources'],
        )
        for instance in page:
            if (instance.updated_at or instance.created_at) < since:
                return
            yield to_holder(instance)
        if len(page) < _PAGE:
            return
        marker = page[-1].uuid


def moved_since(
    since: datetime.datetime, host: str, project: str
) -> frozenset[str]:
    """Return the instances that began to move to or from a host.

    :param project: The id of their project.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {'host': host, 'project_id': project},
        limit=_PAGE,
    )
    return frozenset(
        move.instance_uuid
        for move in moves
        if move.created_at >= since and move.migration_type in _MOVES
    )


def count_gifts(since: datetime.datetime, instance_uuid: str) -> int:
    """Count the actions in which an instance may have got devices.

    An action that has failed does not count: nearly all fail before a device
    is burned.
    """
    actions = objects.InstanceActionList.get_by_instance_uuid(
        nova_context.get_admin_context(read_deleted='yes'),
        instance_uuid,
        limit=_PAGE,
    )
    return sum(
        action.action in _GIVING
        and action.start_time >= since
        and action.message != _FAILED
        for action in actions
    )
