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

"""Jobs as documents: the template, the request and the response."""

from collections.abc import Iterable

from powervm_emulator.core import atom
from powervm_emulator.core import content
from powervm_emulator.core import elements
from powervm_emulator.core import errors
from powervm_emulator.core import exchange
from powervm_emulator.core import jobs as jobs_module
from powervm_emulator.core import resource

Answer = exchange.Answer
Call = exchange.Call
Element = content.Element
_WEB = content.WEB_NS


def template(call: Call, target: resource.Resource, operation: str) -> Answer:
    """Answer with an empty JobRequest for an operation of a resource."""
    request = _new(
        'JobRequest',
        _operation(target.kind, operation),
        _new('JobParameters'),
    )
    path = f'{target.path}/do/{operation}'
    entry = atom.Entry(target.uuid, request, path)
    return Answer(200, call.writer.entry(entry))


def parameters(
    call: Call, target: resource.Resource, operation: str
) -> dict[str, str]:
    """Return the parameters of a JobRequest for an operation of a resource.

    :raises errors.BadRequest: the body is something else, or for another
        operation than its URI.
    """
    request = call.content('JobRequest', _WEB)
    for name, wanted in (
        ('OperationName', operation),
        ('GroupName', target.kind),
    ):
        found = content.text(request, f'RequestedOperation/{name}')
        if found != wanted:
            raise errors.BadRequest(
                f'The {name} of the JobRequest is {found!r}, and that of its '
                f'URI {wanted!r}.'
            )
    return {
        content.text(parameter, 'ParameterName'): content.text(
            parameter, 'ParameterValue'
        )
        for parameter in content.find_all(
            request, 'JobParameters/JobParameter'
        )
    }


def answer(call: Call, job: jobs_module.Job) -> Answer:
    """Answer with a job as it is now."""
    path = f'{resource.API}/jobs/{job.id}'
    entry = atom.Entry(job.id, _response(job), call.self_path(path))
    return Answer(200, call.writer.entry(entry))


def _response(job: jobs_module.Job) -> Element:
    """Return the JobResponse element of a job."""
    kind = job.operation.target.kind
    url = content.leaf('RequestURL', namespace=_WEB)
    url.set('href', job.path)
    url.set('rel', 'via')
    response = _new(
        'JobResponse',
        url,
        _leaf('TargetUuid', job.operation.target.uuid),
        _leaf('JobID', job.id),
        _leaf('TimeStarted', str(job.started)),
        _leaf('TimeCompleted', str(job.completed)),
        _leaf('Status', job.status.value),
        _new(
            'JobRequestInstance',
            _operation(kind, job.name),
            _parameter_list('JobParameters', job.operation.parameters.items()),
        ),
        _progress(job),
    )
    if job.message:
        exception = _new('ResponseException', _leaf('Message', job.message))
        response.append(exception)
    if job.is_finished:
        response.append(_parameter_list('Results', job.results.items()))
    elements.sort(response)
    return response


def _progress(job: jobs_module.Job) -> Element:
    """Return how far a job has come, which hosts say of those that ran."""
    ran_to_end = job.is_finished and job.status not in jobs_module.BROKEN_OFF
    return _new('Progress', *([_leaf('LinearProgress', '1.0')] * ran_to_end))


def _operation(kind: str, name: str) -> Element:
    return _new(
        'RequestedOperation',
        _leaf('OperationName', name),
        _leaf('GroupName', kind),
    )


def _parameter_list(name: str, values: Iterable[tuple[str, str]]) -> Element:
    parameters = [
        _new(
            'JobParameter',
            _leaf('ParameterName', key),
            _leaf('ParameterValue', value),
        )
        for key, value in values
    ]
    return _new(name, *parameters)


def _new(name: str, *children: Element) -> Element:
    return content.new(name, *children, namespace=_WEB)


def _leaf(name: str, value: str) -> Element:
    return content.leaf(name, value, _WEB)
