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

"""The checks of ``partition --target``, which move nothing."""

from nova_powervm.lpar import live_migration
from nova_powervm.powervm.check import migration_trial
from nova_powervm.tool.check import answers

_Validation = migration_trial.Validation
_Answer = answers.Answer
_OFF, _COPES = answers.Meaning.OFF, answers.Meaning.COPES
_if_settled = answers.needs('is_settled', 'the LPAR is being migrated')
_WORD: answers.Schema = {'type': 'string', 'pattern': '^[A-Za-z_ ]{0,40}$'}


def _capable(this: _Validation) -> _Answer:
    return answers.judged(this.is_capable, this.is_capable)


def _free(this: _Validation) -> _Answer:
    found = this.migrations
    return answers.judged(found['in progress'] < found['most'], found)


def _state(this: _Validation) -> _Answer:
    return answers.judged(this.is_settled, this.guest.state)


def _obstacle(this: _Validation) -> _Answer:
    obstacle = this.guest.obstacle
    return answers.judged(not obstacle, not obstacle, obstacle)


def _slots(this: _Validation) -> _Answer:
    found = [f'{index:08X}' for index in this.guest.slots]
    return answers.judged(not found, len(found), answers.listed(found))


def _storage(this: _Validation) -> _Answer:
    status = this.guest.storage_status
    return answers.judged(status != live_migration.UPDATE_FAILED, status)


def _keys(this: _Validation) -> _Answer:
    has_own, others = this.keys()
    return answers.judged(
        has_own, others, '' if has_own else 'it has no key of its own'
    )


@_if_settled
def _validation(this: _Validation) -> _Answer:
    words = this.validate()
    return answers.judged(not words, migration_trial.codes_in(words), words)


@_if_settled
def _no_system(this: _Validation) -> _Answer:
    words = this.validate(migration_trial.NO_SYSTEM)
    return answers.judged(bool(words), migration_trial.codes_in(words), words)


def _unchanged(this: _Validation) -> _Answer:
    is_so = this.is_unchanged()
    return answers.judged(is_so, is_so)


_Check = answers.Check
_YES_OR_NO = answers.YES_OR_NO
_CODES: answers.Schema = {
    'type': 'array',
    'items': {'type': 'string', 'pattern': f'^{migration_trial.CODE}$'},
}
CHECKS: tuple[_Check[_Validation], ...] = (
    _Check(
        'target-capable',
        'Capability',
        'The host is capable of live migration.',
        '``ActiveLogicalPartitionMobilityCapable``',
        _OFF,
        'There is no live migration from this host.',
        _YES_OR_NO,
        _capable,
    ),
    _Check(
        'target-free',
        'Free migrations',
        'The host can have one more migration.',
        '``MigrationInformation`` of ``ManagedSystem``',
        _COPES,
        'Live migrations are refused until another one has ended.',
        answers.counts_of('in progress', 'most'),
        _free,
    ),
    _Check(
        'target-state',
        'Migration state',
        'The LPAR is not being migrated.',
        '``MigrationState``',
        _OFF,
        'Wait for the end, or recover the LPAR.',
        _WORD,
        _state,
    ),
    _Check(
        'target-rmc',
        'RMC',
        "pypowervm's own check lets the LPAR move.",
        '``can_lpm``: RMC, and what the LPAR is capable of',
        _OFF,
        'Such a server is refused; migrate it cold.',
        _YES_OR_NO,
        _obstacle,
    ),
    _Check(
        'target-slots',
        'Physical slots',
        'The LPAR has no physical slot.',
        'its ``ProfileIOSlots``',
        _OFF,
        'Such a server is refused; migrate it cold.',
        answers.COUNT,
        _slots,
    ),
    _Check(
        'target-storage',
        'Data of the storage',
        'The host could read the storage of the LPAR.',
        '``MigrationStorageViosDataStatus``',
        _OFF,
        'Check its Virtual I/O Servers.',
        _WORD,
        _storage,
    ),
    _Check(
        'target-keys',
        'Keys',
        'The host has a key by which it logs on to others.',
        '``ManagementConsole``; the value counts the keys that it lets in; '
        'none is exchanged',
        _OFF,
        'Restart pvm-rest on the NovaLink partition, and look again.',
        answers.COUNT,
        _keys,
    ),
    _Check(
        'target-validation',
        'Validation',
        'PowerVM finds nothing in the way.',
        'by the job ``MigrateValidate``; the values are codes of messages',
        _OFF,
        'Correct what the host names. Keys are not exchanged here: '
        'nova-compute does that when it migrates a server.',
        _CODES,
        _validation,
    ),
    _Check(
        'target-none',
        'Unknown systems',
        'A validation for a system that does not exist fails.',
        f'by the same job, with the name ``{migration_trial.NO_SYSTEM}``',
        _COPES,
        'Do not rely on a validation that passes.',
        _CODES,
        _no_system,
    ),
    _Check(
        'target-unchanged',
        'After validations',
        'A validation changes nothing.',
        'the LPAR with its settings, slots, disks and states',
        _OFF,
        'Do not migrate live.',
        _YES_OR_NO,
        _unchanged,
    ),
)
