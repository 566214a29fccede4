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

# Demonstrates device passthrough with a small OpenStack cloud, this driver and
# an emulated PowerVM host. Needs only Python 3.11 with venv, and gcc.
# "tools/demo.sh --help" lists the options.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

make_venv
# The demonstration prints commands that start it again.
export NOVA_POWERVM_DEMO_SCRIPT=$0
# It is installed nowhere.
export PYTHONPATH=$CHECKOUT${PYTHONPATH:+:$PYTHONPATH}
exec "$VENV/bin/python" -m demo "$@"
