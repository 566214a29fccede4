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

"""States and restarts of LPARs, and how they are never changed."""

import ast
import pathlib
import threading
import unittest
import unittest.mock

from pypowervm.utils import lpar_builder
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition

import nova_powervm
from emulator.tests import base
from nova_powervm import exception
from nova_powervm.powervm import partitions


class StateTest(unittest.TestCase):
    def test_state_refuses_malformed_answer(self):
        adapter = unittest.mock.Mock()
        adapter.read.return_value.body = '<html>'

        with self.assertRaises(exception.RestError):
            partitions.RestPartitions(adapter, None).state('it')


class Clock:
    """The time as those who poll a job see it: it passes as they wait."""

    def __init__(self):
        self.now = 0

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class RestartTest(base.EmulatorTestCase):
    def test_restart_cancels_job_after_timeout(self):
        found = partitions.RestPartitions(self.adapter, None)
        made = self.create()
        self.control.set_partition(made.uuid, 'running')
        self.control.set_job_mode('manual')
        lpar = found.find(made.uuid)
        clock = Clock()

        with (
            unittest.mock.patch.object(job, 'time', clock),
        ):
            with self.assertRaises(exception.RestError) as caught:
                found.restart(lpar, hard=False, timeout=60)
            # The library watches what it has cancelled.
            for thread in threading.enumerate():
                if isinstance(thread, job.CancelJobThread):
                    thread.join()

        self.assertIn('timed out after 60 seconds', str(caught.exception))
        self.assertLess(clock.now, 65)
        self.assertEqual([], self.control.jobs())
        self.assertEqual(1, self.control.journal_counts()['POST Job.cancel'])


class RebuildTest(base.EmulatorTestCase):
    """Why pypowervm's way to change an LPAR is not used."""

    def test_rebuild_of_pypowervm_drops_slots_that_are_not_given(self):
        made = self.create(slots=base.GPUS[:2])
        builder = lpar_builder.LPARBuilder(
            self.adapter,
            {'name': 'vm1', 'memory': 2048, 'vcpu': 2},
            lpar_builder.DefaultStandardize(self.system()),
        )

        builder.rebuild(self.read(made.uuid)).update()

        after = logical_partition.LPAR.get(self.adapter, uuid=made.uuid)
        self.assertEqual([], list(after.io_config.io_slots))

    def test_package_never_calls_rebuild_of_pypowervm(self):
        (package,) = nova_powervm.__path__
        found = [
            f'{path.name}:{node.lineno}'
            for path in pathlib.Path(package, 'powervm').rglob('*.py')
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == 'rebuild'
        ]
        self.assertEqual([], found)
