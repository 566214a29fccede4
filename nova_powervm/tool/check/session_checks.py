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

"""Checks of the session with a host, and of what every cycle asks for."""

import re

from nova_powervm.powervm.check import inspection
from nova_powervm.tool.check import answers

Answer = answers.Answer
Check = answers.Check
Host = inspection.Inspection
Meaning = answers.Meaning

#: Polls for events of which one should be held by the host.
_POLLS = 4
#: What counts as held; the host is known to hold a poll for ten seconds.
_HELD_SECONDS = 3.0
#: The part of the time limit that an answer may need.
_SLOW = 0.5
_EXPIRED = 401
_NOVALINK = 'PVM'
_VERSION = {'type': 'string', 'pattern': r'^V[0-9]+(_[0-9]+)+$'}
_POWER_JOBS = ('PowerOn', 'PowerOff')
_MIGRATION_JOBS = (
    'Migrate',
    'MigrateAbort',
    'MigrateRecover',
    'MigrateValidate',
)
_MEMORY_JOB = 'QueryReservedMemoryRequiredForPartition'
_VOLUME_JOBS = ('LUARecovery', 'RemoveDevice')


def _kind(host: Host) -> Answer:
    return answers.judged(host.kind == _NOVALINK, host.kind)


def _schema(host: Host) -> Answer:
    known = re.fullmatch(_VERSION['pattern'], host.schema_version)
    return answers.judged(
        known is not None, host.schema_version if known else ''
    )


def _header(host: Host) -> Answer:
    _ = host.systems
    named = None not in host.kinds
    return answers.judged(named, named)


def _encryption(host: Host) -> Answer:
    if not host.is_encrypted:
        return answers.unknown('the connection is not encrypted', value=False)
    return answers.judged(True, True)


def _expiry(host: Host) -> Answer:
    status = host.status_without_session()
    return answers.judged(status == _EXPIRED, status)


def _unchanged(host: Host) -> Answer:
    # Somebody may change the host between two requests.
    found = any(host.is_unchanged() for _ in range(3))
    return answers.judged(found, found)


def _events(host: Host) -> Answer:
    queue = inspection.new_queue()
    longest = 0.0
    for _ in range(_POLLS):
        count, seconds = host.poll(queue)
        if not count:
            # Nothing happened: this is how long the host holds a poll.
            held = seconds >= _HELD_SECONDS
            return answers.judged(held, round(seconds, 1))
        longest = max(longest, seconds)
    if longest >= _HELD_SECONDS:
        return answers.judged(True, round(longest, 1))
    return answers.unknown('each poll was answered with an event')


def _files(host: Host) -> Answer:
    return answers.judged(True, host.files())


def _state(host: Host) -> Answer:
    if not host.lpars:
        return answers.unknown('there is no LPAR')
    lpar = host.lpars[0]
    state = host.state_of(lpar)
    found = state == lpar.state
    return answers.judged(found, found, f'{state!r}')


def _jobs(
    resources: list[object], names: tuple[str, ...], host: Host
) -> Answer:
    if not resources:
        return answers.unknown('there is nothing that has these jobs')
    missing = [name for name in names if host.lacks_job(resources[0], name)]
    if missing:
        return answers.judged(False, missing, 'missing')
    return answers.judged(True, [], answers.listed(names))


def _power(host: Host) -> Answer:
    return _jobs([*host.lpars], _POWER_JOBS, host)


def _migration(host: Host) -> Answer:
    return _jobs([*host.lpars], _MIGRATION_JOBS, host)


def _discovery(host: Host) -> Answer:
    return _jobs([*host.servers], _VOLUME_JOBS, host)


def _memory(host: Host) -> Answer:
    return _jobs([host.system], (_MEMORY_JOB,), host)


def _missing_of(*names: str) -> answers.Schema:
    return {'type': 'array', 'items': {'enum': list(names)}}


def _speed(host: Host) -> Answer:
    what, slowest = max(
        host.durations.items(), key=lambda item: item[1], default=('', 0.0)
    )
    limit = host.server.read_timeout * _SLOW
    return answers.judged(
        slowest <= limit,
        round(slowest, 2),
        what,
    )


FIRST = (
    Check(
        'kind',
        'Kind of server',
        'The server is the NovaLink partition of the host.',
        'what the session takes it for (header ``X-MC-Type``)',
        Meaning.UNFIT,
        'On an HMC the driver would take the partitions of other systems for '
        'its own. Point ``[powervm]rest_url`` at the NovaLink partition.',
        answers.word_of(_NOVALINK, inspection.HMC),
        _kind,
    ),
    Check(
        'schema',
        'Version of the API',
        'The server tells the version of its schema.',
        '``schemaVersion`` of the answer to the logon',
        Meaning.COPES,
        'Elements that newer versions have may be missing, as on an old '
        'NovaLink.',
        {'anyOf': [{'const': ''}, _VERSION]},
        _schema,
    ),
    Check(
        'header',
        'Header of the kind',
        'Each answer says what the server is.',
        'header ``X-MC-Type`` of the answers to reads',
        Meaning.COPES,
        'A server without the header is taken for NovaLink; a proxy may have '
        'dropped it.',
        answers.YES_OR_NO,
        _header,
    ),
    Check(
        'certificate',
        'Certificate',
        'The connection is encrypted, and the certificate is verified.',
        'the logon itself: without a valid certificate, or if another user '
        'serves a local session, the command ends with the reason',
        Meaning.UNFIT,
        'Set ``[powervm]rest_cafile``; the name in the certificate must be '
        'that in ``rest_url``. A local session has no certificate.',
        answers.YES_OR_NO,
        _encryption,
    ),
    Check(
        'expiry',
        'Expired sessions',
        'An unknown session is answered with 401.',
        'a read with a made-up session',
        Meaning.OFF,
        'The driver logs on again after 401 only: restart nova-compute '
        'when its log shows this status.',
        {'type': 'integer', 'minimum': 100, 'maximum': 599},
        _expiry,
    ),
    Check(
        'unchanged',
        'Conditional reads',
        'An unchanged system is answered with 304.',
        'a read of the ManagedSystem with its ETag, up to three times',
        Meaning.COPES,
        'nova-compute reads all of the system once a minute, which only '
        'takes longer.',
        answers.YES_OR_NO,
        _unchanged,
    ),
)

LAST = (
    Check(
        'state',
        'State of an LPAR',
        'The state of an LPAR can be read alone.',
        'quick property ``PartitionState`` of an LPAR, compared with its feed',
        Meaning.UNFIT,
        'Nova would not learn whether a server runs.',
        answers.YES_OR_NO,
        _state,
    ),
    Check(
        'power',
        'Power jobs',
        'An LPAR can be started and stopped by jobs.',
        'templates of the jobs ' + ' and '.join(_POWER_JOBS),
        Meaning.UNFIT,
        'Servers could not be started or stopped.',
        _missing_of(*_POWER_JOBS),
        _power,
    ),
    Check(
        'memory-job',
        'Memory of the hypervisor',
        'The host tells how much memory its hypervisor needs for an LPAR.',
        f'template of the job {_MEMORY_JOB}',
        Meaning.OFF,
        'Servers are refused, as it is not known how much memory is free.',
        _missing_of(_MEMORY_JOB),
        _memory,
    ),
    Check(
        'migration-jobs',
        'Migration jobs',
        'An LPAR can be migrated by jobs.',
        'templates of the jobs ' + ', '.join(_MIGRATION_JOBS),
        Meaning.OFF,
        'There is no live migration.',
        _missing_of(*_MIGRATION_JOBS),
        _migration,
    ),
    Check(
        'volume-jobs',
        'Discovery jobs',
        'A Virtual I/O Server discovers and removes disks by jobs.',
        'templates of the jobs ' + ' and '.join(_VOLUME_JOBS),
        Meaning.OFF,
        'There are no volumes over Fibre Channel.',
        _missing_of(*_VOLUME_JOBS),
        _discovery,
    ),
    Check(
        'files',
        'Feed of uploads',
        'The server has a feed of uploads.',
        'feed of ``File`` (``/rest/api/web``)',
        Meaning.COPES,
        'The driver makes and deletes uploads, and does not read this feed: '
        'uploads may work all the same.',
        answers.COUNT,
        _files,
    ),
    Check(
        'events',
        'Polls for events',
        'The host holds a poll while nothing happens.',
        f'up to {_POLLS} polls of a new queue; one without events takes ten '
        'seconds',
        Meaning.COPES,
        'nova-compute polls once a second.',
        answers.SECONDS,
        _events,
    ),
    Check(
        'speed',
        'Time of answers',
        'Each read is answered in half of ``[powervm]rest_read_timeout``.',
        'the slowest request of this run, polls for events left out',
        Meaning.OFF,
        'Operations fail when the host is busier. Raise '
        '``[powervm]rest_read_timeout``.',
        answers.SECONDS,
        _speed,
    ),
)
