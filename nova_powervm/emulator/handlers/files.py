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


"""Files, and their contents, which are not held in memory."""

from collections.abc import Iterator
from typing import IO

from nova_powervm.emulator import emulation as emulation_module
from nova_powervm.emulator import errors
from nova_powervm.emulator import exchange
from nova_powervm.emulator.state import files as files_module

Answer = exchange.Answer
Call = exchange.Call
Emulation = emulation_module.Emulation
File = files_module.File

_CHUNK = 1 << 16
_PATH = f'{files_module.API}/{files_module.KIND}'


def feed(emulation: Emulation, call: Call) -> Answer:
    """Answer with the Files that clients have not deleted."""
    return call.feed(emulation.host.all(files_module.KIND), _PATH)


def entry(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """Answer with one File."""
    found = _file(emulation, uuid)
    return call.entry(found, found.path)


def create(emulation: Emulation, call: Call) -> Answer:
    """PUT File: say what is to be uploaded, and where."""
    made = files_module.create(emulation.host, call.content())
    return call.entry(made, made.path)


def delete(emulation: Emulation, _call: Call, uuid: str) -> Answer:
    """DELETE File; what was uploaded stays."""
    emulation.host.remove(_file(emulation, uuid))
    return exchange.NO_CONTENT


def upload(emulation: Emulation, call: Call, uuid: str) -> Answer:
    """PUT or POST File/contents/{uuid}: take the bytes that arrive.

    Runs without the host's lock, so that others are served meanwhile.
    """
    host = emulation.host
    with host.condition:
        file = _file(emulation, uuid)
        files_module.check_ready(host, file, 0)
        arriving = host.contents.receive()
    try:
        for chunk in call.arriving.chunks():
            arriving.write(chunk)
        with host.condition:
            # It may have been deleted, or the world replaced.
            if host.find(files_module.KIND, uuid) is not file:
                raise errors.NotFound(f'The File {uuid} is gone.')
            files_module.take(host, file, arriving.finish())
    except BaseException:
        arriving.discard()
        raise
    return exchange.NO_CONTENT


def download(emulation: Emulation, _call: Call, uuid: str) -> Answer:
    """GET File/contents/{uuid}: what is on the File's disk or medium."""
    content = files_module.stored(emulation.host, _file(emulation, uuid))
    return Answer(
        200,
        content_type='application/octet-stream',
        chunks=_chunks(content.open()),
        length=content.size,
    )


def _file(emulation: Emulation, uuid: str) -> File:
    found = emulation.host.get(files_module.KIND, uuid)
    assert isinstance(found, File)  # noqa: S101 - for the type checker
    return found


def _chunks(stored: IO[bytes]) -> Iterator[bytes]:
    with stored:
        while chunk := stored.read(_CHUNK):
            yield chunk
