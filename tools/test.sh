#!/usr/bin/env bash
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

# Runs all tests on a machine that has nothing but Python 3.11 with venv, and
# gcc.
#
#   tools/test.sh                      all tests
#   tools/test.sh unit                 those below tests/unit
#   tools/test.sh emulator             those of the emulator, in emulator/tests
#   tools/test.sh tests/ops/test_vlans.py
#   tools/test.sh 'test_confirm.*'     those that a regular expression matches
#
# Further arguments are those of stestr run.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

make_venv
cd "$CHECKOUT"
export OS_NOVA_DISABLE_EVENTLET_PATCHING=1
result=0
if [ ! -d .stestr ]; then
    # So that the first run shares out the tests as well as later ones.
    "$VENV/bin/python" tools/durations.py read |
        "$VENV/bin/stestr" load --force-init > /dev/null
fi
before=$(cat .stestr/next-stream 2>/dev/null || echo none)
# A part is looked for in its own folder only: finding all takes seconds.
part=${1:-}
part=${part%/}
if [ -n "$part" ] && [ -d "tests/$part" ]; then
    part=tests/$part
elif [ -n "$part" ] && [ -d "$part/tests" ]; then
    part=$part/tests
fi
if [ -d "$part" ]; then
    shift
    set -- --test-path "$part" "$@"
elif [ -f "$part" ]; then
    module=${part%.py}
    shift
    set -- --test-path "$(dirname "$part")" "${module//\//[.]}[.]" "$@"
fi
# Services under test wait a third of the time. What starts none waits little,
# and each further process imports all of OpenStack once more.
services=$(($(nproc) * 3 / 2))
workers=$(mktemp)
trap 'rm -f "$workers"' EXIT
cat > "$workers" << END
- worker: ['^tests[.]functional[.]']
  concurrency: $services
- worker: ['^(?!tests[.]functional[.])']
  concurrency: $(nproc)
END
"$VENV/bin/stestr" run --worker-file "$workers" "$@" || result=$?
if [ "$(cat .stestr/next-stream 2>/dev/null || echo none)" = "$before" ]; then
    # No test ran: stestr still has the run before.
    echo '0 passed, 0 failed, 0 skipped'
    exit 1
fi
"$VENV/bin/stestr" slowest || true
"$VENV/bin/python" tools/closing_line.py \
    < <("$VENV/bin/stestr" last --subunit) || result=1
exit "$result"
