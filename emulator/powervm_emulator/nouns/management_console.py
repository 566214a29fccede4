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

"""The management console: of NovaLink, the partition that serves this API.

It keeps the keys of those who may log on to it, which is how hosts trust
each other with migrations.
"""

import base64
import hashlib
import uuid as uuid_module
from collections.abc import Iterable

from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import groups as groups_module
from powervm_emulator.core import host as host_module
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import shapes
from powervm_emulator.nouns.managed_system import model as managed_system

Element = content.Element
Host = host_module.Host
KIND = 'ManagementConsole'
_KEYS = 'AuthorizedKeys'
_KEY = f'{_KEYS}/AuthorizedKey'


def build(
    host: Host, _parent: None, described: Iterable[resource.JSON]
) -> None:
    """Build the console of a world."""
    for spec in described:
        if 'capture' in spec:
            found = captures.find(spec['capture'], KIND)
            uuid, element = found.uuid, found.element
        else:
            system = next(host.of_type(managed_system.System))
            space = uuid_module.UUID(system.uuid)
            uuid = str(uuid_module.uuid3(space, KIND))
            element = _element(system, spec.get('name', 'localhost'), uuid)
            if host.behaviour.hmc:
                _make_hmc(host, element)
        host.add(resource.Resource(KIND, uuid, element))


def public_keys(host: Host) -> set[str]:
    """Return the key that a host logs on to others with."""
    return {one.text('PublicSSHKey') for one in host.all(KIND)}


def authorized_keys(host: Host) -> set[str]:
    """Return the keys of those who may log on to a host."""
    return {
        str(node.text or '').strip()
        for one in host.all(KIND)
        for node in content.find_all(one.element, _KEY)
    }


def update(
    host: Host,
    console: resource.Resource,
    body: Element,
    _groups: groups_module.Groups,
) -> None:
    """Give a console the authorized keys of a posted body, and nothing else.

    :raises errors.Refused: one is no key.
    """
    for node in content.find_all(body, _KEY):
        text = str(node.text or '').strip()
        if len(text.split(maxsplit=2)) < 2 or not text.isprintable():
            raise errors.Refused(f'{text!r} is not a key for {_KEYS}.')
    names = {content.local_name(child) for child in (*body, *console.element)}
    content.keep(body, console.element, sorted(names - {_KEYS}))
    elements.sort(body)
    console.element = body
    host.touch(console)


def _element(system: managed_system.System, name: str, uuid: str) -> Element:
    data = b'\0\0\0\7ssh-rsa' + hashlib.sha512(uuid.encode()).digest()
    key = f'ssh-rsa {base64.b64encode(data).decode()} {name}'
    made = content.new(
        KIND,
        content.copy(content.section(system.element, managed_system.MTMS)),
        content.leaf('ManagedFrames'),
        content.leaf('ManagedSystems'),
        content.leaf('ManagementConsoleName', name),
        content.new('NetworkInterfaces'),
        content.leaf('PowerEnterprisePools'),
        content.leaf('PublicSSHKey', key),
        content.new(_KEYS),
    )
    elements.sort(made)
    return made


def _make_hmc(host: Host, console: Element) -> None:
    """Make a console that of an HMC, which is another machine than a host."""
    content.remove(console, [_KEYS, managed_system.MTMS])
    systems = content.section(console, 'ManagedSystems')
    for system in host.of_type(managed_system.System):
        systems.append(content.link(system.event_path))
    version, _, release = host.behaviour.hmc[1:].partition('R')
    info = {'Minor': '0', 'Release': release, 'Version': version}
    console.append(
        content.new(
            'VersionInfo', *(content.leaf(n, v) for n, v in info.items())
        )
    )
    console.append(content.leaf('BaseVersion', host.behaviour.hmc))
    elements.sort(console)


_SCHEMA: resource.JSON = shapes.record(
    {
        'capture': shapes.ref('capture'),
        'name': shapes.text('ManagementConsoleName.'),
    },
    'What serves this API; without it one named localhost.',
)
NOUN = noun.Noun(
    KIND,
    parents=(noun.ROOT,),
    update=update,
    world=noun.WorldKey(
        'management_consoles',
        (),
        _SCHEMA,
        captured=('name',),
        build=build,
        default=({},),
    ),
)
