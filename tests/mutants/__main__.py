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

"""Breaks promises of the driver, one after the other, and runs tests.

Each row of ``mutants.yaml`` changes a line of a copy of the driver. The tests
that it names must pass without the change and fail with it.
"""

import argparse
import compileall
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import tempfile

import yaml

_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parents[1]
_SECONDS = 600
# A test that cannot be found or loaded proves nothing.
_NOT_RUN = ('_FailedTest', 'Ran 0 tests')


def _copy(target):
    """Copy what tests need, compiled so that changed files are noticed."""
    ignored = shutil.ignore_patterns('__pycache__')
    for name in ('nova_powervm', 'tests', 'emulator'):
        shutil.copytree(_ROOT / name, target / name, ignore=ignored)
    compileall.compile_dir(
        target,
        quiet=1,
        invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
    )


def _run(tree, tests):
    """Run tests in a copy.

    :returns: Whether they pass; None if they were not run. And the output.
    """
    paths = (tree, tree / 'emulator')
    environ = {
        **os.environ,
        'PYTHONPATH': os.pathsep.join(map(str, paths)),
        'PYTHONDONTWRITEBYTECODE': '1',
        'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1',
    }
    names = [f'tests.{name}' for name in tests]
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-m', 'unittest', '-f', *names],
        check=False,
        cwd=tree,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    if any(words in done.stdout for words in _NOT_RUN):
        return None, done.stdout
    return done.returncode == 0, done.stdout


def _judge(tree, mutant):
    """Say what a mutant does to its tests; nothing if they notice it."""
    path = tree / 'nova_powervm' / mutant['file']
    text = path.read_text()
    if text.count(mutant['old']) != 1:
        return 'its line is not there, or not once'
    path.write_text(text.replace(mutant['old'], mutant['new']))
    try:
        passed, output = _run(tree, mutant['tests'])
    except subprocess.TimeoutExpired:
        return ''
    finally:
        path.write_text(text)
    if passed is None:
        return f'its tests were not run:\n{output}'
    return 'SURVIVES' if passed else ''


def main():
    """Run the mutants whose names contain one of the arguments, or all."""
    parser = argparse.ArgumentParser(
        prog='python -m tests.mutants', description=__doc__
    )
    parser.add_argument('words', nargs='*', help='parts of names of mutants')
    words = parser.parse_args().words
    rows = [
        row
        for row in yaml.safe_load((_HERE / 'mutants.yaml').read_text())
        if not words or any(word in row['breaks'] for word in words)
    ]
    bad = 0
    with tempfile.TemporaryDirectory() as directory:
        tree = pathlib.Path(directory)
        _copy(tree)
        # Each alone: a test that needs another one proves nothing, either.
        for name in sorted({name for row in rows for name in row['tests']}):
            passed, output = _run(tree, [name])
            if not passed:
                sys.exit(f'{name} fails without any mutant:\n{output}')
        for row in rows:
            verdict = _judge(tree, row)
            bad += bool(verdict)
            print(f'{row["breaks"]}: {verdict or "noticed"}', flush=True)
    print(f'{len(rows) - bad} of {len(rows)} mutants are noticed.')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main())
