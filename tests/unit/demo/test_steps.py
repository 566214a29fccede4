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

import unittest

import requests

from nova_powervm.demo import steps
from tests.unit.demo import samples


class _Host:
    """A host with these slots; None for one that does not answer."""

    def __init__(self, slots):
        self._slots = slots

    def slots(self):
        if self._slots is None:
            raise requests.ConnectionError('refused')
        return self._slots


def _run(slots):
    """Return the steps that are taken without a cloud."""
    walk = steps.Demonstration(samples.a_stack(), None, _Host(slots))
    return list(walk.run())


class TestDemonstration(unittest.TestCase):
    def test_too_few_gpus_are_the_end(self):
        (step,) = _run([samples.a_slot('21010020')])

        self.assertFalse(step.ok)
        self.assertIn('21010020', step.shown[1])

    def test_gpus_of_partitions_do_not_count(self):
        slots = [
            samples.a_slot(f'2101002{n}', owner='vios1') for n in range(4)
        ]

        self.assertFalse(_run(slots)[0].ok)

    def test_a_host_that_does_not_answer_is_a_wrong_step(self):
        (step,) = _run(None)

        self.assertEqual('no error', step.expected)
        self.assertEqual('ConnectionError: refused', step.observed)
