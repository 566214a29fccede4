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

# Installs Debian's Chromium, and playwright, which drives it, into the Python
# environment: for tests/cloud/console_page.py. Needs root.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

make_venv
if ! command -v chromium >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends chromium >/dev/null
fi
# Debian's browser will do: playwright's own is not fetched.
venv_install 'playwright==1.65.*'
