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

"""The command ``powervm-emulator``.

The modules that serve requests are imported after the command line has been
parsed, so ``--help``, ``--version`` and the message about missing packages
need only the standard library.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from powervm_emulator import options as options_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says.

    :param arguments: the command line without the program's name; by default
        that of the process.
    :returns: the exit status: 0, or 1 if it cannot be done. The reason is on
        standard error.
    """
    options = options_module.parse(
        sys.argv[1:] if arguments is None else arguments
    )
    if options.password_file:
        try:
            options.password = options_module.read_password(
                options.password_file
            )
        except ValueError as error:
            return _fail(str(error))
    try:
        return _run(options)
    except ModuleNotFoundError as error:
        if (error.name or '').startswith('powervm_emulator'):
            raise
        return _fail(
            f'the Python module {error.name} is missing; install the '
            "emulator's packages: pip install ./emulator in a checkout of "
            'nova-powervm'
        )


def _run(options: argparse.Namespace) -> int:
    if options.command == options_module.RECORD:
        return _record(options)
    return _print_schema() if options.print_schema else _serve(options)


def _print_schema() -> int:
    from powervm_emulator import worlds  # noqa: PLC0415

    print(json.dumps(worlds.schema(), indent=2))
    return 0


def _serve(options: argparse.Namespace) -> int:
    from powervm_emulator import serving  # noqa: PLC0415

    try:
        serving.serve(options)
    except serving.ServeError as error:
        return _fail(str(error))
    return 0


def _record(options: argparse.Namespace) -> int:
    from powervm_emulator.record import command  # noqa: PLC0415

    try:
        command.record(options)
    except command.RecordError as error:
        return _fail(str(error))
    return 0


def _fail(message: str) -> int:
    """Print why nothing was done; return the exit status."""
    print(f'{options_module.PROGRAM}: {message}', file=sys.stderr)
    return 1
