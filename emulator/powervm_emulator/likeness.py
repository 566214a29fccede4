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

"""Habits of a real host, from reports of ``nova-powervm-check``.

A report has what a program saw of a host: numbers, times, and words of the
API. What a world can say becomes part of a world; the rest becomes faults,
which are there from the start. Other answers of the report are passed over.
"""

import copy
import dataclasses
import json
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import jsonschema

from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import faults
from powervm_emulator.core import habits as habits_module
from powervm_emulator.core import reshaping

_FORMAT = 1
_WORD = '^[A-Z][A-Za-z]*$'
#: A delay below these seconds is no habit.
_NOTICED = 0.05
_NOT_FOUND = 404
#: Capabilities of a report to their names in worlds.
_CAPABILITIES = {
    'live-migration': 'live_migration',
    'remote-restart': 'simplified_remote_restart',
    'secure-boot': 'secure_boot',
}
#: Checks whose values are the names of jobs that the host lacks.
_JOBS = ('power', 'memory-job', 'migration-jobs', 'volume-jobs')
_SWITCH = 'MGMTSWITCH'
_HMC = 'HMC'
#: The version of an HMC that does not tell it.
_SOME_HMC = 'V10R3'
#: Checks whose values say whether a host refuses something, to the rules.
_REFUSALS = {
    'unknown-slot': 'unknown-slot',
    'same-mac': 'same-mac',
    'damaged-upload': 'damaged-upload',
    'short-upload': 'short-upload',
    'mapped-deletion': 'mapped-deletion',
    'running-deletion': 'running-deletion',
    'running-adapter': 'running-network adapters',
}
#: Checks whose values are the status of a conflict, 0 for none.
_CONFLICTS = ('lpar-etag', 'group-etag', 'mapping-etag')
_ORDER = {
    'enum': [
        reshaping.ASCENDING,
        reshaping.DESCENDING,
        reshaping.OTHER,
        'unknown',
    ]
}
_STATUS = {'type': ['integer', 'null'], 'minimum': 0, 'maximum': 599}

_MODEL = {
    'type': ['string', 'null'],
    'pattern': '^([0-9A-Z]{4}-[0-9A-Z]{3})?$',
}
_VALUES: dict[str, Any] = {
    'header': {'type': ['boolean', 'null']},
    'expiry': {'type': ['integer', 'null'], 'minimum': 400, 'maximum': 499},
    'unchanged': {'type': ['boolean', 'null']},
    'owners': {'type': ['boolean', 'null']},
    'model': _MODEL,
    'regions': {'type': ['integer', 'null'], 'minimum': 0},
    'modes': {'type': ['array', 'null'], 'items': {'type': 'string'}},
    'aix': {'type': ['string', 'null']},
    'uptime': {'type': ['integer', 'null'], 'minimum': 0},
    'management-switch': {'enum': ['Veb', 'Vepa', None]},
    'events': {
        'type': ['number', 'null'],
        'minimum': 0,
        'maximum': faults.MAX_DELAY,
    },
    'kind': {'enum': ['PVM', _HMC, None]},
    'hmc-version': {
        'type': ['string', 'null'],
        'pattern': '^(V[0-9]+R[0-9]+)?$',
    },
    'orders': {
        'type': ['object', 'null'],
        'properties': dict.fromkeys(reshaping.LISTS, _ORDER),
    },
    'silent-servers': {
        'type': ['object', 'null'],
        'required': ['servers', *reshaping.HIDDEN],
        'additionalProperties': {'type': 'integer', 'minimum': 0},
    },
    **dict.fromkeys(_CONFLICTS, _STATUS),
    **{
        name: {'type': ['boolean', 'null']}
        for name in (*_CAPABILITIES, *_REFUSALS)
    },
    **{
        name: {
            'type': ['array', 'null'],
            'items': {'type': 'string', 'pattern': _WORD},
        }
        for name in _JOBS
    },
}
_SCHEMA = {
    'type': 'object',
    'required': ['format', 'checks', 'durations'],
    'properties': {
        'format': {'const': _FORMAT},
        'durations': {
            'type': 'object',
            'propertyNames': {'pattern': _WORD},
            'additionalProperties': {
                'type': 'number',
                'minimum': 0,
                'maximum': faults.MAX_DELAY,
            },
        },
        'checks': {
            'type': 'object',
            'additionalProperties': {
                'type': 'object',
                'required': ['value'],
                'properties': {'status': _STATUS},
            },
            'properties': {
                name: {'properties': {'value': schema}}
                for name, schema in _VALUES.items()
            },
        },
    },
}


class LikenessError(Exception):
    """A report that cannot be used, in words."""


@dataclasses.dataclass(frozen=True)
class Likeness:
    """The habits of a host.

    :param values: Name of a check to the value that it found.
    :param durations: What was read to the seconds of the slowest read.
    :param statuses: Name of a check to the HTTP status of a refusal.
    """

    values: Mapping[str, Any]
    durations: Mapping[str, float]
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def event_wait(self) -> float | None:
        """The seconds that the host holds a poll; None if not known."""
        seconds = self.values.get('events')
        return None if seconds is None else float(seconds)

    @property
    def habits(self) -> habits_module.Habits:
        """What the host does in every answer."""
        answers = {
            'unknown_session': self.values.get('expiry'),
            'names_kind': self.values.get('header'),
            'answers_unchanged': self.values.get('unchanged'),
        }
        known = {n: value for n, value in answers.items() if value is not None}
        return habits_module.Habits(
            **known,
            accepts=frozenset(self._accepted()),
            statuses=self._statuses(),
            orders={
                what: order
                for what, order in (self.values.get('orders') or {}).items()
                if what in reshaping.LISTS and order != 'unknown'
            },
            hidden=frozenset(self._hidden()),
        )

    def _accepted(self) -> Iterator[str]:
        """Yield the rules that the host does not have."""
        for name, rule in _REFUSALS.items():
            if self.values.get(name) is False:
                yield rule
        for name in _CONFLICTS:
            if self.values.get(name) == 0:
                yield name

    def _statuses(self) -> dict[str, int]:
        """Return the statuses of refusals, by rule."""
        found = {
            rule: self.statuses.get(name)
            for name, rule in _REFUSALS.items()
            if self.values.get(name)
        }
        found |= {name: self.values.get(name) for name in _CONFLICTS}
        return {rule: status for rule, status in found.items() if status}

    def _hidden(self) -> Iterator[str]:
        """Yield what silent Virtual I/O Servers do not show."""
        found = self.values.get('silent-servers')
        if found and found['servers']:
            yield from (what for what in reshaping.HIDDEN if not found[what])

    def change(self, world: Mapping[str, Any]) -> dict[str, Any]:
        """Return a world whose systems are like the host."""
        made = copy.deepcopy(dict(world))
        if self.values.get('kind') == _HMC:
            made['hmc'] = self.values.get('hmc-version') or _SOME_HMC
        for system in made['systems']:
            self._change(system)
        return made

    def _change(self, system: dict[str, Any]) -> None:
        found = self.values
        if (owners := found.get('owners')) is not None:
            system['reports_slot_owners'] = owners
            system.pop('slot_owner_capability', None)
        if model := found.get('model'):
            system['machine_type'], _, system['model'] = model.partition('-')
        if size := found.get('regions'):
            system.setdefault('memory', {})['region_size'] = size
        if modes := found.get('modes'):
            system.setdefault('processors', {})['compatibility_modes'] = [
                'default',
                *(mode for mode in modes if mode != 'default'),
            ]
        self._change_capabilities(system.setdefault('capabilities', {}))
        if (uptime := found.get('uptime')) is not None:
            for partition in system.get('partitions', ()):
                if partition.get('management'):
                    partition['uptime'] = uptime
        if mode := found.get('management-switch'):
            switches = system.setdefault('virtual_switches', [])
            switches[:] = [s for s in switches if s.get('name') != _SWITCH]
            switches.append({'name': _SWITCH, 'mode': mode})

    def _change_capabilities(self, capabilities: dict[str, Any]) -> None:
        for name, key in _CAPABILITIES.items():
            if (value := self.values.get(name)) is not None:
                capabilities[key] = value
                if not value:
                    capabilities.pop(f'{key}_toggle', None)
        aix = self.values.get('aix')
        if aix == 'absent':
            capabilities.pop('aix', None)
        elif aix not in (None, 'other'):
            capabilities['aix'] = aix

    def give(self, emulation: emulation_module.Emulation) -> None:
        """Give an emulation what no world can say."""
        emulation.habits = self.habits
        for fault in self.faults():
            emulation.faults.add(fault)

    def faults(self) -> Iterator[faults.Fault]:
        """Yield what else is to be seen of the host, in every request."""
        for name in _JOBS:
            for job in self.values.get(name) or ():
                yield faults.Fault(
                    match=f'/do/{job}([?]|$)',
                    every=True,
                    status=_NOT_FOUND,
                    message=f'The host has no operation {job}.',
                )
        for what, seconds in self.durations.items():
            if seconds >= _NOTICED:
                yield faults.Fault(
                    method='GET',
                    match=f'/{what}(/[0-9A-Fa-f-]{{36}})?([?]|$)',
                    every=True,
                    delay=seconds,
                )


def read(*paths: str) -> Likeness:
    """Read reports of one host; each adds to those before.

    :raises LikenessError: One can't be read, or is no such report.
    """
    values: dict[str, Any] = {}
    durations: dict[str, float] = {}
    statuses: dict[str, int] = {}
    for path in paths:
        document = _read(path)
        checks = document['checks']
        for found, key in ((values, 'value'), (statuses, 'status')):
            found |= {
                name: answer[key]
                for name, answer in checks.items()
                if answer.get(key) is not None
            }
        durations |= document['durations']
    return Likeness(values, durations, statuses)


def _read(path: str) -> Any:
    try:
        document = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
        jsonschema.validate(document, _SCHEMA)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise LikenessError(f'{path}: {reason}') from error
    except jsonschema.ValidationError as error:
        where = '.'.join(map(str, error.absolute_path)) or 'the document'
        raise LikenessError(f'{path}: {where}: {error.message}') from error
    return document
