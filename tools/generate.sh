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

# Makes the sample configuration files in etc from the options. They are kept
# because to build a wheel needs neither Nova nor Neutron.
#
# --check changes nothing, and fails if one of them is out of date.
#
# Needs the packages of the test run in the Python environment.

set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Of this checkout, wherever the programs are installed.
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

result=0
for service in nova neutron cyborg; do
    file=etc/$service/$service-powervm.conf.sample
    new=$work/${file##*/}
    oslo-config-generator --config-file "etc/$service-powervm-config-generator.conf" \
        --output-file "$new"
    if cmp -s "$new" "$file"; then
        continue
    elif [ "${1:-}" = --check ]; then
        echo "$file is out of date: run tools/generate.sh" >&2
        diff -u "$file" "$new" | head -n 30 >&2 || true
        result=1
    else
        cp "$new" "$file"
        echo "$file is new"
    fi
done
exit "$result"
