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

# Runs a test that chooses at random, again and again with another seed, until
# so many minutes are over. A round that has begun is ended. After a failure it
# prints the command that repeats it; a length of 0 minutes is one round.

set -eu

. "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

# Each round gets its seed in the environment.
test_round() {
    NOVA_POWERVM_TEST_SEED=$seed "$VENV/bin/python" -m unittest "$@"
}

in_all_cases() {
    NOVA_POWERVM_TEST_ALL_REQUESTS=1 NOVA_POWERVM_TEST_PART=$((seed % 5))/5 \
        test_round "$@"
}

# name: a round of it, its usual length, and what it does
soak_stories() { # 10 min: tells the stories of functional tests in another order
    NOVA_POWERVM_TEST_STORY_ORDER=$seed test_round $(
        grep -l 'tell_stories()' tests/functional/test_*.py |
            sed 's/\.py$//; s,/,.,g'
    )
}
soak_properties() { # 5 min: looks for counterexamples to all properties
    test_round discover -t . -s tests/property
}
soak_simulation() { # 1 min: simulates two hosts, Placement and Nova
    "$VENV/bin/python" -m tests.property.simulation --steps 4000 --seed "$seed"
}
soak_reports() { # 3 min: disturbs each write of a first report to Cyborg
    test_round tests.soak.report_sweep
}
soak_request-states() { # 4 min: does each operation in each state of requests
    NOVA_POWERVM_TEST_ALL_STATES=1 test_round \
        tests.functional.test_request_states
}
soak_requests() { # 10 min: disturbs each request of operations on LPARs
    NOVA_POWERVM_TEST_ALL_REQUESTS=1 test_round \
        tests.ops.test_faults tests.ops.test_kills \
        tests.ops.test_reading tests.ops.test_volume_faults \
        tests.ops.test_check_partition tests.ops.test_check_slot
}
soak_evacuation-starts() { # 15 min: starts a host at each access of another's start
    NOVA_POWERVM_TEST_ALL_REQUESTS=1 test_round tests.soak.start_sweep
}
soak_moves() { # 3 min: disturbs some requests of a move
    test_round tests.soak.move_sweep
}
soak_all-moves() { # hours: disturbs each request of all moves
    in_all_cases tests.soak.move_sweep
}
soak_all-move-kills() { # hours: kills nova-compute at each request of all moves
    NOVA_POWERVM_TEST_KILLS=1 in_all_cases tests.soak.move_sweep
}
soak_all-move-states() { # hours: sets the state at each request of all moves
    NOVA_POWERVM_TEST_STATES=1 in_all_cases tests.soak.move_sweep
}
soak_images() { # 3 min: disturbs some requests of a snapshot, shelve or unshelve
    test_round tests.soak.image_sweep
}
soak_all-images() { # 60 min: disturbs each request of snapshots and shelves
    NOVA_POWERVM_TEST_ALL_REQUESTS=1 test_round tests.soak.image_sweep
}
soak_all-image-kills() { # 60 min: kills nova-compute at each of these requests
    NOVA_POWERVM_TEST_KILLS=1 NOVA_POWERVM_TEST_ALL_REQUESTS=1 \
        test_round tests.soak.image_sweep
}
soak_volumes() { # 3 min: disturbs some requests of an operation with volumes
    test_round tests.soak.volume_sweep
}
soak_all-volumes() { # 20 min: disturbs each request of operations with volumes
    NOVA_POWERVM_TEST_ALL_REQUESTS=1 test_round tests.soak.volume_sweep
}
soak_all-volume-kills() { # 20 min: kills nova-compute at each of these requests
    NOVA_POWERVM_TEST_KILLS=1 NOVA_POWERVM_TEST_ALL_REQUESTS=1 \
        test_round tests.soak.volume_sweep
}
soak_volume-moves() { # 5 min: disturbs some requests of a move with volumes
    test_round tests.soak.volume_move_sweep
}
soak_all-volume-moves() { # hours: disturbs each request of these moves
    in_all_cases tests.soak.volume_move_sweep
}
soak_all-volume-move-kills() { # hours: kills nova-compute at each of them
    NOVA_POWERVM_TEST_KILLS=1 in_all_cases tests.soak.volume_move_sweep
}
soak_live-migrations() { # 3 min: disturbs live migrations, also by kills, aborts, power losses
    test_round tests.soak.live_migration_sweep
}
soak_all-live-migrations() { # hours: does that at each request of both hosts, and each step
    in_all_cases tests.soak.live_migration_sweep
}
soak_pool-kills() { # 10 min: kills nova-computes of a cloud at some requests
    "$VENV/bin/python" -m tests.cloud.pool_kills --seed "$seed" --cases 20
}
soak_adoption() { # 2 min: brings an LPAR into a cloud by the commands of the page
    "$VENV/bin/python" -W ignore -m tests.cloud.adoption
}

names() {
    sed -n 's/^soak_\([a-z-]*\)() { # \(.*\): \(.*\)/\1\t\2\t\3/p' \
        "${BASH_SOURCE[0]}"
}

name=${1:-}
if [ $# -lt 2 ] || ! names | cut -f 1 | grep -qxe "$name"; then
    echo 'usage: tools/soak.sh NAME MINUTES [SEED]'
    echo
    names | awk -F '\t' '{printf "  %-22s %s (a round: %s)\n", $1, $3, $2}'
    exit 2
fi
minutes=$2
seed=${3:-$(date +%s)}

make_venv
cd "$CHECKOUT"
export OS_NOVA_DISABLE_EVENTLET_PATCHING=1
SECONDS=0
while
    echo "=== $name, seed $seed, $((SECONDS / 60)) of $minutes minutes"
    if ! "soak_$name"; then
        echo "=== failed; repeat it with: tools/soak.sh $name 0 $seed"
        exit 1
    fi
    [ $SECONDS -lt $((minutes * 60)) ]
do
    seed=$((seed + 1))
done
echo "=== $name: no failure up to seed $seed"
