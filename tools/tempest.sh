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

# Runs Tempest against the cloud of the demonstration, and compares the results
# with those of another run. "tools/tempest.sh --help" lists the commands.
#
# Tempest gets a Python environment of its own:
#
#   NOVA_POWERVM_TEMPEST_VENV  its directory; by default below the user's cache
#                              directory
#
# Also see tools/venv.sh.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

TEMPEST=tempest==47.0.0
TEMPEST_VENV=${NOVA_POWERVM_TEMPEST_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/nova-powervm/tempest}

make_tempest_venv() {
    local python=${NOVA_POWERVM_PYTHON:-python3.11}
    local stamp=$TEMPEST_VENV/nova-powervm.stamp
    local wanted
    wanted=$(printf '%s\n' "$TEMPEST" | cat - "$CHECKOUT/constraints.txt" |
        sha256sum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    echo "installing $TEMPEST in $TEMPEST_VENV"
    "$python" -m venv --clear "$TEMPEST_VENV"
    "$TEMPEST_VENV/bin/python" -m pip install --quiet --no-input \
        --disable-pip-version-check -c "$CHECKOUT/constraints.txt" "$TEMPEST"
    printf '%s\n' "$wanted" > "$stamp"
}

make_venv
make_tempest_venv
export OS_NOVA_DISABLE_EVENTLET_PATCHING=1
export PYTHONPATH=$CHECKOUT${PYTHONPATH:+:$PYTHONPATH}
exec "$VENV/bin/python" -W ignore -m tests.tempest \
    --tempest "$TEMPEST_VENV/bin/tempest" "$@"
