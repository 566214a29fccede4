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

# Makes the files of the repository that are made from others: the manual
# pages in doc/man and the sample configuration files in etc. They are kept
# because to build a wheel needs neither Sphinx nor Nova.
#
# --check changes nothing, and fails if one of them is out of date.
#
# Needs the packages of doc/requirements.txt in the Python environment.

set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Of this checkout, wherever the programs are installed.
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/etc/nova" "$work/etc/neutron" "$work/etc/cyborg" \
    "$work/doc/man" "$work/emulator"

oslo-config-generator --config-file etc/nova-powervm-config-generator.conf \
    --output-file "$work/etc/nova/nova-powervm.conf.sample"
oslo-config-generator --config-file etc/neutron-powervm-config-generator.conf \
    --output-file "$work/etc/neutron/neutron-powervm.conf.sample"
oslo-config-generator --config-file etc/cyborg-powervm-config-generator.conf \
    --output-file "$work/etc/cyborg/cyborg-powervm.conf.sample"
# No date, and no version of the day: the pages change with their sources only.
sphinx-build -q -W --keep-going -b man -d doc/build/doctrees -D today=' ' -D release=' ' \
    doc/source "$work/man"
cp "$work"/man/*.1 "$work/doc/man"
# The emulator is a project of its own.
mv "$work/doc/man/powervm-emulator.1" "$work/emulator"

result=0
for file in etc/nova/nova-powervm.conf.sample \
    etc/neutron/neutron-powervm.conf.sample \
    etc/cyborg/cyborg-powervm.conf.sample \
    $(cd "$work" && ls doc/man/*.1 emulator/*.1); do
    if cmp -s "$work/$file" "$file"; then
        continue
    elif [ "${1:-}" = --check ]; then
        echo "$file is out of date: run tools/generate.sh" >&2
        diff -u "$file" "$work/$file" | head -n 30 >&2 || true
        result=1
    else
        mkdir -p "$(dirname "$file")"
        cp "$work/$file" "$file"
        echo "$file is new"
    fi
done
exit "$result"
