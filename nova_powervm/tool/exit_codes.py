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

"""The exit codes of all commands.

The manual pages list :data:`TABLE`. Names that stand for one number are of
different commands.
"""

from collections.abc import Mapping

SUCCESS = 0
FAILURE = 1
#: Something was found that may be intended.
WARNINGS = 1
#: Something is left to do.
UNFINISHED = 1
#: Something was found that is wrong.
ERRORS = 2
#: A check, or the user, did not let the command act.
REFUSED = 2
#: The command line is wrong.
USAGE = 2
DIFFERENCES = 3
#: Another process does the same.
RUNS_ALREADY = 3
#: The driver must not be used with the host.
UNFIT = 3
#: What the command needs does not answer, or is wrong.
TROUBLE = 4
#: Ctrl-C, as shells have it, or another signal to stop.
INTERRUPTED = 130
#: The checks could not be run.
UNCHECKED = 255

_DONE = 'success'

#: Program to its commands, separated by commas, to what each code means. A
#: program without commands has an empty name there.
TABLE: Mapping[str, Mapping[str, Mapping[int, str]]] = {
    'nova-powervm-inventory': {
        'validate': {
            SUCCESS: 'no problems',
            WARNINGS: 'warnings only',
            ERRORS: 'errors, or warnings with ``--fatal-warnings``, or the '
            'file could not be validated',
        },
        'show, generate': {
            SUCCESS: _DONE,
            FAILURE: 'failure, or no answer of Cyborg to ``show --cyborg``',
        },
        'diff': {
            SUCCESS: 'no differences',
            DIFFERENCES: 'differences',
            TROUBLE: 'the comparison failed',
        },
        'flavor create, metrics, connector': {
            SUCCESS: _DONE,
            FAILURE: 'failure',
        },
        'flavor lint': {
            SUCCESS: 'no findings, or notes only',
            WARNINGS: 'warnings',
            ERRORS: 'errors',
            TROUBLE: 'the flavors, or the offers to compare them with, could '
            'not be read',
        },
        'handover': {
            SUCCESS: 'all steps are done',
            UNFINISHED: 'something is left to do',
            TROUBLE: 'the host or Placement could not be read, or there is no '
            'such device',
        },
        'release': {
            SUCCESS: _DONE,
            REFUSED: 'refused, or not confirmed, also for want of a terminal '
            'without ``--yes``',
            TROUBLE: 'failure, for example if the host or Placement does not '
            'answer. If any of the named slots is refused, all refused slots '
            'are named and none is released',
        },
        'trait purge': {
            SUCCESS: 'success, also if traits are kept',
            REFUSED: 'not confirmed',
            TROUBLE: 'failure; what was removed before is removed',
        },
        'quarantine, restore': {
            SUCCESS: _DONE,
            REFUSED: 'refused, or not confirmed',
            TROUBLE: 'failure; ``restore`` fails if the host does not answer, '
            'too',
        },
        'all': {USAGE: 'invalid command line'},
    },
    'nova-powervm-clean': {
        '': {
            SUCCESS: 'All devices that waited were cleaned and released; or a '
            'signal ended the service.',
            REFUSED: 'With ``--once``: at least one device was not cleaned, '
            'and stays reserved.',
            RUNS_ALREADY: 'Another process cleans the devices of this host.',
            TROUBLE: 'The configuration is wrong, or, with ``--once``, the '
            'host or Placement did not answer.',
        }
    },
    'nova-powervm-check': {
        '': {
            SUCCESS: 'The host is as the driver assumes, or the driver copes '
            'with the difference.',
            WARNINGS: 'A feature is off.',
            USAGE: 'The command line is wrong.',
            UNFIT: 'Do not use the driver with this host.',
            TROUBLE: 'The configuration is wrong, the host refuses the logon '
            'or does not answer what decides that, it is not clear which '
            'system is meant, or the report cannot be '
            'written. ``partition``: the host is an HMC, has too little free '
            'or an LPAR of the same name or UUID, its slot is refused, '
            'there is no such LPAR that runs, you did not agree, or '
            'something was not removed.',
            INTERRUPTED: 'Ctrl-C, SIGTERM or SIGHUP ended it. ``partition`` '
            'has removed what it made, or says what may be left.',
        }
    },
    'nova-powervm-status': {
        '': {
            SUCCESS: 'All checks passed.',
            WARNINGS: 'At least one check is a warning, which you should look '
            'into.',
            ERRORS: 'At least one check failed. Correct the problem first.',
            UNCHECKED: 'The checks could not be run.',
        }
    },
}
