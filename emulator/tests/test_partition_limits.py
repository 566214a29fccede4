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

"""What an LPAR can have of its system, and when changes take effect."""

import re

from pypowervm.tasks import memory
from pypowervm.tasks import power
from pypowervm.tasks import power_opts
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import logical_partition as lpar

from powervm_emulator.nouns.managed_system import model as managed_system

from . import base

MODE = 'PendingProcessorCompatibilityMode'
SYSTEM = {
    'name': 'limited',
    'memory': {'configurable': 65536, 'hypervisor': 4096, 'region_size': 128},
    'processors': {
        'configurable': 16,
        'compatibility_modes': ['default', 'POWER9', 'POWER10'],
        'minimum_units': 0.1,
        'desired_limit': 4,
        'maximum_limit': 8,
    },
    'capabilities': {
        'simplified_remote_restart': False,
        'simplified_remote_restart_toggle': False,
        'secure_boot': False,
    },
}


def shared(**values):
    """Return a change of the shared processors of an LPAR."""

    def change(lpar_):
        for name, value in values.items():
            setattr(lpar_.proc_config.shared_proc_cfg, name, value)

    return change


def dedicated(mode='sre idle proces', **amounts):
    """Return a change to dedicated processors: ``min``, ``desired``, ``max``.

    :param mode: how they share.
    """
    amounts = {'desired': 2, **amounts}

    def change(lpar_):
        lpar_.proc_config = bp.PartitionProcessorConfiguration.bld_dedicated(
            lpar_.adapter,
            amounts['desired'],
            min_proc=amounts.get('min'),
            max_proc=amounts.get('max'),
            sharing_mode=mode,
        )

    return change


def attribute(**values):
    """Return a change of attributes of an LPAR's wrapper."""

    def change(lpar_):
        for name, value in values.items():
            target, _, last = name.rpartition('__')
            setattr(getattr(lpar_, target) if target else lpar_, last, value)

    return change


def add_dedicated(lpar_):
    """Add dedicated processors to the shared ones of an LPAR."""
    lpar_.proc_config._dedicated_proc_cfg(
        bp.DedicatedProcessorConfiguration.bld(lpar_.adapter, 2)
    )


def remove_shared(lpar_):
    """Take the shared processors of an LPAR away, and leave no others."""
    section = lpar_.proc_config.element
    section.remove(section.find('SharedProcessorConfiguration'))


#: Changes that a system like ``SYSTEM`` refuses, and what it says.
REFUSED = (
    (
        attribute(mem_config__min=4096),
        '4096 minimum, 2048 desired and 2048 MB maximum is not in order',
    ),
    (
        attribute(mem_config__max=2049),
        '2049 MB of memory is not a multiple of .* size, 128 MB',
    ),
    (
        shared(min_virtual=3),
        '3 minimum, 2 desired and 2 maximum virtual processors are not',
    ),
    (
        shared(max_units=0.1),
        '0.5 minimum, 0.5 desired and 0.1 maximum processor units are not',
    ),
    (
        shared(min_units=0.1, desired_units=0.19),
        '0.19 processor units are not between 0.2 and 2',
    ),
    (
        shared(desired_units=2.1, max_units=3),
        '2.1 processor units are not between 0.2 and 2',
    ),
    (
        shared(desired_virtual=5, max_virtual=5),
        '5 desired virtual processors are more than the 4 that a partition '
        'of the type AIX/Linux can have',
    ),
    (
        shared(max_virtual=9),
        '9 maximum virtual processors are more than the 8',
    ),
    (shared(uncapped_weight=256), "'256' is not 0 to 255 for UncappedWeight"),
    (
        attribute(proc_config__sharing_mode='donating'),
        "'donating' is not capped or .* for SharingMode",
    ),
    (
        attribute(proc_config__sharing_mode='keep idle procs'),
        "'keep idle procs' is not a sharing mode of shared processors: these "
        'are capped, uncapped',
    ),
    (
        dedicated('uncapped'),
        "'uncapped' is not a sharing mode of dedicated processors: these are "
        'sre idle proces, keep idle procs,',
    ),
    (
        dedicated(min=3),
        '3 minimum, 2 desired and 2 maximum dedicated processors are not in',
    ),
    (
        dedicated(desired=5),
        '5 desired dedicated processors are more than the 4',
    ),
    (dedicated(max=9), '9 maximum dedicated processors are more than the 8'),
    (
        add_dedicated,
        'a SharedProcessorConfiguration or a Dedicated.*, not both',
    ),
    (
        remove_shared,
        'there is no SharedProcessorConf|lacks the attributes min_procs',
    ),
    (
        attribute(proc_compat_mode='POWER8'),
        'does not support the processor compatibility mode POWER8',
    ),
    (
        attribute(srr_enabled=True),
        'does not support the simplified remote restart of partitions',
    ),
    (
        attribute(pending_secure_boot=1),
        'The system does not support secure boot',
    ),
    (
        attribute(pending_secure_boot=10),
        "'10' is not 0 to 9 for PendingSecureBoot",
    ),
    (
        attribute(avail_priority=256),
        "'256' is not 0 to 255 for AvailabilityPriority",
    ),
)


def status(message):
    """Return the status of a refusal: that of the schema, or of the host."""
    return 400 if re.match("'.*' is not .* for ", message) else 500


class LimitTest(base.EmulatorTestCase):
    world = {'systems': [SYSTEM]}  # noqa: RUF012 - as in the other tests

    def test_system_reports_limits_of_world(self):
        system = self.system()
        self.assertEqual(
            (0.1, 4, 4, 8, 8, 128),
            (
                system.min_proc_units,
                system.max_procs_per_aix_linux_lpar,
                system.max_vcpus_per_aix_linux_lpar,
                system.max_sys_procs_limit,
                system.max_sys_vcpus_limit,
                system.memory_region_size,
            ),
        )
        self.assertEqual(
            ('default', 'POWER9', 'POWER10'), system.proc_compat_modes
        )

    def test_system_reports_capabilities_of_world(self):
        keys = {
            'simplified_remote_restart': 'simplified_remote_restart_capable',
            'simplified_remote_restart_toggle': 'dynamic_srr_capable',
            'secure_boot': 'partition_secure_boot_capable',
        }
        for wanted in (True, False):
            for key, name in keys.items():
                with self.subTest(f'{key} {wanted}'):
                    capabilities = {**SYSTEM['capabilities'], key: wanted}
                    self.control.load_world(
                        {'systems': [{**SYSTEM, 'capabilities': capabilities}]}
                    )
                    found = self.system().get_capabilities()
                    self.assertEqual(wanted, found[name])
                    others = set(keys.values()) - {name}
                    self.assertFalse(any(found[other] for other in others))

    def test_system_reports_what_world_says_of_aix(self):
        for said, capable in (
            ('Active', True),
            ('Inactive', False),
            ('Unavailable', True),
        ):
            with self.subTest(said):
                system = {**SYSTEM, 'capabilities': {'aix': said}}
                self.control.load_world({'systems': [system]})
                found = self.system()
                self.assertEqual(capable, found.get_capability('aix_capable'))
                self.assertEqual(
                    said, found.element.findtext(managed_system.AIX)
                )

    def test_new_lpar_beyond_limits_is_refused(self):
        for change, message in REFUSED:
            with self.subTest(message):
                wrong = self.build()
                change(wrong)
                self.assert_refused(status(message), message, wrong.create)
        self.assertEqual([], lpar.LPAR.get(self.adapter))

    def test_change_beyond_limits_is_refused(self):
        made = self.create()
        before = made.toxmlstring()
        for change, message in REFUSED:
            with self.subTest(message):
                wrong = self.read(made.uuid)
                change(wrong)
                self.assert_refused(status(message), message, wrong.update)
        self.assertEqual(before, self.read(made.uuid).toxmlstring())

    def test_amounts_at_limits_are_accepted(self):
        for number, change in enumerate(
            (
                shared(desired_virtual=4, max_virtual=8),
                shared(min_units=0.1, desired_units=0.2),
                shared(desired_units=2, max_units=2),
                shared(uncapped_weight=0),
                dedicated(min=1, desired=4, max=8),
                attribute(proc_config__sharing_mode='capped'),
                attribute(proc_compat_mode='POWER10', pending_secure_boot=0),
                *map(dedicated, bp.DedicatedSharingMode.ALL_VALUES),
            )
        ):
            with self.subTest(number):
                made = self.build()
                change(made)
                made.create().delete()

    def test_captured_lpar_keeps_both_kinds_of_processors(self):
        capture = {'file': 'lpar.txt', 'entry': 4}
        partition = {'capture': capture, 'state': 'not activated'}
        system = {**SYSTEM, 'partitions': [partition]}
        self.control.load_world({'systems': [system]})
        (found,) = lpar.LPAR.get(self.adapter)
        found.proc_config.dedicated_proc_cfg.max = 3
        updated = found.update()
        self.assertEqual(3, updated.proc_config.dedicated_proc_cfg.max)


class CapableSystemTest(base.EmulatorTestCase):
    """LPARs of the default world, which has all capabilities."""

    def setUp(self):
        super().setUp()
        self.lpar = self.create(
            min_mem=1024,
            max_mem=4096,
            min_vcpu=1,
            max_vcpu=4,
            min_proc_units=0.1,
            max_proc_units=1,
        )

    def change(self, change):
        """Read the LPAR, change it; return what the update answers."""
        self.lpar = self.read(self.lpar.uuid)
        change(self.lpar)
        return self.lpar.update()

    def refuse(self, message, change):
        """Assert that the state of the LPAR forbids a change."""
        self.assert_refused(500, message, self.change, change)

    def start(self):
        power.power_on(self.read(self.lpar.uuid), None)
        self.control.set_partition('vm1', rmc_state='active')

    def test_default_system_has_modes_remote_restart_and_secure_boot(self):
        system = self.system()
        self.assertEqual(
            ('default', 'POWER8', 'POWER9_Base', 'POWER9'),
            system.proc_compat_modes,
        )
        capabilities = system.get_capabilities()
        self.assertTrue(capabilities['simplified_remote_restart_capable'])
        self.assertTrue(capabilities['partition_secure_boot_capable'])
        self.assertTrue(capabilities['dynamic_srr_capable'])

    def test_active_lpar_keeps_kind_of_processors(self):
        self.start()
        self.refuse(
            "'vm1' is active: it cannot change between shared and dedicated",
            dedicated(),
        )

    def test_remote_restart_of_active_lpar_changes_with_toggle(self):
        self.start()
        for wanted in (True, False):
            changed = self.change(attribute(srr_enabled=wanted))
            self.assertEqual(wanted, changed.srr_enabled)

    def test_active_lpar_keeps_remote_restart_without_toggle(self):
        able = {**SYSTEM['capabilities'], 'simplified_remote_restart': True}
        self.control.load_world(
            {'systems': [{**SYSTEM, 'capabilities': able}]}
        )
        self.lpar = self.create()
        updated = self.change(attribute(srr_enabled=True))
        self.assertTrue(updated.srr_enabled)
        self.start()
        self.refuse(
            'simplified remote restart of an active partition',
            attribute(srr_enabled=False),
        )

    def test_active_lpar_stays_within_range_of_its_boot(self):
        self.start()
        self.change(attribute(mem_config__max=8192))
        self.change(shared(max_virtual=8, max_units=4))
        for change, message in (
            (
                attribute(mem_config__desired=8192),
                '8192 MB of memory are not between the 1024 and 4096',
            ),
            (
                shared(desired_virtual=8, desired_units=1),
                '8 virtual processors are not between the 1 and 4',
            ),
            (
                shared(desired_virtual=4, desired_units=1.5),
                '1.5 processor units are not between the 0.1 and 1 that the '
                "partition 'vm1' can have until it is activated again",
            ),
        ):
            with self.subTest(message):
                self.refuse(message, change)

    def current(self):
        """Return what the LPAR has of what takes effect at a boot."""
        seen = self.read(self.lpar.uuid)
        memory_ = seen.element.find('PartitionMemoryConfiguration')
        processors = seen.element.find(
            'PartitionProcessorConfiguration/'
            'CurrentSharedProcessorConfiguration'
        )
        return (
            seen.proc_compat_mode,
            seen.current_secure_boot,
            memory_.findtext('CurrentMaximumMemory'),
            processors.findtext('CurrentMaximumVirtualProcessors'),
        )

    def pend(self):
        """Start the LPAR, and change what takes effect at its next boot."""
        self.start()
        for change in (
            attribute(proc_compat_mode='POWER8', pending_secure_boot=2),
            attribute(mem_config__max=8192),
            shared(max_virtual=8),
        ):
            changed = self.change(change)
        self.assertEqual('POWER8', changed.pending_proc_compat_mode)
        self.assertEqual(2, changed.pending_secure_boot)
        self.assertEqual(('POWER9', 0, '4096', '4'), self.current())
        return changed

    def test_pending_values_take_effect_at_restart(self):
        restart = power_opts.PowerOffOpts().vsp_hard().restart()
        power.PowerOp.stop(self.pend(), opts=restart)
        self.assertEqual(('POWER8', 2, '8192', '8'), self.current())

    def test_pending_values_take_effect_at_start(self):
        power.power_off(self.pend(), None, force_immediate=True)
        # Nobody can have more than what is to be while it is off.
        self.assertEqual(('POWER9', 0, '8192', '8'), self.current())
        self.start()
        self.assertEqual(('POWER8', 2, '8192', '8'), self.current())

    def test_pending_values_take_effect_if_control_plane_starts_lpar(self):
        self.pend()
        for state in ('not activated', 'running'):
            self.control.set_partition('vm1', state=state)
        self.assertEqual(('POWER8', 2, '8192', '8'), self.current())

    def test_weight_of_active_lpar_changes_at_once(self):
        self.start()
        changed = self.change(shared(uncapped_weight=9))
        current = changed.element.find(
            'PartitionProcessorConfiguration/'
            'CurrentSharedProcessorConfiguration'
        )
        self.assertEqual('9', current.findtext('RuntimeUncappedWeight'))

    def test_secure_boot_of_ibm_i_is_refused(self):
        wrong = self.build('ibmi', env='OS400')
        wrong.pending_secure_boot = 1
        self.assert_refused(500, 'OS400 does not support', wrong.create)


class HypervisorMemoryTest(base.EmulatorTestCase):
    def overhead(self, maximum):
        """Return what the system says that it needs for an LPAR."""
        needed, free = memory.calculate_memory_overhead_on_host(
            self.adapter,
            self.system().uuid,
            reserved_mem_data={'desired_mem': 1024, 'max_mem': maximum},
        )
        self.assertEqual(self.system().memory_free, free)
        return needed

    def test_overhead_grows_with_maximum_memory(self):
        # 1/64 and 128 MB, in whole regions of 256 MB.
        for maximum, expected in (
            (256, 256),
            (8192, 256),
            (8448, 512),
            (32768, 768),
            (131072, 2304),
        ):
            with self.subTest(maximum):
                self.assertEqual(expected, self.overhead(maximum))

    def test_active_lpar_takes_overhead_of_its_maximum(self):
        before = self.system()
        made = self.create(max_mem=32768)
        self.assertEqual(before.memory_free, self.system().memory_free)
        power.power_on(made, None)
        after = self.system()
        self.assertEqual(before.memory_free - 2048 - 768, after.memory_free)
        self.assertEqual(before.firmware_memory + 768, after.firmware_memory)
        power.power_off(self.read(made.uuid), None, force_immediate=True)
        self.assertEqual(before.memory_free, self.system().memory_free)
        self.assertEqual(before.firmware_memory, self.system().firmware_memory)

    def test_overhead_that_is_not_free_is_refused(self):
        self.control.load_world({'systems': [SYSTEM]})
        # 61440 MB are for partitions.
        wrong = self.build(memory=60416)
        self.assert_refused(
            500,
            '60416 MB of memory and 1152 MB for the hypervisor were asked '
            'for and 61440 MB are free',
            wrong.create,
        )
        self.create(memory=60288)
        self.assert_refused(500, ' and 0 MB are', self.build('vm2').create)
