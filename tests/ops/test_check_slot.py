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

"""``nova-powervm-check partition`` with a slot, on an emulated host."""

import argparse
import dataclasses
import json
import pathlib
import re
import tempfile
from unittest import mock

import jsonschema

from emulator.tests import base as emulator_base
from nova_powervm.conf import powervm as options
from nova_powervm.devices import names
from nova_powervm.powervm import http_limits
from nova_powervm.powervm import partitions
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.check import slot_trial
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import report
from nova_powervm.tool.check import slot_access
from nova_powervm.tool.check import slot_checks
from nova_powervm.tool.inventory import config as configs
from nova_powervm.tool.rules import placement_tree
from powervm_emulator import worlds
from tests.ops import test_check
from tests.ops import test_check_partition as trials
from tests.ops import test_kills
from tests.unit.powervm import hosts

CHECKS = slot_checks.CHECKS
GPU = emulator_base.GPUS[0]
SLOT = f'{GPU:08X}'
SIGN = names.QUARANTINED_TRAIT
ONE_TIME = names.ONE_TIME_USE_TRAIT
RESERVED = {'total': 1, 'reserved': 1}

element = test_check.element
renamed = test_check.renamed
Lax, Strange = trials.Lax, test_check.Strange


class Unchanged:
    """Has a host answer all conditional requests as if nothing changed."""

    def on(self, test):
        real = http_limits.Client.request

        def request(client, method, url, **kwargs):
            answer = real(client, method, url, **kwargs)
            if any(k.lower() == 'if-none-match' for k in kwargs['headers']):
                test.changed = True
                answer.status_code, answer._content = 304, b''
            return answer

        test.enterContext(
            mock.patch.object(http_limits.Client, 'request', request)
        )


class Owner:
    """Gives the slot to somebody, whatever documents of LPARs say."""

    def __init__(self, partition):
        self._partition = partition

    def on(self, test):
        test.changed = True
        test.emulator.control.set_owner(SLOT, self._partition, profiles=False)


_ownerless = Strange('ManagedSystem', renamed('Partition(?:ID|UUID)'))
_desired = Strange('LogicalPartition', element('IsRequired', 'false'))
_lpar = 'LogicalPartition/'
#: Name of a check -> what makes it fail once the earlier ones are done.
CASES = {
    'slot-creation': _desired,
    'slot-owner': _ownerless,
    'slot-etag': Unchanged(),
    'second-owner': Owner(None),
    'slot-twice': Lax('POST', _lpar),
    'slot-start': trials.state('running'),
    'running-owner': _ownerless,
    'slot-stop': trials.state('error'),
    'slot-kept': _desired,
    'slot-removal': Lax('POST', _lpar, forwards=False),
    'slot-return': Lax('POST', _lpar, forwards=False),
    'slot-deletion': Lax('DELETE', 'LogicalPartition', forwards=False),
    'slot-freed': Owner('archive'),
}
#: What later checks need to be done.
NEEDED = {
    *('slot-creation', 'slot-start', 'slot-stop', 'slot-removal'),
    *('slot-return', 'slot-deletion'),
}


class FailureTest(trials.FailureTestCase):
    def begin(self):
        """Start a host; return a trial with a slot of it."""
        self.emulator = hosts.start(self, worlds.default())
        server = hosts.server_of(self.emulator)
        adapter = session.connect(server)
        self.addCleanup(adapter.session.close)
        (slot,) = [
            slot
            for slot in slot_trial.Host(adapter).system.io_slots
            if slot.drc_index == GPU
        ]
        return slot_trial.SlotTrial(
            adapter,
            system.RestSystem(adapter, server),
            options.Settings(server=server),
            slot,
            sleep=lambda seconds: None,
        )

    def test_each_check_is_seen_to_fail(self):
        self.assert_each_check_is_seen_to_fail(CHECKS, CASES, NEEDED)

    def test_delay_of_owner_is_measured(self):
        this = self.begin()
        found = iter((False, False, True))
        self.assertEqual(2, this.seconds_until(lambda: next(found)))

    def test_slot_of_second_owner_is_free_for_others_at_once(self):
        this = self.begin()
        this.make()
        self.emulator.control.set_owner(SLOT, None, profiles=False)
        self.assertIsNone(this.give_to_second())
        self.assertEqual([f'LPAR {this.names.lpar}'], this.leftovers())

    def test_lpar_that_host_takes_for_second_one_stays(self):
        this = self.begin()
        this.make()
        before = this.partitions.names()
        self.emulator.control.set_owner(SLOT, None, profiles=False)
        (other,) = [uuid for uuid, name in before.items() if name == 'archive']
        second = re.compile(this.names.second_uuid.encode(), re.IGNORECASE)
        Strange(
            'LogicalPartition',
            lambda body: second.sub(other.encode(), body),
            method='PUT',
        ).on(self)
        self.changed = False
        self.assertIsNone(this.give_to_second())
        self.assertTrue(self.changed)
        this.clean_up()
        del before[this.names.uuid]
        self.assertEqual(before, this.partitions.names())

    def test_lpar_that_is_not_at_its_menus_is_stopped(self):
        this = self.begin()
        this.make()
        power_on = partitions.RestPartitions.power_on

        def boots(rest, lpar, *, to_sms=False):
            power_on(rest, lpar)

        waits = []
        this._sleep = waits.append
        with mock.patch.object(partitions.RestPartitions, 'power_on', boots):
            self.assertEqual('running', this.start())
        self.assertEqual(20, len(waits))
        self.assertEqual('not activated', this.state())
        with self.assertRaises(NotImplementedError):
            this.restart()


class SlotTestCase(trials.CommandTestCase):
    """The command as it is typed, on a host without Nova."""

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.place = pathlib.Path(folder)
        self.inventory = self.place / 'inventory.yaml'
        self.extra = f'inventory_file = {self.inventory}\n'
        self.enterContext(
            mock.patch.object(
                slot_access, '_ACCELERATORS', str(self.place / 'cyborg.yaml')
            )
        )

    def start(self, world=None):
        super().start(world or worlds.default())

    def run_partition(self, *args):
        """Run the command without its question."""
        return self.run_again(
            'partition',
            *('--yes', '--slot', SLOT),
            *args,
        )


class CommandTest(SlotTestCase):
    def test_emulator_passes_and_lpar_never_boots(self):
        self.start()
        starts = []
        real = http_limits.Client.request

        def request(client, method, url, **kwargs):
            if method == 'PUT' and url.endswith('do/PowerOn'):
                starts.append(kwargs['data'])
            return real(client, method, url, **kwargs)

        with mock.patch.object(http_limits.Client, 'request', request):
            code, out = self.run_partition('--report', test_check.REPORT)
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertEqual(
            {'as assumed': {check.name for check in CHECKS}}, self.outcomes()
        )
        self.assertIn('Nothing of Nova was found', out)
        self.assert_as_before()
        self.assertTrue(starts)
        for body in starts:
            self.assertRegex(
                body.decode() if isinstance(body, bytes) else body,
                r'(?s)bootmode.{1,99}>sms<',
            )
        self.assertNotIn(
            'PUT PowerOff.restart', {r['label'] for r in self.journal()}
        )
        text = self.report.read_text()
        jsonschema.validate(
            json.loads(text), report.schema('partition --slot', CHECKS)
        )
        self.assertNotIn(SLOT, text)

    def journal(self):
        return self.emulator.control.journal()

    def test_slot_that_somebody_takes_meanwhile_is_left_alone(self):
        self.start()

        def answer(_):
            self.emulator.control.set_owner(SLOT, 'archive', profiles=True)
            return 'yes'

        with mock.patch('builtins.input', answer):
            code, out = self.run_again('partition', '--slot', SLOT)
        self.assertEqual(exit_codes.TROUBLE, code, out)
        self.assertIn('owned by partition archive', out)
        self.assertEqual([], self.changes())

    def test_lpars_of_killed_run_are_removed_by_run_without_slot(self):
        """The host does not refuse the slot to the second one."""
        self.start()
        killed = test_kills.Killed
        give = slot_trial.SlotTrial.give_to_second

        def give_freed(this):
            self.emulator.control.set_owner(SLOT, None, profiles=False)
            with mock.patch.object(
                partitions.RestPartitions, 'delete', side_effect=killed
            ):
                give(this)

        with (
            mock.patch.object(
                slot_trial.SlotTrial, 'give_to_second', give_freed
            ),
            mock.patch.object(
                slot_trial.SlotTrial, 'clean_up', side_effect=killed
            ),
            self.assertRaises(killed),
        ):
            self.run_partition()
        code, out = self.run_again('partition', '--yes')
        self.assertEqual(exit_codes.SUCCESS, code, out)
        self.assertRegex(out, 'An earlier run has left.*check-[^,]*, .*-2')
        self.assert_as_before()


class RefusalTest(SlotTestCase):
    """A slot that somebody may have or get is refused, with each reason."""

    def provider(self, *traits, **rest):
        """Return a provider of the slot."""
        rest = {'inventory': {'CUSTOM_GPU': {'total': 1}}, **rest}
        return placement_tree.Provider(
            'p1',
            f'PowerVM IOSlot host1 {SLOT}',
            'root',
            1,
            traits=frozenset(traits),
            **rest,
        )

    def placement(self, *below, error=None):
        """Have Placement show providers, or fail."""
        root = placement_tree.Provider('root', 'host1', None, 1)
        tree = placement_tree.Tree('host1', root, below)
        patch = mock.patch.object(
            slot_access.Access,
            '_ask_placement',
            **({'side_effect': error} if error else {'return_value': tree}),
        )
        return patch

    def assert_refused(self, *words, slot=SLOT):
        """Run the command, which is to change nothing."""
        code, out = self.run_partition('--slot', slot)
        self.assertEqual(exit_codes.TROUBLE, code, out)
        for each in words:
            self.assertIn(each, out)
        self.assertEqual([], self.changes())

    def write(self, name='inventory.yaml', **paragraph):
        """Write an inventory file."""
        path = self.place / name
        path.write_text(
            json.dumps(
                {
                    'gpus': {
                        'identification': {'drc_index': SLOT},
                        **paragraph,
                    }
                }
            )
        )
        path.chmod(0o600)

    def test_host_says_what_cannot_be_tried(self):
        world = worlds.default()
        (found,) = world['systems']
        by_index = {slot['drc_index']: slot for slot in found['slots']}
        by_index['21010021']['assignable'] = False
        by_index['21010022']['bus_group_required'] = True
        self.start(world)
        for slot, words in (
            ('7FFFFFF0', 'no slot 7FFFFFF0'),
            ('21010011', 'owned by VIOS vios1. Take the slot'),
            ('2101002B', 'owned by partition database'),
            ('21010040', 'the slot is empty. Choose another slot'),
            ('21010023', 'SR-IOV mode'),
            ('21010021', 'does not allow partitions to own it'),
            ('21010022', 'the others of its bus'),
        ):
            with self.subTest(slot):
                self.assert_refused(words, slot=slot)
        # A profile that names the slot of nobody.
        self.emulator.control.set_owner(SLOT, 'archive', profiles=True)
        self.emulator.control.set_owner(SLOT, None, profiles=False)
        self.assert_refused('the profile of partition archive names it')

    def test_nova_and_cyborg_keep_what_they_offer(self):
        self.start()
        self.write()
        self.assert_refused('auth_type', 'gpus', 'offers it')
        held = {'s1': {'CUSTOM_GPU': 1}}
        for below, words in (
            ((), ['offers it', f'quarantine {SLOT}']),
            ((self.provider(),), ['offers it', 'to give away']),
            ((self.provider(consumers=held),), ['allocated it to s1']),
            (
                (self.provider(inventory={'CUSTOM_GPU': RESERVED}),),
                ['offers it', 'has it reserved'],
            ),
            # A mark alone still has to be completed by nova-compute.
            ((self.provider(SIGN),), ['offers it', 'to give away']),
            (
                (
                    self.provider(
                        SIGN,
                        ONE_TIME,
                        inventory={'CUSTOM_GPU': RESERVED},
                        consumers=held,
                    ),
                ),
                ['one-time-use', 'allocated it to s1'],
            ),
        ):
            with self.subTest(words), self.placement(*below):
                self.assert_refused(*words)
        self.write(one_time_use=True)
        with self.placement():
            self.assert_refused('one-time-use', 'offers it')
        self.write(allow=False)
        self.write('cyborg.yaml')
        accelerator = dataclasses.replace(
            self.provider(), name=names.cyborg_provider_name('host1', GPU)
        )
        with self.placement(accelerator):
            self.assert_refused('cyborg.yaml offers it', 'Cyborg has it')

    def test_doubt_is_a_reason(self):
        self.start()
        silent = errors.PlacementUnreachable(reason='no route')
        for error, words in (
            (silent, 'Placement does not answer: no route'),
            (errors.NodeUnknown(node='h'), 'Placement has no compute node'),
        ):
            with self.subTest(words), self.placement(error=error):
                self.assert_refused(words)
        self.inventory.write_text('gpus: [')
        with self.placement():
            self.assert_refused('inventory.yaml')
        self.inventory.unlink()
        code, out = self.run_partition('--accelerators', '/none.yaml')
        self.assertEqual(exit_codes.TROUBLE, code)
        self.assertIn('there is no file /none.yaml', out)
        config = configs.read_config([str(self.folder / 'nova.conf')])
        access = slot_access.Access(
            config,
            argparse.Namespace(
                slot=SLOT,
                accelerators=None,
                config_files=None,
                config_dirs=None,
            ),
        )
        host = slot_trial.Host(hosts.connect(self, self.emulator))
        self.assertEqual(GPU, access.choose(host).drc_index)
        with (
            mock.patch.object(
                configs, 'unreadable_defaults', return_value=['/nova.conf']
            ),
            self.assertRaisesRegex(errors.SlotRefused, '/nova.conf cannot be'),
        ):
            access.choose(host)
        self.extra += '[placement]\nauth_type = password\n'
        self.assert_refused('how to log on to Placement')
        self.extra = self.extra.partition('[placement]')[0]
        world = worlds.default()
        world['systems'][0]['partitions'].append(
            {
                'name': 'instance-0000002a',
                'id': 9,
                'memory': 1024,
                'processors': 1,
            }
        )
        self.start(world)
        self.assert_refused('Nova seems to run instance-0000002a')

    def test_quarantine_and_denial_leave_slot_to_command(self):
        self.start()
        self.write()
        kept = self.provider(SIGN, inventory={'CUSTOM_GPU': RESERVED})
        for below in ((kept,), ()):
            with self.subTest(below), self.placement(*below):
                code, out = self.run_partition()
                self.assertEqual(exit_codes.SUCCESS, code, out)
                self.assertNotIn('Nothing of Nova', out)
                self.assert_as_before()
            self.write(allow=False)


class KillTest(SlotTestCase):
    """A kill leaves only what the next run removes."""

    kill_at = trials.KillTest.kill_at
    follow = trials.KillTest.follow

    def test_next_run_removes_what_a_killed_one_left(self):
        self.follow(3, 10)
