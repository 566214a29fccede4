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

"""Every URI of the emulated REST API, and who answers it."""

import dataclasses
from collections.abc import Callable

from nova_powervm.emulator import exchange
from nova_powervm.emulator import routes_network
from nova_powervm.emulator.handlers import children
from nova_powervm.emulator.handlers import events
from nova_powervm.emulator.handlers import files
from nova_powervm.emulator.handlers import jobs
from nova_powervm.emulator.handlers import logon
from nova_powervm.emulator.handlers import partition
from nova_powervm.emulator.handlers import resources
from nova_powervm.emulator.handlers import volumes
from nova_powervm.emulator.state import files as files_state
from nova_powervm.emulator.state import partition as partition_state
from nova_powervm.emulator.state import system as system_state
from nova_powervm.emulator.state import volumes as volumes_state

SYSTEM = system_state.KIND
LPAR = partition_state.LPAR
VIOS = partition_state.VIOS
VOLUME_GROUP = volumes_state.KIND
FILE = files_state.KIND

UOM = '/rest/api/uom'
WEB = '/rest/api/web'
UNDER_SYSTEM = f'{UOM}/{SYSTEM}/<system>'
UNDER_VIOS = f'{UOM}/{VIOS}/<vios>'


@dataclasses.dataclass(frozen=True)
class Route:
    """One row of the route table.

    :ivar rule: the path, with Werkzeug's placeholders; they are the
        handler's keyword arguments.
    :ivar label: names the route in the journal and for faults.
    :ivar needs_session: False for what opens a session.
    :ivar streams: the handler reads the body itself and takes the host's
        lock when it needs it.
    """

    method: str
    rule: str
    handler: Callable[..., exchange.Answer]
    label: str
    needs_session: bool = True
    streams: bool = False


def _reading(kind: str, base: str) -> tuple[Route, ...]:
    """Return the rows that let clients read a kind of resource."""
    root = f'{base}/{kind}'
    one = f'{root}/<uuid>'
    quick = resources.quick(kind)
    label = f'{kind}.quick'
    return (
        Route('GET', root, resources.feed(kind), f'{kind}.feed'),
        Route('GET', f'{root}/quick/All', resources.quick_all(kind), label),
        Route('GET', one, resources.entry(kind), f'{kind}.read'),
        Route('GET', f'{one}/quick', quick, label),
        Route('GET', f'{one}/quick/<name>', quick, label),
    )


def _operating(kind: str, base: str) -> tuple[Route, ...]:
    """Return the rows that let clients start jobs of a kind of resource."""
    rule = f'{base}/{kind}/<uuid>/do/<operation>'
    return (
        Route('GET', rule, jobs.template(kind), f'{kind}.job_template'),
        Route('PUT', rule, jobs.submit(kind), f'{kind}.job'),
    )


def _searching(kind: str) -> tuple[Route, ...]:
    rule = f'{UOM}/{kind}/search/<path:expression>'
    return (Route('GET', rule, resources.search(kind), f'{kind}.search'),)


def _transferring() -> tuple[Route, ...]:
    """Return the rows that move bytes to and from disks and media."""
    root = f'{WEB}/{FILE}'
    contents = f'{root}/contents/<uuid>'
    label = f'{FILE}.upload'
    return (
        Route('GET', root, files.feed, f'{FILE}.feed'),
        Route('PUT', root, files.create, f'{FILE}.create'),
        Route('GET', f'{root}/<uuid>', files.entry, f'{FILE}.read'),
        Route('DELETE', f'{root}/<uuid>', files.delete, f'{FILE}.delete'),
        Route('GET', contents, files.download, f'{FILE}.download'),
        Route('PUT', contents, files.upload, label, streams=True),
        Route('POST', contents, files.upload, label, streams=True),
    )


def _writing(kind: str, base: str) -> tuple[Route, ...]:
    """Return the rows that let clients change partitions."""
    root = f'{base}/{kind}'
    one = f'{root}/<uuid>'
    return (
        Route('PUT', root, partition.create(kind), f'{kind}.create'),
        Route('POST', one, partition.update(kind), f'{kind}.update'),
        Route('DELETE', one, partition.delete(kind), f'{kind}.delete'),
    )


def _children(noun: routes_network.Noun) -> tuple[Route, ...]:
    """Return the rows of a kind that is there only as children."""
    parent, kind, make, change, remove = noun
    root = f'{UOM}/{parent}/<parent>/{kind}'
    one = f'{root}/<uuid>'
    return (
        Route('GET', root, children.feed(parent, kind), f'{kind}.feed'),
        Route('GET', one, children.entry(parent, kind), f'{kind}.read'),
        Route(
            'PUT', root, children.create(parent, kind, make), f'{kind}.create'
        ),
        Route(
            'POST',
            one,
            children.update(parent, kind, change),
            f'{kind}.update',
        ),
        Route(
            'DELETE',
            one,
            children.delete(parent, kind, remove),
            f'{kind}.delete',
        ),
    )


ROUTES: tuple[Route, ...] = (
    Route('PUT', f'{WEB}/Logon', logon.logon, 'Logon.create', False),
    Route('DELETE', f'{WEB}/Logon', logon.logoff, 'Logon.delete'),
    *_reading(SYSTEM, UOM),
    *_searching(SYSTEM),
    *_operating(SYSTEM, UOM),
    *_reading(LPAR, UOM),
    *_searching(LPAR),
    *_writing(LPAR, UOM),
    *_operating(LPAR, UOM),
    *_reading(LPAR, UNDER_SYSTEM),
    *_writing(LPAR, UNDER_SYSTEM),
    *_operating(LPAR, UNDER_SYSTEM),
    *_reading(VIOS, UOM),
    *_searching(VIOS),
    *_writing(VIOS, UOM),
    *_operating(VIOS, UOM),
    *_reading(VIOS, UNDER_SYSTEM),
    *_writing(VIOS, UNDER_SYSTEM),
    *_operating(VIOS, UNDER_SYSTEM),
    Route(
        'GET',
        f'{UNDER_VIOS}/{VOLUME_GROUP}',
        volumes.feed,
        f'{VOLUME_GROUP}.feed',
    ),
    Route(
        'GET',
        f'{UNDER_VIOS}/{VOLUME_GROUP}/<uuid>',
        volumes.entry,
        f'{VOLUME_GROUP}.read',
    ),
    Route(
        'POST',
        f'{UNDER_VIOS}/{VOLUME_GROUP}/<uuid>',
        volumes.update,
        f'{VOLUME_GROUP}.update',
    ),
    *_transferring(),
    *(row for noun in routes_network.NOUNS for row in _children(noun)),
    Route('GET', f'{UOM}/jobs/<job_id>', jobs.read, 'Job.read'),
    Route('DELETE', f'{UOM}/jobs/<job_id>', jobs.delete, 'Job.delete'),
    Route('POST', f'{UOM}/jobs/<job_id>/cancel', jobs.cancel, 'Job.cancel'),
    Route('GET', f'{UOM}/Event', events.poll, 'Event.feed'),
    Route('PUT', f'{UOM}/Event', events.create, 'Event.create'),
)
