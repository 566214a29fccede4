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

"""The command ``powervm-emulator record``."""

import argparse
import os
import sys

from powervm_emulator import app
from powervm_emulator import worlds
from powervm_emulator.core import errors
from powervm_emulator.record import mask
from powervm_emulator.record import reader as reader_module
from powervm_emulator.record import recording
from powervm_emulator.record import world

RecordError = reader_module.RecordError


def record(options: argparse.Namespace) -> None:
    """Write a world that is like the server at a URL.

    Standard error says what is not in it.

    :raises RecordError: the server can't be read, or the file is there.
    """
    if options.output and os.path.lexists(options.output):
        raise RecordError(f'{options.output} is there; name a new file')
    with reader_module.Reader(
        options.url, options.username, options.password, options.cafile
    ) as reader:
        found = recording.read(reader)
    if options.mask:
        mask.mask(found)
    text = world.write(found)
    for words in found.missing:
        print(f'not recorded: {words}', file=sys.stderr)
    _check(text)
    _write(options.output, text)


def _check(text: str) -> None:
    """Check that an emulator can serve what was written."""
    try:
        app.make_app(worlds.parse(text, 'the recorded world')).close()
    except errors.WorldError as error:
        raise RecordError(
            f'the server has what worlds cannot have: {error}'
        ) from error


def _write(path: str | None, text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        with open(path, 'x', encoding='utf-8') as file:
            file.write(text)
    except OSError as error:
        raise RecordError(f'cannot write {path}: {error.strerror}') from error
