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

"""Measures one driver with one number of devices, in a process of its own."""

import json
import os
import sys
import unittest

from tests.functional import placement_app

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')


def _case(name):
    if name == 'libvirt-pci':
        from tests.benchmark import theirs  # noqa: PLC0415

        return theirs.Theirs
    from tests.benchmark import ours  # noqa: PLC0415

    return {'powervm': ours.Ours, 'powervm-skip': ours.Skipping}[name]


def main(name, devices, repeats, path):
    """Write what was measured to a file.

    :param name: Of the contender.
    """
    case = _case(name)
    # Each question costs what it costs a real Placement.
    placement_app.KeptAnswers.keeps = False
    case.devices, case.repeats, case.outcome = int(devices), int(repeats), {}
    result = unittest.TextTestRunner(stream=sys.stderr).run(
        case('test_measure_everything')
    )
    if not result.wasSuccessful():
        return 1
    with open(path, 'w') as file:
        json.dump(case.outcome, file)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
