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

"""What the extra specs of this driver write into the document of an LPAR.

The elements are read with plain HTTP, not with what wrote them.
"""

import dataclasses

import ddt

from nova_powervm import exception
from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings
from tests import plain_rest
from tests.ops import base

#: For each extra spec, a value, the text of its element, and those that it
#: needs beside it.
VALUES = {
    'min_mem': ('512', '512', {}),
    'max_mem': ('2048', '2048', {}),
    'min_vcpu': ('1', '1', {}),
    'max_vcpu': ('4', '4', {}),
    'proc_units': ('0.6', '0.60', {}),
    'min_proc_units': ('0.3', '0.30', {}),
    'max_proc_units': ('1.5', '1.50', {}),
    'dedicated_proc': ('true', 'true', {}),
    'dedicated_sharing_mode': (
        'keep_idle_procs',
        'keep idle procs',
        {'dedicated_proc': 'true'},
    ),
    'uncapped': ('false', 'capped', {}),
    'shared_weight': ('99', '99', {}),
    'processor_compatibility': ('POWER8', 'POWER8', {}),
    'srr_capability': ('true', 'true', {}),
    'secure_boot': ('2', '2', {}),
}
PLAIN = settings.FlavorSettings(1024, 2, 0.5)


def flavor(**named):
    """Return a flavor with some extra specs."""
    specs = {f'powervm:{name}': value for name, value in named.items()}
    return dataclasses.replace(PLAIN, extra_specs=specs)


@ddt.ddt
class ExtraSpecTest(base.HostTestCase):
    def setUp(self):
        super().setUp()
        self.reader = plain_rest.Host(
            self.emulator.url, self.emulator.username, self.emulator.password
        )

    def element(self, row):
        """Return the text of the element of an extra spec."""
        return self.reader.lpar_text(self.wanted.lpar_uuid, row.element)

    def change(self, operation, described, **changes):
        """Run an operation for another flavor."""
        self.wanted = dataclasses.replace(
            self.wanted, settings=described, **changes
        )
        self.run_plan(operation, self.wanted)

    @ddt.idata(extra_specs.SETTINGS)
    def test_extra_spec_is_in_the_document_after(self, row):
        value, text, beside = VALUES[row.name]
        special = flavor(**beside, **{row.name: value})
        with self.subTest(after='spawn'):
            self.wanted = self.spawn(settings=special)
            self.assertEqual(text, self.element(row))
        with self.subTest(after='hard reboot that changes nothing'):
            self.change(operations.HARD_REBOOT, special)
            self.assertEqual(text, self.element(row))
            self.assertNotIn(base.DOCUMENT[1], self.trail())
        with self.subTest(after='resize to a flavor without it'):
            self.change(
                operations.RESIZE,
                PLAIN,
                other_settings=(special,),
            )
            self.assertNotEqual(text, self.element(row))
        with self.subTest(after='hard reboot with the old flavor'):
            self.change(operations.HARD_REBOOT, special)
            self.assertEqual(text, self.element(row))
            self.assertIn(base.DOCUMENT[1], self.trail())

    def test_refused_extra_spec_changes_nothing(self):
        self.refused(
            exception.ExtraSpecUnsupported,
            operations.SPAWN,
            self.describe(settings=flavor(processor_compatibility='POWER10')),
            'powervm:processor_compatibility=POWER10: the host has only',
        )

    def test_settings_made_by_hand_survive_reboot_and_resize(self):
        self.wanted = self.spawn(settings=PLAIN)
        self.set_state(base.OFF)
        lpar = self.partitions.find(self.wanted.lpar_uuid).handle
        lpar.proc_config.shared_proc_cfg.uncapped_weight = 77
        lpar.srr_enabled = True
        lpar.update()

        self.change(operations.HARD_REBOOT, PLAIN)
        self.set_state(base.OFF)
        self.change(
            operations.RESIZE, dataclasses.replace(PLAIN, memory_mb=2048)
        )

        rows = {row.name: row for row in extra_specs.SETTINGS}
        self.assertEqual('77', self.element(rows['shared_weight']))
        self.assertEqual('true', self.element(rows['srr_capability']))
        self.assertEqual(2048, self.lpar()['memory'])

    def test_lack_of_memory_is_refused_with_what_the_hypervisor_uses(self):
        free = self.managed.read().memory_free_mb

        found = self.failed(
            exception.InsufficientCapacity,
            operations.SPAWN,
            self.describe(settings=dataclasses.replace(PLAIN, memory_mb=free)),
        )

        self.assertEqual(
            ['PUT ManagedSystem.job', 'DELETE Job.delete'], self.changes()
        )
        self.assertGreater(float(found.fields['needed']), free)
        self.assertEqual(free, float(found.fields['free']))

    def test_move_is_refused_before_the_guest_stops(self):
        self.wanted = self.spawn(settings=PLAIN)
        large = dataclasses.replace(PLAIN, vcpus=64, units_per_vcpu=1.0)
        moved = dataclasses.replace(
            self.wanted,
            settings=large,
            other_settings=(PLAIN,),
            power_on=False,
            runs_later=True,
        )
        for row in (operations.RESIZE, operations.ARRIVAL):
            with self.subTest(row=row):
                self.forget()
                with self.assertRaises(exception.InsufficientCapacity):
                    self.lpars.check(row, moved)
                self.assertEqual([], self.changes())

    def test_rebuild_of_stopped_server_needs_room_before_it_is_removed(self):
        self.wanted = self.spawn(settings=PLAIN)
        large = dataclasses.replace(PLAIN, vcpus=64, units_per_vcpu=1.0)
        rebuilt = dataclasses.replace(self.wanted, settings=large)
        with self.assertRaises(exception.InsufficientCapacity):
            self.lpars.check(
                operations.SPAWN,
                rebuilt,
                base.Askers(image=base.Source()),
            )

    def test_capped_processors_have_no_weight(self):
        self.wanted = self.spawn(settings=flavor(uncapped='false'))
        weight = next(
            row for row in extra_specs.SETTINGS if row.name == 'shared_weight'
        )
        self.assertIsNone(self.element(weight))

        self.change(operations.HARD_REBOOT, flavor(uncapped='true'))
        self.assertEqual('64', self.element(weight))
        self.change(operations.HARD_REBOOT, flavor(uncapped='false'))

        self.assertIsNone(self.element(weight))

    def test_lack_of_processors_is_refused(self):
        free = self.managed.read().proc_units_free

        self.refused(
            exception.InsufficientCapacity,
            operations.SPAWN,
            self.describe(
                settings=dataclasses.replace(
                    flavor(dedicated_proc='true'), vcpus=int(free) + 1
                )
            ),
            f'more processing units, but the host has {free:g} free',
        )
