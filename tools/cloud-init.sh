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

# Has cloud-init's own code read a config drive, which the test run does not
# need. Its code comes from Debian's packages, which are unpacked into a
# temporary directory and not installed. To use a directory with them:
#
#   apt-get download cloud-init python3-configobj genisoimage
#   for package in *.deb; do dpkg -x "$package" DIRECTORY; done
#   CLOUD_INIT=DIRECTORY tools/cloud-init.sh

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

# The third reads ISO 9660 file systems.
packages=(cloud-init python3-configobj genisoimage)

unpack() {
    cd "$1"
    apt-get -qq download "${packages[@]}" ||
        { apt-get -qq update && apt-get -qq download "${packages[@]}"; } ||
        return
    for package in *.deb; do
        dpkg -x "$package" . || return
    done
}

if [ -z "${CLOUD_INIT:-}" ]; then
    CLOUD_INIT=$(mktemp -d)
    trap 'rm -rf "$CLOUD_INIT"' EXIT
    if ! (unpack "$CLOUD_INIT") >/dev/null 2>&1; then
        echo 'cloud-init cannot be had here: the config drive is not read' \
            "by it. ${BASH_SOURCE[0]} says how to get it." >&2
        exit 2
    fi
fi
CLOUD_INIT=$(realpath "$CLOUD_INIT")
export CLOUD_INIT OS_NOVA_DISABLE_EVENTLET_PATCHING=1
make_venv
cd "$CHECKOUT"
PYTHONPATH=. "$VENV/bin/python" -W ignore -m unittest tests.cloud.cloud_init
