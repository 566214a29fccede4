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

"""Keeps steps apart that change the LPAR of the same instance.

While a server moves, an administrator can set its state, and its user can
then reboot it hard. While it is rescued or rebuilt, its user can delete it.
Nova has a lock for a build, an unshelve, a reboot and a deletion, but not for
these.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from oslo_concurrency import lockutils

from nova_powervm import exception


@contextlib.contextmanager
def alone(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance, whatever Nova records of it by now.

    :param instance: nova.objects.Instance.
    """
    with lockutils.lock(f'powervm-{instance.uuid}'):
        yield


@contextlib.contextmanager
def undeleted(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance that nobody is deleting.

    :param instance: nova.objects.Instance.
    :raises nova.exception.InstanceNotFound: Somebody is, or has deleted it.
    """
    with alone(instance):
        record = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), instance.uuid
        )
        if record.task_state == task_states.DELETING:
            raise nova_exception.InstanceNotFound(instance_id=instance.uuid)
        yield


@contextlib.contextmanager
def unchanged(instance: Any) -> Iterator[None]:
    """Hold the lock of an instance that is still what Nova has handed over.

    :param instance: nova.objects.Instance.
    :raises exception.InstanceChanged: By Nova's present record, it is on
        another host or in another move.
    :raises nova.exception.InstanceNotFound: It was deleted.
    """
    with alone(instance):
        record = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            instance.uuid,
            expected_attrs=['migration_context'],
        )
        _compare(instance, 'host', instance.host, record.host)
        _compare(instance, 'migration', _move(instance), _move(record))
        yield


def _compare(instance: Any, what: str, known: Any, present: Any) -> None:
    if known != present:
        raise exception.InstanceChanged(
            instance_uuid=instance.uuid,
            what=what,
            known=known,
            present=present,
        )


def _move(instance: Any) -> int | None:
    """Return the id of the migration that an instance is in."""
    context = instance.migration_context
    return None if context is None else context.migration_id
