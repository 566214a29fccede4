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

import dataclasses
import io
import pathlib
import tempfile
import unittest

import requests

from demo import launcher
from demo import server_steps
from demo import step_context
from demo import steps
from nova_powervm.tool.inventory import app
from tests.unit.demo import samples


class _Host:
    """A host with these slots; None for one that does not answer."""

    def __init__(self, slots):
        self._slots = slots

    def slots(self):
        if self._slots is None:
            raise requests.ConnectionError('refused')
        return self._slots


class _Cloud:
    """A cloud that only stores flavors."""

    def __init__(self):
        self.flavors = {}

    def create_flavor(self, name, extra_specs, _sizes):
        self.flavors[name] = extra_specs

    def extra_specs(self, name):
        return self.flavors[name]


def _context(slots=(), cloud=None):
    return step_context.Context(samples.a_stack(), cloud, _Host(slots))


class RunStepsTest(unittest.TestCase):
    """The steps that need no cloud."""

    def test_steps_end_if_gpus_are_too_few(self):
        slots = [samples.a_slot('21010020')]

        (step,) = steps.run_steps(_context(slots))

        self.assertFalse(step.ok)
        self.assertIn('21010020', step.shown[1])

    def test_owned_gpus_do_not_count(self):
        slots = [
            samples.a_slot(f'2101002{n}', owner='vios1') for n in range(4)
        ]

        step = next(steps.run_steps(_context(slots)))

        self.assertFalse(step.ok)

    def test_unreachable_host_is_a_wrong_step(self):
        (step,) = steps.run_steps(_context(slots=None))

        self.assertEqual('no error', step.expected)
        self.assertEqual('ConnectionError: refused', step.observed)


class FlavorsTest(unittest.TestCase):
    """The flavors of the demonstration pass the project's own lint."""

    def setUp(self):
        super().setUp()
        self.cloud = _Cloud()
        self.context = _context(cloud=self.cloud)
        self.context.gpus = ['21010020', '21010021', '21010022']

        self.context.allocated_gpus = ['21010020']

    def lint(self, extra_specs):
        """Run the operator's lint; return its exit status and output."""
        options = [f'--extra-spec={k}={v}' for k, v in extra_specs.items()]
        output = io.StringIO()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'inventory.yaml'
            path.write_text(launcher.default_inventory())
            status = app.InventoryApp(stdout=output, stderr=output).run(
                ['flavor', 'lint', '--file', str(path), *options]
            )
        return status, output.getvalue()

    def test_flavors_pass_the_lint(self):
        server_steps.create_flavor_one(self.context)
        server_steps.create_flavor_two(self.context)
        server_steps.create_flavor_taken(self.context)

        self.assertEqual(3, len(self.cloud.flavors))
        for name, extra_specs in self.cloud.flavors.items():
            with self.subTest(name):
                status, output = self.lint(extra_specs)
                self.assertEqual(0, status, output)

    def test_lint_finds_missing_owner_trait(self):
        status, _ = self.lint(server_steps.gpu_group(1, 'CUSTOM_TESLA_V100'))

        self.assertEqual(1, status)

    def test_lint_step_is_wrong_if_the_command_fails(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory, 'bin', 'nova-powervm-inventory')
            program.parent.mkdir()
            program.write_text(
                '#!/bin/sh\necho "$@"; echo $OS_USERNAME; exit 1'
            )
            program.chmod(0o755)
            self.context.stack = dataclasses.replace(
                self.context.stack, prefix=pathlib.Path(directory)
            )

            expected, observed, shown = server_steps.lint_flavors(self.context)

        self.assertNotEqual(expected, observed)
        self.assertEqual(
            '--config-file /state/etc/nova.conf flavor lint --cloud', shown[1]
        )
        self.assertEqual('admin', shown[2])
