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
# gcc. Its arguments are stestr's: a regular expression picks tests.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

make_venv
cd "$CHECKOUT"
export OS_NOVA_DISABLE_EVENTLET_PATCHING=1
result=0
before=$(cat .stestr/next-stream 2>/dev/null || echo none)
# Services under test wait half the time: three times as many processes as processors.
# What starts none takes a third of the time of all.
others=$(nproc)
workers=$(mktemp)
trap 'rm -f "$workers"' EXIT
cat > "$workers" << END
- worker: ['^tests[.]functional[.]']
  concurrency: $(($(nproc) * 3))
- worker: ['^tests[.](?!functional[.])']
  concurrency: $others
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
