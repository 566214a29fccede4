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

"""The report of a run, which names nothing of the host."""

import importlib.metadata
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import jsonschema

from nova_powervm.tool.check import answers

#: Number of the form of reports.
FORMAT = 1
_PACKAGES = ('nova-powervm', 'pypowervm')


def document(
    mode: str,
    results: Sequence[answers.Result[Any]],
    durations: Mapping[str, float],
) -> dict[str, Any]:
    """Return the report of a run, which :func:`schema` describes.

    :param durations: What was read -> the seconds of the slowest read.
    """
    return {
        'format': FORMAT,
        'mode': mode,
        'versions': {
            name: importlib.metadata.version(name) for name in _PACKAGES
        },
        'durations': {
            what: round(seconds, 3) for what, seconds in durations.items()
        },
        'checks': {
            result.check.name: {
                'outcome': result.answer.outcome.value,
                'meaning': result.meaning and result.meaning.value,
                'value': _value(result),
                'status': result.answer.status,
                'seconds': round(result.seconds, 3),
            }
            for result in results
        },
    }


def _value(result: answers.Result[Any]) -> Any:
    """Return the value of an answer; None if it is not what was promised.

    A host that nobody knows may show a name where a word of the API belongs.
    """
    value = result.answer.value
    known = jsonschema.Draft202012Validator(result.check.value)
    return value if known.is_valid(value) else None


def schema(mode: str, checks: Sequence[answers.Check[Any]]) -> dict[str, Any]:
    """Return the JSON schema of the reports of a mode."""
    version = {'type': 'string', 'pattern': '^[0-9][0-9a-z.+]*$'}
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': f'Report of nova-powervm-check {mode}',
        **_record(
            {
                'format': {'const': FORMAT},
                'mode': {'const': mode},
                'versions': _record(dict.fromkeys(_PACKAGES, version)),
                'durations': {
                    'description': 'Noun, job or property to the seconds of '
                    'the slowest read.',
                    'type': 'object',
                    'propertyNames': {'pattern': '^[A-Z][A-Za-z]*$'},
                    'additionalProperties': dict(answers.SECONDS),
                },
                'checks': _record(
                    {check.name: _answer(check) for check in checks}
                ),
            }
        ),
    }


def _answer(check: answers.Check[Any]) -> dict[str, Any]:
    return {
        'description': f'{check.title}: {check.seen}.',
        **_record(
            {
                'outcome': {'enum': [each.value for each in answers.Outcome]},
                'meaning': {'enum': [None, check.meaning.value]},
                'value': {'anyOf': [{'type': 'null'}, dict(check.value)]},
                'status': {
                    'type': ['integer', 'null'],
                    'minimum': 100,
                    'maximum': 599,
                },
                'seconds': dict(answers.SECONDS),
            }
        ),
    }


def _record(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        'type': 'object',
        'properties': properties,
        'required': list(properties),
        'additionalProperties': False,
    }
