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

# Checks the alert rules in etc/prometheus, their tests and the dashboard in
# etc/grafana with promtool, which the test run does not need. Debian's package
# prometheus has it; without installing it:
#
#   apt-get download prometheus && dpkg -x prometheus_*.deb DIRECTORY
#   PROMTOOL=DIRECTORY/usr/bin/promtool tools/promtool.sh

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

PROMTOOL=${PROMTOOL:-promtool}
if ! command -v "$PROMTOOL" >/dev/null; then
    echo 'promtool is not installed: the alert rules and the dashboard are' \
        "not checked with it. ${BASH_SOURCE[0]} says how to get it." >&2
    exit 2
fi
PROMTOOL=$(realpath "$(command -v "$PROMTOOL")")
make_venv
cd "$CHECKOUT"
exec "$VENV/bin/python" -m tests.promtool "$PROMTOOL"
