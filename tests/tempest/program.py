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

"""The programs of Tempest's environment, in the directory of a run."""

import io
import os
import pathlib
import subprocess

_HERE = pathlib.Path(__file__).parent
# What would make Tempest load the packages of this environment.
_FOREIGN = frozenset({'PYTHONPATH', 'PYTHONHOME'})
# The requests of a test that fails are in tempest.log, hundreds of lines.
_QUIET = {'OS_LOG_CAPTURE': 'False'}


class Tempest:
    """Tempest, with the tests that it runs.

    :param program: the command ``tempest``.
    :param directory: the directory with ``tempest.conf``.
    :param regex: a regular expression for the tests to run; by default those
        of ``included.txt``.
    :param excluded: the files that name the tests to leave out.
    """

    def __init__(self, program, directory, regex, excluded):
        self._program = program
        self._directory = directory
        # Tempest takes one file.
        exclusions = directory / 'excluded.txt'
        exclusions.write_text(
            '\n'.join((_HERE / name).read_text() for name in excluded)
        )
        self._selection = (
            *(
                ('--regex', regex)
                if regex
                else ('--include-list', str(_HERE / 'included.txt'))
            ),
            *('--exclude-list', str(exclusions)),
        )

    def run(self, concurrency):
        """Run the tests, and print the result of each."""
        # The status is 1 if a test fails, which the results tell.
        self._execute(
            *self._run_command(),
            *('--concurrency', str(concurrency)),
            check=False,
        )

    def names(self):
        """Return the names of the tests that were to run, sorted."""
        listed = self._execute(
            *self._run_command(), '--list-tests', stdout=subprocess.PIPE
        )
        return sorted(listed.stdout.decode().split())

    def last_results(self):
        """Return the results of the last run as a stream of subunit."""
        stestr = self._program.with_name('stestr')
        # The status is 1 if a test failed.
        found = self._execute(
            *(stestr, 'last', '--subunit'),
            stdout=subprocess.PIPE,
            check=False,
        )
        return io.BytesIO(found.stdout)

    def _run_command(self):
        return (
            *(self._program, 'run', '--config-file', 'tempest.conf'),
            *self._selection,
        )

    def _execute(self, *command, check=True, stdout=None):
        return subprocess.run(
            command,
            cwd=self._directory,
            env={
                name: value
                for name, value in {**os.environ, **_QUIET}.items()
                if name not in _FOREIGN
            },
            stdout=stdout,
            check=check,
        )
