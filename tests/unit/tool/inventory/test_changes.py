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

"""What commands change, and how they print it."""

import dataclasses
import io
import unittest

from nova_powervm.devices import names
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import base as commands
from nova_powervm.tool.inventory import device_changes
from tests.unit.devices import values
from tests.unit.tool.inventory import base
from tests.unit.tool.rules import test_releasing

PLAIN = test_releasing.burned().traits
MARKS = frozenset({names.QUARANTINED_TRAIT, names.quarantine_trait('FAILED')})


class Placement:
    """Has one provider, which others change before the first write."""

    def __init__(self, provider, **changes):
        self.now = provider
        self._changes = changes
        self.written = []

    def provider(self, uuid):
        return self.now

    def write_inventory(self, provider, name, record):
        if self._changes:
            self.now = dataclasses.replace(
                self.now, generation=provider.generation + 1, **self._changes
            )
            self._changes = {}
            return False
        self.written.append((provider.generation, name, record['reserved']))
        return True

    def write_traits(self, provider, traits):
        self.now = dataclasses.replace(
            self.now, generation=provider.generation + 1, traits=traits
        )
        self.written.append((provider.generation, traits - PLAIN))
        return True


class ReleaseTest(unittest.TestCase):
    def release(self, placement, *slots):
        device_changes.release(placement, test_releasing.burned(), slots)

    def test_release_is_written_to_what_was_just_read(self):
        burned = test_releasing.burned()
        for changes, generation in (({}, 7), ({'name': burned.name}, 8)):
            placement = Placement(burned, **changes)
            self.release(placement, values.slot())
            self.assertEqual(
                [(generation, 'CUSTOM_GPU', 0)], placement.written
            )

    def test_owned_slot_is_not_released(self):
        placement = Placement(test_releasing.burned())
        with self.assertRaisesRegex(errors.DeviceUnchanged, 'is owned by'):
            self.release(placement, values.slot(owner=values.client()))
        self.assertEqual([], placement.written)

    def test_device_that_is_allocated_meanwhile_is_not_released(self):
        placement = Placement(
            test_releasing.burned(), consumers={'one': {'CUSTOM_GPU': 1}}
        )
        with self.assertRaisesRegex(errors.DeviceUnchanged, 'allocated to'):
            self.release(placement, values.slot())
        self.assertEqual([], placement.written)


class QuarantineTest(unittest.TestCase):
    def test_mark_is_written_before_the_reserve(self):
        """A reserve alone would be somebody else's."""
        placement = Placement(
            test_releasing.burned(inventory={'CUSTOM_GPU': values.record(0)})
        )
        device_changes.quarantine(placement, placement.now, 'FAILED')
        self.assertEqual([(7, MARKS), (8, 'CUSTOM_GPU', 1)], placement.written)

    def test_restored_device_is_offered_by_nova_or_stays_burned(self):
        once = frozenset({names.ONE_TIME_USE_TRAIT})
        for traits, expected in (
            (PLAIN, frozenset()),
            (PLAIN - once, frozenset({names.WITHDRAWN_TRAIT})),
        ):
            placement = Placement(test_releasing.burned(traits=traits | MARKS))
            device_changes.restore(placement, placement.now, [values.slot()])
            self.assertEqual([(7, expected)], placement.written)

    def test_card_that_is_replaced_meanwhile_stays_in_quarantine(self):
        for traits, words in ((PLAIN, 'not in q'), (PLAIN | MARKS, 'another')):
            placement = Placement(test_releasing.burned(traits=traits))
            with self.assertRaisesRegex(errors.DeviceUnchanged, words):
                device_changes.restore(
                    placement, placement.now, [values.slot(device_id=0x044B)]
                )
            self.assertEqual([], placement.written)


class FlavorCreateTest(base.ToolTestCase):
    def test_comment_registers_one_limit_for_each_class(self):
        crypto = 'crypto: {identification: {vendor_id: "1014"}}'
        file = self.write('inventory.yaml', f'{base.GPUS}{crypto}\n')
        result = self.succeed(
            *('flavor', 'create', 'mixed', '--file', file, '--count', '2'),
            *('--paragraph', 'gpus', '--paragraph', 'crypto'),
        )
        command, comment = result.out.split('\n#', 1)
        self.assertIn('resources4:', command)
        register = (
            '# openstack registered limit create --service nova '
            '--region "$OS_REGION_NAME" --default-limit 0 class:'
        )
        self.assertEqual(
            [f'{register}CUSTOM_GPU', f'{register}CUSTOM_IOSLOT'],
            comment.splitlines()[1:],
        )

    def test_processors_of_its_own_are_counted_by_placement(self):
        specs = ('--extra-spec', 'powervm:dedicated_proc=true')
        result = self.succeed(
            *('flavor', 'create', '--print', '--vcpus', '3', *specs)
        )

        self.assertEqual(
            ['powervm:dedicated_proc=true', 'resources:VCPU=12'],
            result.out.splitlines(),
        )
        result = self.run_tool('flavor', 'create', '--print', *specs)
        self.assertEqual(1, result.status)
        self.assertIn('with --vcpus', result.err)

    def test_refused_extra_spec_is_not_printed(self):
        for spec, vcpus, words in (
            ('powervm:proc_unit=1', '3', 'did you mean powervm:proc_units?'),
            ('hw:numa_nodes=2', '3', 'does not begin with powervm:'),
            # The library says why, on its own.
            ('powervm:proc_units=1', '0', ''),
        ):
            with self.subTest(spec=spec):
                result = self.run_tool(
                    *('flavor', 'create', '--print', '--vcpus', vcpus),
                    *('--extra-spec', spec),
                )

                self.assertNotEqual(0, result.status)
                self.assertEqual('', result.out)
                self.assertIn(words, result.err)


class RecordFormatTest(unittest.TestCase):
    def test_further_lines_of_a_value_are_aligned(self):
        command = 'openstack ' + 'word ' * 40 + 'end'
        out = io.StringIO()
        commands.RecordFormatter().emit_list(
            ('Slot', 'Traits', 'Owner'),
            [('21010020', f'CUSTOM_A\n{command}', ''), ('21010021', 'X', 1)],
            out,
            None,
        )
        self.assertEqual(
            [
                'Slot    21010020',
                'Traits  CUSTOM_A',
                f'        {command}',
                'Owner   -',
                '',
                'Slot    21010021',
                'Traits  X',
                'Owner   1',
            ],
            out.getvalue().splitlines(),
        )


class RestoreTest(unittest.TestCase):
    def test_device_that_is_not_in_quarantine_is_not_restored(self):
        burned = test_releasing.burned()
        placement = Placement(burned)
        with self.assertRaisesRegex(errors.DeviceUnchanged, 'quarantine'):
            device_changes.restore(placement, burned, [values.slot()])
        self.assertEqual([], placement.written)
