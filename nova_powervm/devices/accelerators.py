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

"""Cyborg's part: its accelerator requests (ARQs), and its own file of slots.

Nova passes the requests. Cyborg's file has the form of Nova's inventory file
and the same rules, with one more: a device that is withheld after its first
use needs Nova.
"""

import dataclasses
import re
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots

#: The flavor's extra spec that names a device profile of Cyborg's.
PROFILE = 'accel:device_profile'
#: The key of the slot in the information of a PCI attach handle.
SLOT_KEY = 'drc_index'

_BOUND = 'Bound'
# The states of a request that Cyborg is still working on.
_BINDING = frozenset({'Initial', 'BindStarted'})
_PCI_HANDLE = 'PCI'
# Cyborg's fake driver creates these (specification, "Developer impact").
_TEST_HANDLE = 'TEST_PCI'
_DRC_INDEX = re.compile('[0-9A-Fa-f]{8}')


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """An accelerator request that is bound to an instance.

    :param uuid: Its uuid in Cyborg.
    :param provider_uuid: The provider it is bound to, if Cyborg reports one.
    :param drc_index: The slot that it provides; None for a request of type
        TEST_PCI, which provides nothing.
    """

    uuid: str
    provider_uuid: str | None
    drc_index: int | None


def parse(
    instance_uuid: str,
    nodename: str,
    profile: str | None,
    accel_info: Sequence[Mapping[str, Any]] | None,
) -> tuple[Request, ...]:
    """Read the requests of an instance.

    :param instance_uuid: The instance's uuid.
    :param nodename: The compute node's name. DRC indexes are not unique across
        hosts, so a request that is bound on another host is refused.
    :param profile: The device profile that the flavor names, or None.
    :param accel_info: As Nova passes it; None and an empty list are the same.
    :returns: One object for each request, in the order given.
    :raises exception.AcceleratorRefused: A request cannot be used; the message
        gives the reason for each. Also raised if there is no request although
        the flavor has a profile: no instance runs without the devices that it
        was promised.
    """
    if profile and not accel_info:
        raise exception.AcceleratorRefused(
            instance_uuid=instance_uuid,
            reason=f"its flavor names device profile '{profile}', but Nova "
            'passed no accelerator request for it',
        )
    requests: list[Request] = []
    problems: list[str] = []
    for item in accel_info or ():
        problem = next(_problems(item, instance_uuid, nodename), None)
        if problem:
            problems.append(f'{_label(item)} {problem}')
        else:
            requests.append(_request(item))
    problems += _duplicates(requests)
    if problems:
        raise exception.AcceleratorRefused(
            instance_uuid=instance_uuid,
            reason=exception.Listing(problems, '; '),
        )
    return tuple(requests)


def to_claims(requests: Iterable[Request]) -> tuple[claims.Claim, ...]:
    """Return the claims of requests; TEST_PCI requests have none."""
    return tuple(
        claims.Claim(
            provider_uuid=request.provider_uuid,
            drc_index=request.drc_index,
            source=claims.Source.ACCELERATOR,
            request=request.uuid,
        )
        for request in requests
        if request.drc_index is not None
    )


def refuse_lost(
    instance_uuid: str,
    built_with: Collection[int],
    requests: Iterable[Request],
) -> None:
    """Refuse to go on with fewer accelerators than an instance was built with.

    Nova finds only the requests that are bound to the instance, and does not
    report a request that was unbound or deleted.

    :param instance_uuid: The instance's uuid, for messages.
    :param built_with: DRC indexes of the accelerators that it was built with.
        A request may have been bound to another slot since, so only their
        number counts.
    :param requests: Its accelerator requests.
    :raises exception.AcceleratorRefused: There are fewer slots in the
        requests.
    """
    present = {request.drc_index for request in requests} - {None}
    if len(present) >= len(built_with):
        return
    lost = {*built_with} - present
    raise exception.AcceleratorRefused(
        instance_uuid=instance_uuid,
        reason=exception.Listing(
            map(slots.format_drc_index, sorted(lost)),
            before=f'Cyborg has bound {len(present)} of its {len(built_with)} '
            f'accelerators. No request is bound to slot'
            f'{"s" if len(lost) > 1 else ""} ',
            after='. Bind all of them again, or create a new server',
        ),
    )


def is_binding(accel_info: Sequence[Any] | None) -> bool:
    """Return whether Cyborg is still binding requests and none has failed.

    :param accel_info: As Nova passes it, or as Cyborg's API returns it.
    """
    states = {
        item.get('state')
        for item in accel_info or ()
        if isinstance(item, Mapping)
    }
    return bool(states & _BINDING) and states <= {_BOUND, *_BINDING}


def refuse_nova_devices(
    instance_uuid: str,
    requests: Iterable[Request],
    providers: Iterable[claims.SlotProvider],
) -> None:
    """Refuse requests for devices that Nova manages.

    :param instance_uuid: The instance's uuid, for messages.
    :param requests: Its accelerator requests.
    :param providers: The driver's own providers on this host.
    :raises exception.AcceleratorRefused: For each conflict, the message has
        the remedy and then both sides.
    """
    conflicts = describe_conflicts(requests, providers)
    if conflicts:
        raise exception.AcceleratorRefused(
            instance_uuid=instance_uuid,
            reason=exception.Listing(conflicts, '; '),
        )


def describe_conflicts(
    requests: Iterable[Request], providers: Iterable[claims.SlotProvider]
) -> list[str]:
    """Describe the requests for devices that Nova manages, and the remedy.

    A request is bound to one of the driver's own providers if its device
    profile asks for a resource class only: the scheduler then picked a device
    that Nova manages.

    :param requests: Accelerator requests.
    :param providers: The driver's own providers on this host.
    """
    by_slot: dict[int | None, claims.SlotProvider] = {}
    by_uuid: dict[str | None, claims.SlotProvider] = {}
    for provider in providers:
        by_slot[provider.drc_index] = by_uuid[provider.uuid] = provider
    conflicts = []
    for request in requests:
        if ours := by_uuid.get(request.provider_uuid):
            # Nova truncates faults, so the remedy comes first.
            conflicts.append(
                'its device profile lacks "trait:CUSTOM_<marker>=required" of '
                f"Cyborg's devices, and took {_place(ours)}, which is Nova's: "
                f'{_name(request.uuid)}, {ours.uuid}'
            )
        elif ours := by_slot.get(request.drc_index):
            conflicts.append(
                f'{_place(ours)} is from Cyborg, but Nova manages it, too: an '
                'operator has to remove it from one: '
                f'{_name(request.uuid)}, {ours.uuid}'
            )
    return conflicts


def _name(request: object) -> str:
    return f'accelerator request {request}'


def _place(provider: claims.SlotProvider) -> str:
    return f'slot {slots.format_drc_index(provider.drc_index)}'


def _label(item: object) -> str:
    return _name(item.get('uuid') if isinstance(item, Mapping) else None)


def _problems(
    item: object, instance_uuid: str, nodename: str
) -> Iterator[str]:
    """Yield the reasons why a request cannot be used, the plainest first."""
    if not isinstance(item, Mapping) or not item.get('uuid'):
        yield f'is not a valid request: {item!r:.80}'
        return
    state = item.get('state')
    if state in _BINDING:
        yield (
            f"is not bound yet, its state is '{state}'. Try again when it "
            "is; see Cyborg's log if it stays so"
        )
    if state != _BOUND:
        yield f"is not bound, its state is '{state}'. See Cyborg's log"
    owner = item.get('instance_uuid')
    if owner and str(owner) != instance_uuid:
        yield f'is bound to another instance, {owner}'
    host = item.get('hostname')
    if host and str(host) != nodename:
        yield f'is bound on host {host}, not on {nodename}'
    yield from _handle_problems(
        item.get('attach_handle_type'), item.get('attach_handle_info')
    )


def _handle_problems(kind: object, info: object) -> Iterator[str]:
    if kind == _TEST_HANDLE:
        return
    if kind != _PCI_HANDLE:
        yield (
            f"has an attach handle of type '{kind}'; PowerVM has no such "
            f'devices, only {_PCI_HANDLE} can be attached'
        )
    elif not isinstance(info, Mapping) or SLOT_KEY not in info:
        yield (
            f'has an attach handle without {SLOT_KEY}; no Cyborg '
            'driver for PowerVM created it'
        )
    elif not _DRC_INDEX.fullmatch(str(info[SLOT_KEY])):
        yield (
            f"has {SLOT_KEY} '{info[SLOT_KEY]!s:.40}', which is not eight "
            'hexadecimal digits'
        )


def _request(item: Mapping[str, Any]) -> Request:
    provider = item.get('device_rp_uuid')
    return Request(
        uuid=str(item['uuid']),
        provider_uuid=str(provider) if provider else None,
        drc_index=(
            None
            if item['attach_handle_type'] == _TEST_HANDLE
            else int(str(item['attach_handle_info'][SLOT_KEY]), 16)
        ),
    )


def _duplicates(requests: Sequence[Request]) -> Iterator[str]:
    first: dict[int, str] = {}
    for request in requests:
        index = request.drc_index
        if index is None:
            continue
        other = first.setdefault(index, request.uuid)
        if other != request.uuid:
            yield (
                f'accelerator requests {other} and {request.uuid} both name '
                f'slot {slots.format_drc_index(index)}'
            )


@dataclasses.dataclass(frozen=True, slots=True)
class SharedSlot:
    """A slot that both files give away; each service then withholds it.

    :param slot: The slot.
    :param paragraph: The paragraph of Cyborg's file that identifies it.
    :param nova_paragraph: The paragraph of Nova's inventory file.
    """

    slot: slots.Slot
    paragraph: policies.Paragraph
    nova_paragraph: policies.Paragraph


def one_time_use_paragraphs(
    policy: policies.Policy,
) -> tuple[policies.Paragraph, ...]:
    """Return the paragraphs that Cyborg's file must not have.

    Cyborg offers a device again as soon as its server is deleted, so it cannot
    keep a one-time-use device out of reach.

    :param policy: The content of Cyborg's file.
    :returns: In the order of the file.
    """
    return tuple(p for p in policy.paragraphs if p.allow and p.one_time_use)


def find_shared_slots(
    policy: policies.Policy,
    nova_policy: policies.Policy,
    host_slots: Collection[slots.Slot],
) -> tuple[SharedSlot, ...]:
    """Find the slots that both files give away, whoever owns them.

    :param policy: The content of Cyborg's file.
    :param nova_policy: The content of Nova's inventory file.
    :param host_slots: All slots of the host.
    :returns: In the order of the host's slots.
    """
    by_cyborg = _given_away(policy, host_slots)
    by_nova = _given_away(nova_policy, host_slots)
    shared = by_cyborg.keys() & by_nova.keys()
    return tuple(
        SharedSlot(slot, by_cyborg[slot.drc_index], by_nova[slot.drc_index])
        for slot in host_slots
        if slot.drc_index in shared
    )


def _given_away(
    policy: policies.Policy, host_slots: Collection[slots.Slot]
) -> dict[int, policies.Paragraph]:
    """Return the allowing paragraph of each slot that no paragraph denies."""
    return {
        verdict.slot.drc_index: verdict.paragraphs[0]
        for verdict in matching.judge(policy, host_slots)
        if verdict.paragraphs and not verdict.denials
    }
