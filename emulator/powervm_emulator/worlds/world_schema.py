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

"""The JSON schema of world documents, which the nouns make up."""

import copy
from typing import Any

from powervm_emulator import nouns
from powervm_emulator.core import shapes

_DEFINITIONS: dict[str, Any] = {
    'name': shapes.text(maxLength=31),
    'uuid': shapes.value(
        'string',
        pattern='^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
    ),
    'uuid_or_random': {
        'description': (
            'A uuid, or random for one that is made from the seed. The '
            "default is the capture's, and random without capture."
        ),
        'anyOf': [{'const': 'random'}, shapes.ref('uuid')],
    },
    'drc_index': shapes.value(
        'string',
        'A DRC index: eight hexadecimal digits, in quotes.',
        pattern='^[0-9a-fA-F]{8}$',
    ),
    'pci_id': shapes.value(
        ['string', 'null'],
        'A PCI id: four hexadecimal digits, in quotes. Null for one that the '
        'system does not report.',
        pattern='^[0-9a-fA-F]{4}$',
    ),
    'capture': shapes.record(
        {
            'document': shapes.text(
                'The content of the entry itself, as powervm-emulator record '
                'writes it; instead of file.'
            ),
            'uuid': shapes.ref(
                'uuid', 'The id of the entry with this content.'
            ),
            'file': shapes.text(
                'A name in pypowervm/tests/data, or a path, which has a '
                'slash. Relative paths start at the folder of the world file.'
            ),
            'entry': shapes.value(
                'integer',
                "Which entry of the file's feed, counted from 0, the default.",
                minimum=0,
            ),
            'name': shapes.text(
                'The name of the resource, such as SystemName; instead of '
                'entry.'
            ),
            'slots': shapes.array(
                shapes.ref('drc_index'),
                'For a system: the captured slots to keep, by DRC index. '
                'Without it all of them are kept.',
            ),
            'correct_ids': shapes.boolean(
                'For a system: put right the PCI vendor and device ids of '
                'captured slots, which old NovaLink servers reported '
                'wrongly. The default is false: as captured.'
            ),
        },
        'A captured resource; the other keys change it.',
    )
    | {
        'if': {'required': ['document']},
        'then': {'required': ['uuid']},
        'else': {'required': ['file']},
    },
    'vlan': shapes.value('integer', minimum=1, maximum=4094),
    'gigabytes': shapes.value('number', 'GB.', exclusiveMinimum=0),
}

_WORLD: dict[str, Any] = {
    '$schema': 'https://json-schema.org/draft/2020-12/schema',
    'title': 'World of the PowerVM REST emulator',
} | shapes.record(
    {
        'rmc_after_power_on': shapes.choice(
            ['active', 'inactive', 'none', 'unknown', 'busy'],
            'The RMC state of a partition that has been activated. The '
            'default, inactive, is that of a guest without the RSCT '
            'packages. A VIOS always becomes active. With active, each '
            'guest answers by a network of its own.',
        ),
        'guests_have_rsct': shapes.boolean(
            'Whether guests have the RSCT packages: one that starts becomes '
            'active if it has an adapter on VLAN 4094 of MGMTSWITCH, and a '
            'config drive that names the adapter. The default is false; '
            'AIX always has them.'
        ),
        'guests_configure_rmc': shapes.boolean(
            'Whether guests with the RSCT packages configure that adapter '
            'without a config drive. The default is false.'
        ),
        'hmc': shapes.value(
            'string',
            'The version of an HMC that serves the API, such as V10R3. By '
            'default, a NovaLink partition does. An HMC is for '
            'nova-powervm-check, which reads it: see the page on behavior.',
            pattern='^V[0-9]+R[0-9]+$',
        ),
        'residue': shapes.value(
            'string',
            'What deleted disks have left where a volume group makes a disk, '
            'or enlarges one. By default, there are zeros.',
        ),
    },
    "What the emulator's host is when it starts.",
    required=['systems'],
)


def schema() -> dict[str, Any]:
    """Return the JSON schema of world documents."""
    described = {
        noun.kind: copy.deepcopy(dict(noun.world.schema))
        for noun in nouns.NOUNS
        if noun.world
    }
    world = copy.deepcopy(_WORLD) | {'$defs': _DEFINITIONS}
    for noun in nouns.NOUNS:
        if noun.world is None:
            continue
        resources = {'type': 'array', 'items': described[noun.kind]}
        for kind in noun.world.holders:
            described[kind]['properties'][noun.world.name] = resources
        if not noun.world.holders:
            world['properties'][noun.world.name] = resources | {'minItems': 1}
    return world
