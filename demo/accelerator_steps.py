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

"""Steps about slots that Cyborg manages."""

import configparser
import dataclasses

from demo import config
from demo import cyborg_client
from demo import display
from demo import expected_providers
from demo import operator_commands
from demo import report
from demo import server_steps
from demo import stack as stack_lib
from demo import step_context

Context = step_context.Context
Outcome = step_context.Outcome

PROFILE = 'crypto-card'
FLAVOR = 'crypto.one'
FLAVOR_BOTH = 'gpu.and.crypto'

_GROUP = {
    f'resources:{step_context.CARD}': '1',
    f'trait:{expected_providers.CYBORG_MARK}': 'required',
}

_ABOUT_MARK = (
    '',
    'Cyborg refuses trait:OWNER_CYBORG, because traits in its profiles must',
    f'begin with CUSTOM_; {expected_providers.CYBORG_MARK} is the mark of the',
    'slots that it offers.',
)

# A server gets one card; another server requests the other one.
_CARDS_NEEDED = 2


def show_accelerators(context: Context) -> Outcome:
    """Show Cyborg's inventory file, which needs free crypto cards."""
    cyborg = configparser.RawConfigParser(strict=False)
    cyborg.read(context.stack.etc / config.CYBORG)
    path = context.stack.accelerator_file
    assert path is not None  # noqa: S101 - for mypy
    offers = expected_providers.offered(
        context.accelerator_paragraphs, context.host.slots()
    )
    context.cards = offers['crypto']
    enough = f'the host has at least {_CARDS_NEEDED} free crypto cards'
    observed = {
        '[powervm]accelerator_file': cyborg['powervm']['accelerator_file'],
        enough: len(context.cards) >= _CARDS_NEEDED,
    }
    expected = {'[powervm]accelerator_file': str(path), enough: True}
    shown = [str(path), '', *path.read_text().splitlines(), '']
    return expected, observed, shown + display.offers(offers)


def check_devices(context: Context) -> Outcome:
    """Compare Cyborg's devices with the slots and the providers."""
    devices = context.cloud.cyborg.devices()
    uuids = {name: uuid for uuid, name in context.provider_names.items()}
    slots = {slot.drc_index: slot for slot in context.host.slots()}
    expected = []
    for index in context.cards:
        name = expected_providers.CYBORG.provider_name(stack_lib.NODE, index)
        expected.append(
            cyborg_client.Device(
                uuid='',
                hostname=stack_lib.NODE,
                vendor=slots[index].properties['vendor_id'],
                model=slots[index].properties['device_id'],
                status='enabled',
                drc_index=index,
                provider=name,
                provider_uuid=uuids.get(name, 'none in Placement'),
            ).document()
        )
    observed = [device.document() for device in devices]
    return expected, observed, display.devices(devices)


def create_profile_and_flavor(context: Context) -> Outcome:
    """Create a device profile for one card, and a flavor that names it."""
    context.cloud.cyborg.create_device_profile(PROFILE, [_GROUP])
    groups = context.cloud.cyborg.groups(PROFILE)
    expected, observed, shown = server_steps.create_flavor(
        context, FLAVOR, {'accel:device_profile': PROFILE}
    )
    pairs = [f'{key}={value}' for key, value in sorted(_GROUP.items())]
    return (
        {'groups': [_GROUP], 'flavor': expected},
        {'groups': groups, 'flavor': observed},
        [f'device profile {PROFILE}', *pairs, '', *shown, *_ABOUT_MARK],
    )


def boot_one_card(context: Context) -> Outcome:
    """Boot a server with a card that Cyborg manages."""
    return _boot(context, 'one-card', FLAVOR, {step_context.CARD: 1})


def boot_gpu_and_card(context: Context) -> Outcome:
    """Boot a server with a GPU of Nova's and a card of Cyborg's."""
    extra_specs = {
        **server_steps.gpu_group(1, expected_providers.OWNER_NOVA),
        'accel:device_profile': PROFILE,
        'group_policy': 'isolate',
    }
    _, _, flavor = server_steps.create_flavor(
        context, FLAVOR_BOTH, extra_specs
    )
    expected, observed, shown = _boot(
        context,
        'gpu-and-card',
        FLAVOR_BOTH,
        {step_context.CARD: 1, step_context.GPU: 1},
    )
    return expected, observed, [*flavor, '', *shown]


def reboot(context: Context) -> Outcome:
    """Verify that a hard reboot leaves the server its card."""
    server = context.servers[0]
    before = read_holdings(context, server)
    context.cloud.reboot_server(server)
    return _compare_after(context, 'reboot', before)


def rebuild(context: Context) -> Outcome:
    """Verify that a rebuild leaves the server its card."""
    assert context.image is not None  # noqa: S101 - for mypy
    server = context.servers[0]
    before = read_holdings(context, server)
    context.cloud.rebuild_server(server, context.image)
    return _compare_after(context, 'rebuild', before)


def _compare_after(
    context: Context, action: str, before: report.Json
) -> Outcome:
    """Compare what the first server has with what it had."""
    server = context.servers[0]
    result = context.cloud.last_action(server)
    expected = {
        'action': {'action': action, 'results': ['Success']},
        **before,
    }
    observed = {'action': result, **read_holdings(context, server)}
    shown = [f'the last action of server {server.name} is {result}', '']
    return expected, observed, shown + _show(context, 0)


def boot_disabled_card(context: Context) -> Outcome:
    """Verify that nobody gets a card whose device is disabled.

    The agent's next report must not enable it again.
    """
    device = _free_device(context)
    context.cloud.cyborg.set_enabled(device, False)
    report_result = operator_commands.report_devices(context.stack)
    disabled = _find_disabled(context)
    expected, observed, shown = server_steps.boot_in_vain(
        context, 'no-card', FLAVOR
    )
    requests = context.cloud.cyborg.requests(context.servers[-1].id)
    expected |= {
        "the agent's report": 0,
        'disabled': {
            'devices': [device.drc_index],
            'providers with reserved 1': [device.drc_index],
        },
        'requests': 0,
    }
    observed |= {
        "the agent's report": report_result.status,
        'disabled': disabled,
        'requests': len(requests),
    }
    devices = display.devices(context.cloud.cyborg.devices())
    return (
        expected,
        observed,
        [*report_result.lines(), '', *devices, '', *shown],
    )


def boot_enabled_card(context: Context) -> Outcome:
    """Verify that a device that is enabled again is given to a server."""
    device = _free_device(context)
    context.cloud.cyborg.set_enabled(device, True)
    expected, observed, shown = _boot(
        context, 'second-card', FLAVOR, {step_context.CARD: 1}
    )
    has_it = f'has {device.drc_index}'
    expected |= {
        'disabled': {'devices': [], 'providers with reserved 1': []},
        has_it: True,
    }
    observed |= {
        'disabled': _find_disabled(context),
        has_it: device.drc_index in observed['slots that the LPAR owns'],
    }
    return expected, observed, shown


def delete_second_card(context: Context) -> Outcome:
    """Verify that deleting the last server releases its card."""
    server = context.servers[-1]
    (card,) = context.find_allocated(server, step_context.CARD)
    context.cloud.delete_server(server)

    def read() -> report.Json:
        return {
            'allocations': context.cloud.allocations(server.id),
            'requests': len(context.cloud.cyborg.requests(server.id)),
            'owner of the card': context.host.owners()[card],
        }

    expected = {'allocations': {}, 'requests': 0, 'owner of the card': None}
    observed = step_context.read_until(expected, read)
    return expected, observed, display.slots(context.host.slots())


def read_holdings(
    context: Context, server: step_context.Server
) -> dict[str, report.Json]:
    """Return what a server has in Nova, Placement, Cyborg and the host."""
    server = context.cloud.server(server.id)
    partition = context.find_partition(server)
    return {
        'server': server.status,
        'fault': server.fault,
        'allocated in Placement': {
            kind: context.find_allocated(server, kind)
            for kind in (step_context.GPU, step_context.CARD)
        },
        'requests in Cyborg': [
            _describe(context, request)
            for request in context.cloud.cyborg.requests(server.id)
        ],
        'LPAR': partition and partition.document(),
        'slots that the LPAR owns': context.host.owned_by(
            server.instance_name
        ),
    }


def _boot(
    context: Context, name: str, flavor: str, wanted: dict[str, int]
) -> Outcome:
    """Boot a server; compare all that knows of its slots.

    :param wanted: resource class -> number of slots.
    """
    server = context.create_server(name, flavor)
    observed = read_holdings(context, server)
    allocated = observed['allocated in Placement']
    slots = sorted(allocated[step_context.GPU] + allocated[step_context.CARD])
    numbers = {kind: len(found) for kind, found in allocated.items() if found}
    expected = {
        'server': 'ACTIVE',
        'fault': '',
        'allocated in Placement': allocated,
        'requests in Cyborg': [
            _bound(card) for card in allocated[step_context.CARD]
        ],
        'LPAR': step_context.expected_lpar(server, slots),
        'slots that the LPAR owns': slots,
        'numbers of slots': wanted,
    }
    shown = _show(context, -1)
    return expected, {**observed, 'numbers of slots': numbers}, shown


def _bound(card: str) -> dict[str, str]:
    """Return the expected request of a server with this card."""
    return {
        'state': 'Bound',
        'device_profile': PROFILE,
        'hostname': stack_lib.NODE,
        'provider': expected_providers.CYBORG.provider_name(
            stack_lib.NODE, card
        ),
        'slot': card,
    }


def _describe(
    context: Context, request: cyborg_client.Request
) -> dict[str, str]:
    """Return a request with the name of its provider, and its slot."""
    document = dataclasses.asdict(request)
    handle, uuid = document.pop('handle'), document.pop('provider_uuid')
    return {
        **document,
        'provider': context.provider_names.get(uuid, uuid),
        'slot': handle.get('drc_index', ''),
    }


def _show(context: Context, position: int) -> list[str]:
    """Return lines about one of the servers, and its requests."""
    server = context.cloud.server(context.servers[position].id)
    lines = display.server(
        server, context.find_partition(server), context.host.slots()
    )
    requests = context.cloud.cyborg.requests(server.id)
    return [
        *lines,
        '',
        'According to Cyborg:',
        *(
            f'request for {found["device_profile"]} is {found["state"]} to '
            f'{found["provider"]}'
            for found in (_describe(context, item) for item in requests)
        ),
    ]


def _free_device(context: Context) -> cyborg_client.Device:
    """Return the device that the first server does not have."""
    taken = context.find_allocated(context.servers[0], step_context.CARD)
    return next(
        device
        for device in context.cloud.cyborg.devices()
        if device.drc_index not in taken
    )


def _find_disabled(context: Context) -> dict[str, list[str]]:
    """Return the slots that are disabled, in Cyborg and in Placement."""
    cloud = context.cloud
    return {
        'devices': [
            device.drc_index
            for device in cloud.cyborg.devices()
            if device.status != 'enabled'
        ],
        'providers with reserved 1': [
            provider.name[-8:]
            for provider in cloud.provider_tree(cloud.compute_node_uuid())
            if provider.inventories.get(step_context.CARD, {}).get('reserved')
        ],
    }
