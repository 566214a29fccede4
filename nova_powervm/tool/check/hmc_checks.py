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

"""What is asked of an HMC, for a mode of the driver that there is not yet.

The driver refuses an HMC, so these answers change nothing for it: they are
what such a mode would be built on. The checks of a host are made of the chosen
system, too; where they assume what only NovaLink does, they say so.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from nova_powervm.powervm.check import hmc_inspection
from nova_powervm.tool.check import answers

Answer = answers.Answer
Hmc = hmc_inspection.HmcInspection
Meaning = answers.Meaning

_FEW = 5
_ABSENT = 'absent'
_OTHER = 'other'
#: The marks of elements: who may set one, and whether it is always there.
_MARKS = answers.word_of(
    *('CUD', 'CUR', 'COD', 'COR', 'CUO', 'COO', 'UOD', 'UOR', 'UOO'),
    *('ROD', 'ROR', 'ROO', _OTHER, _ABSENT),
)
_EVENTS = (
    *('ADD_URI', 'MODIFY_URI', 'DELETE_URI', 'INVALID_URI', 'HIDDEN_URI'),
    *('VISIBLE_URI', 'CUSTOM_CLIENT_EVENT', 'MISSING_EVENTS'),
    *('CACHE_CLEARED', 'NEW_CLIENT', _OTHER),
)
_NEW_CLIENT = 'NEW_CLIENT'
_VERSION = {'type': 'string', 'pattern': '^V[0-9]+R[0-9]+$'}
_SCHEMA = {'type': 'string', 'pattern': '^V[0-9]+(_[0-9]+)+$'}
_PORTS = (443, 12443)
_REMOTE_RESTART = 'RemoteRestart'
_NONE = 'the system has no LPAR'
#: Checks of a host to the reason why an HMC can be unlike a NovaLink
#: partition there, and nothing follows from it.
_OF_NOVALINK = {
    'header': 'HMCs are not known to send it',
    'systems': 'an HMC manages several, and one was chosen',
    'uptime': 'only a NovaLink partition has it',
    'management-switch': 'NovaLink makes and uses this switch',
    'management-vlan': 'the adapter is that of NovaLink',
    'memory-job': 'NovaLink has this job',
    'volume-jobs': 'NovaLink has these jobs',
}


def _without_novalink(
    check: answers.Check[Any], why: str
) -> answers.Check[Any]:
    """Return a check of a host that forgives an HMC a difference."""

    def judge(hmc: Hmc) -> Answer:
        found = check.judge(hmc)
        if found.outcome is answers.Outcome.DIFFERS:
            return answers.unknown(why, found.value)
        return found

    return dataclasses.replace(check, judge=judge)


def of_host(
    checks: Sequence[answers.Check[Any]],
) -> tuple[answers.Check[Any], ...]:
    """Return the checks of a host as an HMC is to be judged by them."""
    return tuple(
        _without_novalink(check, _OF_NOVALINK[check.name])
        if check.name in _OF_NOVALINK
        else check
        for check in checks
    )


def _known(version: str, schema: answers.Schema) -> Answer:
    answer = answers.judged(True, version)
    return answer if _fits(version, schema) else answers.judged(False, '')


def _fits(text: str, schema: answers.Schema) -> bool:
    return re.fullmatch(schema['pattern'], text) is not None


def _version(hmc: Hmc) -> Answer:
    return _known(hmc.version, _VERSION)


def _port(hmc: Hmc) -> Answer:
    return answers.judged(hmc.port in _PORTS, hmc.port)


def _schema_header(hmc: Hmc) -> Answer:
    _ = hmc.systems
    found = {*filter(None, hmc.schemas)}
    if len(found) != 1 or None in hmc.schemas:
        return answers.judged(False, '', answers.listed(sorted(found)))
    return _known(found.pop(), _SCHEMA)


def _names(hmc: Hmc) -> Answer:
    counts = collections.Counter(each.system_name for each in hmc.systems)
    twice = sorted(name for name, count in counts.items() if count > 1)
    value = {'systems': len(hmc.systems), 'names twice': len(twice)}
    return answers.judged(not twice, value, answers.listed(twice))


def _children(hmc: Hmc) -> Answer:
    children = {each.uuid.upper() for each in hmc.partitions}
    everywhere = {
        each.uuid.upper(): (each.assoc_sys_uuid or '').upper()
        for each in hmc.all_partitions
    }
    own = {
        uuid
        for uuid, its_system in everywhere.items()
        if its_system == hmc.system.uuid.upper()
    }
    value = {
        'everywhere': len(everywhere),
        'of the system': len(own),
        'below it': len(children),
    }
    return answers.judged(children == own, value)


def _mark(hmc: Hmc, path: str) -> str | None:
    """Return the mark of an element of an LPAR; None if there is no LPAR."""
    if not hmc.lpars:
        return None
    element = hmc.lpars[0].element.find(path)
    if element is None:
        return _ABSENT
    mark = element.get('kb')
    return mark if mark in _MARKS['enum'] else _OTHER


def _uuid(hmc: Hmc) -> Answer:
    mark = _mark(hmc, 'PartitionUUID')
    if mark is None:
        return answers.unknown(_NONE)
    if mark.startswith('RO'):
        return answers.unknown(
            'NovaLink marks it so, too, and takes it: only a creation tells',
            mark,
        )
    return answers.judged(mark.startswith('C'), mark)


def _slots_mark(hmc: Hmc) -> Answer:
    mark = _mark(hmc, 'PartitionIOConfiguration/ProfileIOSlots')
    if mark is None:
        return answers.unknown(_NONE)
    # C, U: may be given at the creation, and changed.
    return answers.judged(mark.startswith('CU'), mark)


def _sync(hmc: Hmc) -> Answer:
    words = [each.element.findtext('CurrentProfileSync') for each in hmc.lpars]
    if not words:
        return answers.unknown(_NONE)
    value = {
        'on': words.count('On'),
        'otherwise': sum(1 for word in words if word not in ('On', None)),
        'without': words.count(None),
    }
    return answers.judged(value['otherwise'] == 0, value)


def _profiles(hmc: Hmc) -> Answer:
    if not hmc.lpars:
        return answers.unknown(_NONE)
    some = hmc.lpars[:_FEW]
    different = [
        lpar.name
        for lpar in some
        for slots in hmc.profiles_of(lpar)
        if slots != {each.drc_index for each in lpar.io_config.io_slots}
    ]
    value = {
        'partitions': len(some),
        'profiles': sum(len(hmc.profiles_of(lpar)) for lpar in some),
        'different': len(different),
    }
    return answers.judged(not different, value, answers.listed(different))


def _first_poll(hmc: Hmc) -> Answer:
    types = sorted(
        {each if each in _EVENTS else _OTHER for each in hmc.first_events()}
    )
    return answers.judged(
        _NEW_CLIENT not in types, types, '' if types else 'no event'
    )


def _remote_restart(hmc: Hmc) -> Answer:
    if not hmc.lpars:
        return answers.unknown(_NONE)
    has_it = not hmc.lacks_job(hmc.lpars[0], _REMOTE_RESTART)
    return answers.judged(has_it, has_it)


_Check = answers.Check
CHECKS: tuple[answers.Check[Hmc], ...] = (
    _Check(
        'hmc-version',
        'Version of the HMC',
        'The HMC tells its version.',
        '``BaseVersion`` of ``ManagementConsole``',
        Meaning.COPES,
        'It would be asked for before what only some versions have.',
        {'anyOf': [{'const': ''}, _VERSION]},
        _version,
    ),
    _Check(
        'hmc-port',
        'Port of the HMC',
        'The API is at port 443 or 12443.',
        'the port of ``[powervm]rest_url``; V11 and later has 443 only',
        Meaning.COPES,
        'The option names the port.',
        {'type': 'integer', 'minimum': 1, 'maximum': 65535},
        _port,
    ),
    _Check(
        'hmc-schema',
        'Schema in each answer',
        'Each answer names one version of the schema.',
        'header ``X-HMC-Schema-Version``',
        Meaning.COPES,
        'The version is that of the logon.',
        {'anyOf': [{'const': ''}, _SCHEMA]},
        _schema_header,
    ),
    _Check(
        'hmc-names',
        'Names of systems',
        'Each managed system has a name of its own.',
        'feed of ``ManagedSystem``, which has all of them',
        Meaning.COPES,
        'A system would be chosen by machine type, model and serial number.',
        answers.counts_of('systems', 'names twice'),
        _names,
    ),
    _Check(
        'hmc-partitions',
        'Partitions of a system',
        'A feed below a system has its partitions, and no others.',
        'the partitions of the HMC by ``AssociatedManagedSystem``',
        Meaning.UNFIT,
        "The driver would take other systems' partitions for its own.",
        answers.counts_of('everywhere', 'of the system', 'below it'),
        _children,
    ),
    _Check(
        'hmc-uuid',
        'UUID of an LPAR',
        'The UUID of an LPAR can be chosen.',
        'the mark ``kb`` of ``PartitionUUID``',
        Meaning.OFF,
        'Instances would be known by names, which would be recorded.',
        _MARKS,
        _uuid,
    ),
    _Check(
        'hmc-slots',
        'Slots in an LPAR',
        'The slots of an LPAR can be given and changed.',
        'the mark ``kb`` of ``ProfileIOSlots``',
        Meaning.UNFIT,
        'There would be no devices. No public client writes them so.',
        _MARKS,
        _slots_mark,
    ),
    _Check(
        'hmc-profile-sync',
        'Synchronization of profiles',
        'Profiles follow the configuration of their LPARs.',
        '``CurrentProfileSync`` of the LPARs is ``On``, or is not there',
        Meaning.OFF,
        'A start with a profile undoes changes, and can take slots away.',
        answers.counts_of('on', 'otherwise', 'without'),
        _sync,
    ),
    _Check(
        'hmc-profiles',
        'Slots in profiles',
        'The profiles of an LPAR have the slots that the LPAR has.',
        f'``LogicalPartitionProfile`` of up to {_FEW} LPARs',
        Meaning.OFF,
        'Owners of slots would be read from profiles, too.',
        answers.counts_of('partitions', 'profiles', 'different'),
        _profiles,
    ),
    _Check(
        'hmc-events',
        'First poll for events',
        'The first poll of a queue does not say that it is new.',
        'the types of its events: NovaLink answers with '
        f'``{_NEW_CLIENT}``, as pypowervm needs it',
        Meaning.COPES,
        "pypowervm's listener may work with an HMC.",
        {'type': 'array', 'items': answers.word_of(*_EVENTS)},
        _first_poll,
    ),
    _Check(
        'hmc-remote-restart',
        'Job for remote restart',
        'An LPAR can be restarted on another system by a job.',
        f'template of the job {_REMOTE_RESTART}',
        Meaning.OFF,
        'An evacuation would build the server anew, as with NovaLink.',
        answers.YES_OR_NO,
        _remote_restart,
    ),
)
