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

"""Jobs: the template, the request, polling, cancelling and deleting."""

from collections.abc import Callable
from collections.abc import Iterable

from nova_powervm.emulator import atom
from nova_powervm.emulator import content
from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import exchange
from nova_powervm.emulator.handlers import resources
from nova_powervm.emulator.state import jobs as jobs_module
from nova_powervm.emulator.state import resource as resource_module

Answer = exchange.Answer
Call = exchange.Call
Element = content.Element
Emulation = emulation_module.Emulation
Handler = Callable[..., Answer]

_WEB = content.WEB_NS


def template(kind: str) -> Handler:
    """Return the handler of GET do/{operation}: an empty JobRequest."""

    def handle(
        emulation: Emulation,
        call: Call,
        uuid: str,
        operation: str,
        system: str | None = None,
    ) -> Answer:
        target = resources.locate(emulation, kind, uuid, system)
        emulation.jobs.check_operation(kind, operation)
        path = f'{target.path}/do/{operation}'
        request = _new(
            'JobRequest', _operation(kind, operation), _new('JobParameters')
        )
        entry = atom.Entry(target.uuid, request, path)
        return Answer(200, call.writer.entry(entry))

    return handle


def submit(kind: str) -> Handler:
    """Return the handler of PUT do/{operation}: start the job."""

    def handle(
        emulation: Emulation,
        call: Call,
        uuid: str,
        operation: str,
        system: str | None = None,
    ) -> Answer:
        target = resources.locate(emulation, kind, uuid, system)
        request = call.content()
        if content.local_name(request) != 'JobRequest':
            raise errors.BadRequest('The body is not a JobRequest.')
        job = emulation.jobs.submit(target, operation, _parameters(request))
        return _answer(call, job)

    return handle


def read(emulation: Emulation, call: Call, job_id: str) -> Answer:
    """GET jobs/{id}."""
    return _answer(call, emulation.jobs.get(job_id))


def cancel(emulation: Emulation, call: Call, job_id: str) -> Answer:
    """POST jobs/{id}/cancel."""
    return _answer(call, emulation.jobs.cancel(job_id))


def delete(emulation: Emulation, _call: Call, job_id: str) -> Answer:
    """DELETE jobs/{id}."""
    emulation.jobs.delete(job_id)
    return exchange.NO_CONTENT


def _answer(call: Call, job: jobs_module.Job) -> Answer:
    path = f'{resource_module.API}/jobs/{job.id}'
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
        _leaf('Status', job.status.value),
        _new(
            'JobRequestInstance',
            _operation(kind, job.name),
            _parameter_list('JobParameters', job.operation.parameters.items()),
        ),
    )
    if job.message:
        exception = _new('ResponseException', _leaf('Message', job.message))
        response.append(exception)
    if job.is_finished:
        response.append(_parameter_list('Results', job.results.items()))
    return response


def _operation(kind: str, name: str) -> Element:
    return _new(
        'RequestedOperation',
        _leaf('OperationName', name),
        _leaf('GroupName', kind),
    )


def _parameters(request: Element) -> dict[str, str]:
    return {
        content.text(parameter, 'ParameterName'): content.text(
            parameter, 'ParameterValue'
        )
        for parameter in content.find_all(
            request, 'JobParameters/JobParameter'
        )
    }


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
