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

"""What mkvterm and rmvterm run on an emulated management partition.

The scripts that :mod:`.host_root` writes run this file by itself, so it needs
the standard library only, and starts fast.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

_FAILED = 1


def main(arguments: Sequence[str]) -> int:
    """Open or close a terminal.

    The first line of standard output is the port of an open one.

    :param arguments: the URL of the emulator, the name of the command, and
        the command's own arguments.
    :returns: the exit status: 0, 3 if the terminal was open, or 1.
    """
    url, command, *rest = arguments
    parser = argparse.ArgumentParser(prog=command)
    parser.add_argument('--id', type=int, required=True)
    if command == 'mkvterm':
        # An interactive terminal has nothing to run in here.
        parser.add_argument('--vnc', action='store_true', required=True)
        parser.add_argument('--local', action='store_true', required=True)
    options = parser.parse_args(rest)
    try:
        if command != 'mkvterm':
            _ask(url, 'close_terminal', options.id)
            return 0
        opened = _ask(url, 'open_terminal', options.id)
    except urllib.error.HTTPError as error:
        print(json.load(error)['error'], file=sys.stderr)
        return _FAILED
    except OSError as error:
        print(f'the emulator does not answer: {error}', file=sys.stderr)
        return _FAILED
    if opened['port']:
        print(opened['port'])
    if opened['message']:
        print(opened['message'], file=sys.stderr)
    return int(opened['code'])


def _ask(url: str, verb: str, partition: int) -> Any:
    request = urllib.request.Request(  # noqa: S310 - the emulator's own
        f'{url}/control/v1/{verb}',
        json.dumps({'partition': partition}).encode(),
        {'Content-Type': 'application/json'},
        method='POST',
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
        return json.load(answer)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
