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
import shlex
import subprocess
import tempfile
import unittest

import os_traits

from nova_powervm import inventory_file
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.tool.inventory import handover
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import flavors
from tests.unit.devices import values
from tests.unit.tool.rules import test_cyborg_differences
from tests.unit.tool.rules import test_differences

SLOT = values.slot()
OTHER = values.slot(drc_index=0x21010021, drc_name='U78CB.001.WZS0JZB-P1-C3')
SERVER = test_differences.INSTANCE
GPUS = 'gpus:\n  identification: {vendor_id: "10DE"}\n' + (
    '  resource_class: CUSTOM_GPU\n'
)
OTHERS = 'others:\n  identification: {vendor_id: "FFFE"}\n'
DENIED = GPUS + 'mine:\n  identification: {class: "0302"}\n  allow: false\n'
PROFILE = {
    'resources:CUSTOM_GPU': '1',
    f'trait:{names.CYBORG_TRAIT}': 'required',
}
SHOW = 'tool -c x show --slot 21010020 --long --cyborg --node n'


def novas(*traits, **changes):
    """Make Nova's provider."""
    known = names.generated_traits(SLOT) | {os_traits.OWNER_NOVA, *traits}
    return test_differences.offered(**{'traits': known, **changes})


def cyborgs(mark=names.CYBORG_TRAIT, **changes):
    """Make Cyborg's provider."""
    return test_cyborg_differences.reported(mark, **changes)


def reserved():
    return {'inventory': {'CUSTOM_GPU': values.record(1)}}


def held():
    return {'consumers': test_differences.held()}


def request(provider):
    return cyborg_slots.Request(
        'r', 'Bound', 'gpu', 'host1', provider.uuid, SERVER
    )


class HandoverTestCase(unittest.TestCase):
    """Judges the steps for one GPU of a host with two."""

    giver = taker = None

    def judge(self, given=None, taken=None, files=(OTHERS, OTHERS), **changes):
        """Return the steps.

        :param given: The provider of who gives the slot.
        :param taken: That of who takes it.
        :param files: Text of the file of either.
        :param changes: What else is so.
        """
        records = cyborg_slots.Records(
            profiles=tuple(
                cyborg_slots.Profile(name, (group,))
                for name, group in changes.pop('profiles', {}).items()
            ),
            requests=changes.pop('requests', ()),
        )
        sides = [
            handover.Side(
                name,
                f'{name}.yaml',
                inventory_file.parse(text, f'{name}.yaml'),
                provider=provider,
            )
            for name, text, provider in zip(
                (self.giver, self.taker), files, (given, taken), strict=True
            )
        ]
        slot = changes.pop('slot', SLOT)
        return handover.make_steps(
            handover.Facts(
                *sides,
                slot,
                (slot, OTHER),
                **{
                    'device_uuid': 'the-device',
                    'records': records,
                    'offered': {},
                    'tool': ('tool -c x', ' --node n'),
                    **changes,
                },
            )
        )

    def assert_open(self, number, words, *commands, **facts):
        """Assert which step is the first that is not done."""
        steps = self.judge(**facts)
        done = [step.state == handover.DONE for step in steps]
        self.assertEqual(number, done.index(False) + 1, steps)
        step = steps[number - 1]
        self.assertIn(words, step.why)
        self.assertEqual(commands, step.commands)
        for later in steps[number:]:
            if later.state != handover.DONE:
                self.assertEqual(
                    (handover.BLOCKED, f'after step {number}', ()),
                    (later.state, later.why, later.commands),
                )
        # No step costs a device or a guest.
        self.assertNotRegex(f'{steps}', '(server|allocation|arq) delete')
        return step

    def assert_edited(self, number, text, facts):
        """Assert that the command of a step lets a file give the slot."""
        steps = self.judge(**facts)
        (command,) = steps[number - 1].commands
        with tempfile.NamedTemporaryFile('w+') as file:
            file.write(text.removesuffix('\n'))
            file.flush()
            *_, path = shlex.split(command)
            subprocess.run(
                ['/bin/sh', '-c', command.replace(path, file.name)],
                check=True,
            )
            file.seek(0)
            return inventory_file.parse(file.read(), path)


class ToCyborgTest(HandoverTestCase):
    giver, taker = handover.NOVA, handover.CYBORG

    def test_device_that_somebody_has_is_named_and_freed_first(self):
        lpar = values.client(name='vm1')
        for facts, words in (
            ({'given': novas(**held())}, f'{SERVER} has it'),
            (
                {'slot': dataclasses.replace(SLOT, owner=lpar)},
                'partition vm1 has it',
            ),
        ):
            with self.subTest(words):
                step = self.assert_open(
                    1, f'first free it: {words}', SHOW, **facts
                )
                self.assertEqual(handover.BLOCKED, step.state)

    def test_slot_that_no_server_can_have_is_blocked(self):
        for change, words in (
            ({'vendor_id': 0xFFFF}, 'empty'),
            ({'sriov': True}, 'SR-IOV'),
            ({'assignable': False}, 'does not allow'),
        ):
            slot = dataclasses.replace(SLOT, **change)
            self.assert_open(1, words, slot=slot)

    def test_used_device_is_cleaned_first(self):
        burned = novas(names.ONE_TIME_USE_TRAIT, **reserved())
        release = 'tool -c x release 21010020 --node n'
        self.assert_open(1, 'first clean it', release, given=burned)

    def test_file_is_changed_for_this_slot_only(self):
        facts = {'given': novas(), 'files': (GPUS, OTHERS)}
        policy = self.assert_edited(2, GPUS, facts)
        steps = self.judge(novas(), files=(GPUS, OTHERS))
        self.assertIn('nova-compute reads the file again', steps[1].why)
        denial = policy.paragraphs[-1]
        self.assertFalse(denial.allow)
        self.assertEqual(
            {'drc_index': '21010020', 'drc_name': SLOT.drc_name},
            denial.identification,
        )
        # An empty file would be refused.
        self.assert_edited(2, '', {'given': novas(), 'files': ('', OTHERS)})

    def test_denied_slot_waits_for_its_provider_to_go(self):
        files = (DENIED, OTHERS)
        self.assert_open(
            3, 'wait for nova-compute', given=novas(), files=files
        )
        policy = self.assert_edited(4, OTHERS, {'files': files})
        self.assertEqual('CUSTOM_GPU', policy.paragraphs[-1].resource_class)
        self.assert_open(4, '--resource-class', files=(OTHERS, OTHERS))
        policy = self.assert_edited(4, OTHERS, {'wanted_class': 'CUSTOM_X'})
        self.assertEqual('CUSTOM_X', policy.paragraphs[-1].resource_class)

    def test_file_that_denies_or_uses_once_is_changed_by_hand(self):
        for text, words in (
            (DENIED, "remove or narrow paragraph 'mine' (line 4)"),
            (f'{GPUS}  one_time_use: true\n', 'remove one_time_use'),
        ):
            self.assert_open(4, words, files=(OTHERS, text))

    def test_file_that_cannot_be_read_blocks(self):
        side = handover.Side(
            handover.NOVA, 'nova.yaml', policies.Policy(), 'unreadable'
        )
        facts = handover.Facts(side, side, SLOT, (SLOT,))
        steps = handover.make_steps(facts)
        self.assertEqual('unreadable', steps[1].why)
        self.assertEqual(handover.BLOCKED, steps[3].state)

    def test_provider_has_to_be_offered(self):
        files = (OTHERS, GPUS)
        for taken, words, command in (
            (None, 'wait for cyborg-agent', SHOW),
            (cyborgs(names.WITHDRAWN_TRAIT), 'wait for cyborg-agent', SHOW),
            (
                cyborgs(**reserved()),
                'enable it',
                'openstack accelerator device enable the-device',
            ),
        ):
            self.assert_open(5, words, command, taken=taken, files=files)

    def test_profile_and_flavor_end_it(self):
        facts = {'taken': cyborgs(), 'files': (OTHERS, GPUS)}
        create = (
            'openstack accelerator device profile create PROFILE --group '
            'resources:CUSTOM_GPU=1,trait:CUSTOM_POWERVM_CYBORG=required'
        )
        change = 'openstack flavor set NAME --property accel:device_profile='
        self.assert_open(6, 'names', create, f'{change}PROFILE', **facts)
        for group in (
            {'resources:CUSTOM_GPU': '1'},
            PROFILE | {'resources:CUSTOM_GPU': '2'},
        ):
            self.assert_open(
                *(6, 'names', create, f'{change}PROFILE'),
                **facts,
                profiles={'gpu': group},
            )
        facts['profiles'] = {'gpu': PROFILE}
        self.assert_open(
            *(6, 'names', f'{change}gpu'),
            **facts,
            offered={'f': flavors.Flavor({'resources1:CUSTOM_GPU': '1'})},
        )
        # The server that has it now does not keep it from Cyborg.
        facts['taken'] = cyborgs(**held())
        facts['slot'] = dataclasses.replace(SLOT, owner=values.client())
        steps = self.judge(
            **facts,
            offered={'f': flavors.Flavor({'accel:device_profile': 'gpu'})},
        )
        self.assertEqual({handover.DONE}, {step.state for step in steps})
        self.assertEqual('flavor f', steps[5].why)

    def test_silent_services_block_what_they_know(self):
        facts = {'taken': cyborgs(), 'files': (OTHERS, GPUS)}
        for silent in ('records', 'offered'):
            self.assert_open(
                6, 'no answer', **facts, **{silent: None}, silence='no answer'
            )


class ToNovaTest(HandoverTestCase):
    giver, taker = handover.CYBORG, handover.NOVA

    def test_device_is_disabled_before_it_is_freed(self):
        disable = 'openstack accelerator device disable the-device'
        self.assert_open(1, 'first disable it', disable, given=cyborgs())
        provider = cyborgs(**held(), **reserved())
        self.assert_open(1, f'{SERVER} has it', SHOW, given=provider)
        provider = cyborgs(**reserved())
        self.assert_open(
            *(1, 'accelerator request r has it', SHOW),
            given=provider,
            requests=(request(provider),),
        )
        self.assert_open(
            *(1, 'no answer'),
            given=provider,
            records=None,
            silence='no answer',
        )

    def test_device_is_enabled_only_once_it_is_withheld(self):
        # The agent keeps a device as long as it is disabled.
        enable = 'openstack accelerator device enable the-device'
        for changes, mark, words, commands in (
            (reserved(), names.CYBORG_TRAIT, 'wait for cyborg-agent', ()),
            (reserved(), names.WITHDRAWN_TRAIT, 'enable it', (enable,)),
            ({}, names.WITHDRAWN_TRAIT, 'wait for cyborg-agent', ()),
        ):
            provider = cyborgs(mark, **changes)
            self.assert_open(3, words, *commands, given=provider)

    def test_files_and_providers_change_in_order(self):
        files = (GPUS, OTHERS)
        provider = cyborgs(**reserved())
        self.assert_edited(2, GPUS, {'given': provider, 'files': files})
        files = (DENIED, OTHERS)
        self.assert_edited(4, OTHERS, {'files': files})
        files = (OTHERS, GPUS)
        self.assert_open(5, 'wait for nova-compute', SHOW, files=files)
        withheld = novas(names.WITHDRAWN_TRAIT)
        self.assert_open(5, 'wait', SHOW, files=files, taken=withheld)
        for taken in (novas(), novas(**reserved(), **held())):
            facts = {'files': files, 'taken': taken}
            self.assert_open(
                *(6, 'names'),
                'tool -c x flavor create NAME --paragraph ... --apply',
                **facts,
            )
        offered = {'f': flavors.Flavor({'resources1:CUSTOM_GPU': '1'})}
        steps = self.judge(**facts, offered=offered)
        self.assertEqual({handover.DONE}, {step.state for step in steps})
