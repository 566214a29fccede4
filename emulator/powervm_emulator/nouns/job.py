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

"""Jobs, which clients poll, cancel and delete."""

from powervm_emulator.core import emulation as emulation_module
from powervm_emulator.core import exchange
from powervm_emulator.core import job_documents
from powervm_emulator.core import noun
from powervm_emulator.core import resource
from powervm_emulator.core import route

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
_PATH = f'{resource.API}/jobs/<job_id>'


def delete(emulation: Emulation, _call: Call, job_id: str) -> Answer:
    """DELETE jobs/{id}."""
    emulation.jobs.delete(job_id)
    return exchange.NO_CONTENT


def read(emulation: Emulation, call: Call, job_id: str) -> Answer:
    """GET jobs/{id}."""
    return job_documents.answer(call, emulation.jobs.get(job_id))


def cancel(emulation: Emulation, call: Call, job_id: str) -> Answer:
    """POST jobs/{id}/cancel."""
    return job_documents.answer(call, emulation.jobs.cancel(job_id))


NOUN = noun.Noun(
    'Job',
    routes=(
        route.Route('GET', _PATH, read, 'Job.read'),
        route.Route('DELETE', _PATH, delete, 'Job.delete'),
        route.Route('POST', f'{_PATH}/cancel', cancel, 'Job.cancel'),
    ),
)
