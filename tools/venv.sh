# shellcheck shell=bash
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

# Makes the Python environment that the scripts of this directory run in.
# They source this file, call make_venv, and use the programs in $VENV/bin.
#
#   NOVA_POWERVM_VENV    the environment's directory; by default .venv in the
#                        checkout
#   NOVA_POWERVM_PYTHON  the Python 3.11 to make it with; by default
#                        python3.11
#
# It is made anew, or brought up to date, when one of the files that say what
# belongs in it has changed; otherwise make_venv takes no time.

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${NOVA_POWERVM_VENV:-$CHECKOUT/.venv}
case $VENV in
    /*) ;;
    *) VENV=$PWD/$VENV ;;
esac

# Tests, services and commands are many processes. Without byte code on the
# disk each of them compiles OpenStack anew, which takes it seconds.
unset PYTHONDONTWRITEBYTECODE

make_venv() {
    # Two scripts that start together must not both install. The lock is on
    # the directory itself, so no file is left behind.
    exec 9<"$CHECKOUT"
    if command -v flock >/dev/null; then
        flock 9
    fi
    _venv_bring_up_to_date
    exec 9<&-
}

_venv_bring_up_to_date() {
    local python=${NOVA_POWERVM_PYTHON:-python3.11}
    local stamp=$VENV/nova-powervm.stamp
    local wanted
    wanted=$(_venv_fingerprint)
    if [ -x "$VENV/bin/python" ] && [ -f "$stamp" ] &&
        [ "$(cat "$stamp")" = "$wanted" ]; then
        return 0
    fi
    _venv_check_machine "$python"
    if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        _venv_say "making a Python environment in $VENV"
        "$python" -m venv --clear "$VENV"
    fi
    rm -f "$stamp"
    _venv_install
    printf '%s\n' "$wanted" > "$stamp"
}

_venv_say() {
    printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*"
}

_venv_fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# What the environment is made from, as one line.
_venv_fingerprint() {
    (
        cd "$CHECKOUT" || exit
        {
            pwd
            for file in setup.cfg setup.py pyproject.toml requirements.txt \
                constraints.txt emulator/pyproject.toml emulator/setup.py; do
                if [ -f "$file" ]; then
                    echo "$file"
                    cat "$file"
                fi
            done
        } | sha256sum | cut -d ' ' -f 1
    )
}

_venv_check_machine() {
    command -v "$1" >/dev/null ||
        _venv_fail "needs $1 (or say which in NOVA_POWERVM_PYTHON)"
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' ||
        _venv_fail "$1 is older than Python 3.11"
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        _venv_fail "$1 lacks its venv module (Debian: python3.11-venv)"
    # Some dependencies may come without a build for this machine.
    command -v gcc >/dev/null || _venv_fail 'needs gcc'
}

# The installer prints nothing for a long time, so it writes to a file and this
# function says now and then that it goes on.
_venv_install() {
    local log=$VENV/install.log
    local began=$SECONDS
    local pid
    # pbr asks git for the version. Where git can't tell, any one will do.
    if ! git -C "$CHECKOUT" rev-parse HEAD >/dev/null 2>&1; then
        export PBR_VERSION=${PBR_VERSION:-0.0.0}
    fi
    _venv_say 'installing OpenStack and this project: about a minute'
    # A process group of its own, because it starts others.
    set -m
    venv_install -e "${CHECKOUT}[demo,test]" -e "$CHECKOUT/emulator" \
        >"$log" 2>&1 &
    pid=$!
    set +m
    # Ctrl-C ends the script, and must not leave the installer behind.
    trap 'kill -- "-$pid" 2>/dev/null || true' EXIT
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        if [ $(((SECONDS - began) % 10)) -eq 0 ]; then
            _venv_say "  still at it ($((SECONDS - began)) s)"
        fi
    done
    trap - EXIT
    if ! wait "$pid"; then
        tail -n 20 "$log" >&2
        _venv_fail "pip failed; all that was said is in $log"
    fi
    _venv_say "installed in $((SECONDS - began)) s"
}

# Installs what pip's arguments name, in the versions of the constraints. uv
# takes a fifth of pip's time; where it fails, pip does it, or says why not.
venv_install() {
    local arguments=("$@")
    local uv=(uv)
    if [ -f "$CHECKOUT/constraints.txt" ]; then
        arguments+=(-c "$CHECKOUT/constraints.txt")
        uv+=(-c "$CHECKOUT/constraints.txt")
    fi
    if ! { _venv_pip install --quiet "${uv[@]}" &&
        _venv_uv "${arguments[@]}"; }; then
        # Python compiles what is used when it is used: little of it all.
        _venv_pip install --no-compile --progress-bar off "${arguments[@]}"
    fi
}

_venv_pip() {
    "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}

# uv does not read pip's settings, and would look for packages elsewhere.
#
# Its default is to ask for a package only the first index that has any version
# of it, so that a mirror with some versions hides the one that the constraints
# want. So the next index is asked, too, but only for what those before it do
# not have in that version: no index can override one that comes before it, as
# it could with unsafe-best-match, and can with pip.
_venv_uv() (
    while IFS='=' read -r name value; do
        value=${value#\'}
        value=${value%\'}
        value=${value//\\n/ }
        case ${name##*.} in
            cert) export SSL_CERT_FILE=$value ;;
            constraint) export UV_CONSTRAINT=$value ;;
            extra-index-url) export UV_INDEX=$value ;;
            find-links) export UV_FIND_LINKS=${value// /,} ;;
            index-url) export UV_DEFAULT_INDEX=$value ;;
            no-index) export UV_NO_INDEX=$value ;;
            trusted-host) export UV_INSECURE_HOST=$value ;;
        esac
    done < <(_venv_pip config list)
    "$VENV/bin/uv" pip install --quiet \
        --index-strategy unsafe-first-match \
        --python "$VENV/bin/python" "$@"
)
