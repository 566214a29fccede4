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

"""LPARs on the host, and their documents."""

import ast
import dataclasses
import logging
import pathlib
import threading
import traceback
import types
import unittest
import unittest.mock

from pypowervm.utils import lpar_builder
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition

import nova_powervm
from emulator.tests import base
from nova_powervm import exception
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.powervm import partitions
from tests.unit.devices import values
from tests.unit.devices.values import settings_of


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


#: What a flavor says nothing about.
BY_HAND = {
    'uncapped_weight': 77,
    'max_io_slots': 99,
    'avail_priority': 33,
    'processor_compatibility': 'POWER8',
}
SIZES = settings_of(2048, 2, 0.5)


class DocumentTestCase(base.EmulatorTestCase):
    """One stopped LPAR with a GPU, of 2 GiB and 2 virtual processors."""

    def setUp(self):
        super().setUp()
        self.partitions = partitions.RestPartitions(
            self.adapter, types.SimpleNamespace(wrapper=self.system()), 64
        )
        self.uuid = self.make().uuid.upper()

    def make(self):
        return self.create(slots=base.GPUS[:1], **BY_HAND)

    def spec(
        self,
        slots=base.GPUS[:1],
        memory_mb=2048,
        vcpus=2,
        proc_units=0.5,
        **named,
    ):
        """Specify the LPAR of a flavor, by default that which it has."""
        present = self.partitions.find(self.uuid)
        flavor = lpar_settings.FlavorSettings(
            memory_mb, vcpus, proc_units / vcpus
        )
        wanted = lpar_settings.decide_settings(
            flavor, named, present and present.settings, [SIZES]
        )
        return partition.PartitionSpec(
            uuid=self.uuid,
            name='vm1',
            settings=wanted,
            changed=(present.settings if present else SIZES).changes(wanted),
            slots=tuple(map(partition.SlotAssignment, slots)),
            freed=frozenset(base.GPUS) - {*slots},
        )

    def change(self, *slots, before_write=lambda: None, **sizes):
        """Change the LPAR; return what the method returns."""
        return self.partitions.write(
            self.spec(slots, **sizes), before_write, creates=False
        )

    def document(self):
        """Return the text of each element of the LPAR by its place."""
        found = {}
        _collect(self.read(self.uuid).entry.element, '', found)
        return found

    def changes(self, *slots, **sizes):
        """Change the LPAR; return the names of the elements that changed."""
        before = self.document()
        self.change(*slots, **sizes)
        after = self.document()
        return {
            place.rpartition('/')[2].partition('[')[0]
            for place in before.keys() | after.keys()
            if before.get(place) != after.get(place)
        }


def _collect(element, place, found):
    children = list(element)
    found[place] = None if children else element.text
    seen = {}
    for child in children:
        number = seen[child.tag] = seen.get(child.tag, 0) + 1
        _collect(child, f'{place}/{child.tag}[{number}]', found)


class AttributesTest(DocumentTestCase):
    def test_unchanged_spec_changes_nothing(self):
        self.assertEqual(set(), self.changes(base.GPUS[0]))

    def test_new_memory_changes_amounts_of_memory_only(self):
        changed = self.changes(base.GPUS[0], memory_mb=4096)

        self.assertLess(
            {'DesiredMemory', 'MaximumMemory', 'MinimumMemory'}, changed
        )
        self.assertEqual(
            set(), {name for name in changed if 'Memory' not in name}
        )

    def test_new_processors_change_amounts_of_processors_only(self):
        changed = self.changes(base.GPUS[0], vcpus=4, proc_units=1.0)

        self.assertLess(
            {'DesiredProcessingUnits', 'DesiredVirtualProcessors'}, changed
        )
        self.assertEqual(
            set(),
            {
                name
                for name in changed
                if not name.endswith(('Units', 'Processors'))
            },
        )

    def test_attributes_outside_of_flavors_stay(self):
        self.change(base.NVME, memory_mb=4096, vcpus=4, proc_units=1.0)

        after = self.read(self.uuid)
        shared = after.proc_config.shared_proc_cfg
        self.assertEqual(77, shared.uncapped_weight)
        self.assertEqual(99, after.io_config.max_virtual_slots)
        self.assertEqual(33, after.avail_priority)
        self.assertEqual('POWER8', after.pending_proc_compat_mode)

    def test_limits_that_somebody_set_stay_with_the_size(self):
        lpar = self.read(self.uuid)
        lpar.mem_config.max = 32768
        lpar.proc_config.shared_proc_cfg.max_virtual = 16
        lpar.update()

        self.change(memory_mb=2048)

        after = self.read(self.uuid)
        self.assertEqual(32768, after.mem_config.max)
        self.assertEqual(16, after.proc_config.shared_proc_cfg.max_virtual)

    def test_limits_follow_changed_sizes(self):
        self.change(memory_mb=16384, vcpus=8, proc_units=2.0)

        after = self.read(self.uuid)
        self.assertEqual(16384, after.mem_config.desired)
        self.assertGreaterEqual(after.mem_config.max, 16384)
        shared = after.proc_config.shared_proc_cfg
        self.assertEqual(
            (8, 2.0), (shared.desired_virtual, shared.desired_units)
        )
        self.assertGreaterEqual(shared.max_virtual, 8)

    def test_kind_of_processors_changes_there_and_back(self):
        before = self.partitions.find(self.uuid).settings
        found = self.change(
            dedicated_proc=True, dedicated_sharing_mode='keep idle procs'
        )

        self.assertEqual(
            'keep idle procs', found.settings.dedicated_sharing_mode
        )
        self.assertTrue(self.read(self.uuid).proc_config.has_dedicated)

        found = self.change(shared_weight=77)

        self.assertEqual(before, found.settings)

    def test_only_what_is_named_is_written(self):
        found = self.read(self.uuid)
        before = partitions.read(found)
        wanted = dataclasses.replace(
            before, memory_mb=4096, shared_weight=1, secure_boot=2
        )

        partitions.write(found, wanted, {'memory_mb'})

        self.assertEqual(
            dataclasses.replace(before, memory_mb=4096),
            partitions.read(found),
        )

    def test_missing_sharing_mode_is_the_default(self):
        found = self.build('vm2', dedicated_proc=True)
        config = found.proc_config.element
        config.remove(config.find('SharingMode'))

        self.assertEqual(
            lpar_settings.DEFAULT_SHARING,
            partitions.read(found).dedicated_sharing_mode,
        )

    def test_impossible_sizes_are_refused(self):
        before = self.partitions.find(self.uuid).settings
        with self.assertRaises(exception.RestError):
            self.change(vcpus=1, proc_units=2.0)

        self.assertEqual(before, self.partitions.find(self.uuid).settings)


class NvramTest(DocumentTestCase):
    """What a move takes along to an LPAR that does not exist yet."""

    NVRAM = 'c2VjcmV0'

    def setUp(self):
        super().setUp()
        self.partitions.delete(self.uuid)
        self.wanted = dataclasses.replace(self.spec(), nvram=self.NVRAM)
        self.looks = 0

    def look(self):
        """Count the last looks at the slots."""
        self.looks += 1

    def write(self):
        """Create the LPAR."""
        return self.partitions.write(self.wanted, self.look, creates=True)

    def refuse(self, status, message, nth=1):
        """Have the host refuse one creation."""
        self.control.add_fault(
            match='LogicalPartition.create',
            status=status,
            message=message,
            nth=nth,
        )

    def test_new_lpar_has_the_nvram(self):
        made = self.write()

        self.assertEqual(self.NVRAM, self.partitions.nvram(self.uuid))
        self.assertEqual([], made.differences(self.wanted))
        self.assertEqual(1, self.looks)

    def test_lpar_without_nvram_has_none(self):
        self.assertIsNone(self.partitions.nvram(self.make().uuid))

    def test_lpar_is_made_without_nvram_that_the_host_refuses(self):
        for status in (400, 500):
            with self.subTest(status=status):
                self.refuse(status, f'HSCL1234 {self.NVRAM} is not valid.')
                logging.disable(logging.NOTSET)

                with self.assertLogs(level='DEBUG') as logs:
                    self.write()

                self.assertIn('it is created without', str(logs.output))
                self.assertNotIn(self.NVRAM, str(logs.output))
                self.assertIsNone(self.partitions.nvram(self.uuid))
                self.partitions.delete(self.uuid)
        # A burn is repeated before each try.
        self.assertEqual(4, self.looks)

    def test_second_refusal_does_not_tell_the_first(self):
        self.refuse(400, f'{self.NVRAM} is not valid.')
        self.refuse(400, 'There is no memory.', nth=2)

        with self.assertRaisesRegex(exception.RestError, 'memory') as caught:
            self.write()

        whole = ''.join(traceback.format_exception(caught.exception))
        self.assertNotIn(self.NVRAM, whole)

    def test_busy_host_loses_no_nvram(self):
        self.refuse(503, 'Come back later.')

        with self.assertRaises(exception.RestBusy):
            self.write()

        self.assertEqual(1, self.looks)
        self.assertIsNone(self.partitions.find(self.uuid))


class SlotsTest(DocumentTestCase):
    def make(self):
        return self.create(slots=base.GPUS[:2], required=False)

    def test_slots_are_written_without_sizes(self):
        before = self.read(self.uuid)
        spec = dataclasses.replace(
            self.spec((base.GPUS[0], base.NVME)), settings=None
        )

        found = self.partitions.write(spec, lambda: None, creates=False)

        self.assertEqual({base.GPUS[0]: True, base.NVME: True}, found.slots)
        after = self.read(self.uuid)
        for name in ('mem_config', 'proc_config'):
            self.assertEqual(
                getattr(before, name).toxmlstring(),
                getattr(after, name).toxmlstring(),
            )

    def test_slot_assigned_meanwhile_is_not_taken_away(self):
        spec = dataclasses.replace(self.spec([]), freed=frozenset())
        before = self.document()
        with self.assertRaisesRegex(exception.DocumentDiffers, 'meanwhile'):
            self.partitions.write(
                spec, lambda: self.fail('burned'), creates=False
            )
        self.assertEqual(before, self.document())

    def test_unknown_lpar_is_not_found(self):
        self.partitions.delete(self.uuid)

        with self.assertRaises(exception.PartitionNotFound):
            self.change(before_write=lambda: self.fail('burned'))

    def test_slot_of_another_lpar_changes_nothing(self):
        before = self.document()

        with self.assertRaisesRegex(exception.RestError, 'database'):
            self.change(base.FOREIGN_SLOT, memory_mb=4096)

        self.assertEqual(before, self.document())


class CreationTest(DocumentTestCase):
    """A new LPAR, whose document is written once."""

    def setUp(self):
        super().setUp()
        self.tries = []

    def make(self):
        """Return the uuid of an LPAR that there is not."""
        return types.SimpleNamespace(uuid=values.LPAR)

    def test_impossible_sizes_are_refused_before_the_last_step(self):
        with self.assertRaises(exception.PartitionConflict):
            self.partitions.write(
                self.spec(memory_mb=0),
                lambda: self.tries.append(1),
                creates=True,
            )

        self.assertEqual([], self.tries)
