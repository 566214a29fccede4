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
archived. An instance names only its last devices: no record has those from
before a move or an unshelve.
"""

import datetime
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import instance_actions
from nova.objects import fields

from nova_powervm.devices import one_time_use
from nova_powervm.virt import instance_records

#: Instances that are read to find who had a device.
_MOST = 1000
#: Instances of a project that are read at once, and how often at most.
_PAGE, _PAGES = 200, 50
#: Name of the event that tells the user why a build was refused.
REFUSED = 'powervm_burn_limit'
#: The instance actions in which Nova gives an instance devices, and the event
#: that an action has if it came as far as that; None if it always did for an
#: instance that ever ran.
_GIVE_DEVICES = {
    instance_actions.CREATE: None,
    instance_actions.MIGRATE: 'compute_finish_resize',
    instance_actions.RESIZE: 'compute_finish_resize',
    instance_actions.UNSHELVE: 'compute_unshelve_instance',
}
_MOVES = (fields.MigrationType.MIGRATION, fields.MigrationType.RESIZE)
#: Nova's result of an event that has failed.
_FAILED = 'Error'
#: The longest time that an action takes to give devices.
_LONGEST = datetime.timedelta(hours=1)


def read_holders(
    nodename: str,
    providers: Collection[str],
    read: Callable[..., Any] | None = None,
) -> Mapping[str, one_time_use.Holder]:
    """Find the last holders of devices, with two requests.

    The second request is for instances without a host: they are shelved, or
    their build has failed. Nova's conductor does not filter by time.

    :param nodename: As in ``instance.host``.
    :param providers: The uuids of the providers.
    :param read: Asks Nova's conductor for a list of instances; None to ask as
        nova-compute does.
    :returns: Provider uuid to holder, without providers that no record names.
    """
    read = read or objects.InstanceList.get_by_filters
    return one_time_use.find_last(
        (
            to_holder(instance)
            for place in (nodename, None)
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


def to_holder(instance: Any) -> one_time_use.Holder:
    """Describe an instance with the devices that it had last.

    :param instance: nova.objects.Instance with its resources.
    """
    return one_time_use.Holder(
        instance_uuid=instance.uuid,
        project=instance.project_id,
        providers=frozenset(instance_records.stored_slots(instance.resources)),
        since=(instance.launched_at or instance.created_at).timestamp(),
        until=instance.deleted_at.timestamp() if instance.deleted else None,
        has_run=instance.launched_at is not None,
    )


def changed_since(
    since: datetime.datetime, **filters: str
) -> Iterator[one_time_use.Holder]:
    """Yield instances that have changed, the last change first.

    :param filters: As for Nova's list of instances.
    """
    instances = _read_pages(
        lambda marker: objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(read_deleted='yes'),
            dict(filters),
            sort_key='updated_at',
            sort_dir='desc',
            limit=_PAGE,
            marker=marker,
            expected_attrs=['resources'],
        ),
        'uuid',
    )
    for instance in itertools.islice(instances, _PAGE * _PAGES):
        if (instance.updated_at or instance.created_at) < since:
            return
        yield to_holder(instance)


def _read_pages(
    read: Callable[[str | None], Sequence[Any]], field: str
) -> Iterator[Any]:
    """Yield records, a page at a time.

    :param read: Reads the page behind a marker, or the first one for None.
    :param field: The name of the field that marks a record.
    """
    marker = None
    while True:
        page = read(marker)
        yield from page
        if len(page) < _PAGE:
            return
        marker = getattr(page[-1], field)


def moved_since(
    since: datetime.datetime, nodename: str, project: str
) -> frozenset[str]:
    """Return the instances that began to move to or from a host.

    :param project: The id of their project.
    """
    moves = objects.MigrationList.get_by_filters(
        nova_context.get_admin_context(read_deleted='yes'),
        {'host': nodename, 'project_id': project},
        limit=_PAGE,
    )
    return frozenset(
        move.instance_uuid
        for move in moves
        if move.created_at >= since and move.migration_type in _MOVES
    )


def count_device_actions(
    since: datetime.datetime, instance_uuid: str, *, burned: bool
) -> int:
    """Count the instance actions that may have given an instance devices.

    An action that failed before it gave devices does not count. Its events
    tell, with a request for each action, but not its message: that stays an
    error if one host has refused and the next one has built. If the actions
    fill more than a page, which no ordinary use does, all of them count.

    :param since: Actions that ended earlier do not count.
    :param instance_uuid: The uuid of an instance that has run.
    :param burned: Whether a device in its record is burned. If not, an
        unshelve that failed has burned none.
    """
    actions = [
        action
        for action in _actions_since(since - _LONGEST, instance_uuid)
        if action.action in _GIVE_DEVICES
        and (action.updated_at or action.start_time) >= since
    ]
    if len(actions) > _PAGE:
        return len(actions)
    return sum(_may_give_devices(action, burned=burned) for action in actions)


def _actions_since(
    since: datetime.datetime, instance_uuid: str
) -> Iterator[Any]:
    """Yield the actions of an instance, the last one first.

    Nova's conductor does not filter by time. There is no limit, because a user
    who may lock a server can add any number of actions.
    """
    actions = _read_pages(
        lambda marker: objects.InstanceActionList.get_by_instance_uuid(
            nova_context.get_admin_context(read_deleted='yes'),
            instance_uuid,
            limit=_PAGE,
            marker=marker,
        ),
        'request_id',
    )
    return itertools.takewhile(lambda a: a.start_time >= since, actions)


def _may_give_devices(action: Any, *, burned: bool) -> bool:
    """Return whether an action has given devices, or still may."""
    event = _GIVE_DEVICES[action.action]
    if event is None:
        return True
    records = objects.InstanceActionEventList.get_by_action(
        nova_context.get_admin_context(read_deleted='yes'), action.id
    )
    results = {record.event: record.result for record in records}
    if _FAILED not in results.values():
        return True
    if action.action == instance_actions.UNSHELVE and not burned:
        return False
    return event in results and REFUSED not in results
