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

"""Performance monitoring: what a system is to measure."""

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import exchange
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import route
from powervm_emulator.nouns import raw_metrics
from powervm_emulator.nouns.managed_system import model as managed_system

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
_KIND = 'ManagedSystemPcmPreference'
_MONITORS = (
    raw_metrics.LONG_TERM,
    'AggregationEnabled',
    'ShortTermMonitorEnabled',
    raw_metrics.COMPUTE,
)
_SYSTEM = f'/rest/api/pcm/{managed_system.KIND}/<uuid>'


def read(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """GET preferences: a feed of one entry, with the entry's tag."""
    return _answer(call, _preferences(_system(emulation, uuid)))


def update(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """POST preferences: switch the monitors that are posted on or off."""
    system = _system(emulation, uuid)
    found = _preferences(system)
    call.check_current(found)
    body = call.content(_KIND, content.PCM_NS, found.element)
    for name in _MONITORS:
        if content.find(body, name) is not None:
            system.monitors[name] = content.boolean(body, name)
    return _answer(call, _preferences(system))


def _system(emulation: Emulation, uuid: str) -> managed_system.System:
    found = emulation.host.get(managed_system.KIND, uuid)
    assert isinstance(found, managed_system.System)  # noqa: S101 - its kind
    return found


def _preferences(system: managed_system.System) -> resource.Derived:
    element = content.new(_KIND, namespace=content.PCM_NS)
    content.put(element, 'SystemName', system.name)
    for name in ('MachineType', 'Model', 'SerialNumber'):
        value = system.text(f'{managed_system.MTMS}/{name}')
        content.put(element, f'MachineTypeModelSerialNumber/{name}', value)
    for name in _MONITORS:
        content.put(element, name, system.monitors.get(name, False))
    element.append(
        content.link(system.path, 'AssociatedManagedSystem', content.PCM_NS)
    )
    content.identify(element, system.uuid)
    return resource.Derived('preferences', element, system)


def _answer(call: Call, found: resource.Derived) -> Answer:
    """Answer with the feed; clients update with its tag."""
    etag = found.etag(call.groups)
    if call.has(etag):
        return Answer(304, etag=etag)
    entry = atom.Entry(found.uuid, found.element)
    body = call.writer.feed(found.uuid, call.self_path(call.path), [entry])
    return Answer(200, body, etag=etag)


NOUN = noun.Noun(
    _KIND,
    routes=(
        route.Route('GET', f'{_SYSTEM}/preferences', read, f'{_KIND}.read'),
        route.Route(
            'POST', f'{_SYSTEM}/preferences', update, f'{_KIND}.update'
        ),
    ),
)
