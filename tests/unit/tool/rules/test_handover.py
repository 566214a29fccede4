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
import json
import shlex
import unittest

import os_traits

from nova_powervm import inventory_file
from nova_powervm.devices import names
from nova_powervm.lpar import partition
from nova_powervm.tool.rules import cyborg_records
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import file_edits
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import handover
from nova_powervm.tool.rules import handover_facts
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values
from tests.unit.tool.rules import test_cyborg_differences
from tests.unit.tool.rules import test_differences

SLOT = values.slot()
OTHER = values.slot(drc_index=0x21010021, drc_name='U78CB.001.WZS0JZB-P1-C3')
SERVER = test_differences.INSTANCE
GONE = test_differences.OTHER
GPUS = 'gpus:\n  identification: {vendor_id: "10DE"}\n' + (
    '  resource_class: CUSTOM_GPU\n'
)
NOTHING = '# nothing\n'
DENIED = 'others:\n  identification: {vendor_id: "FFFE"}\n  allow: false\n'
ALONE = f'''\
alone:
  identification:
    drc_index: "{SLOT.drc_hex}"
  resource_class: CUSTOM_GPU
'''
DEVICE = cyborg_records.Device('the-device', 'host1', SLOT.drc_index)
CYBORG = handover_facts.Manager.CYBORG
NOVA = handover_facts.Manager.NOVA
MODEL = (
    'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE',
    'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1EB8',
)


def file(path, text):
    return file_edits.SlotFile(path, text, inventory_file.parse(text, path))


def novas(**changes):
    """Make Nova's provider, without a trait that only its file has."""
    return test_differences.offered(
        **{
            'traits': names.generated_traits(SLOT) | {os_traits.OWNER_NOVA},
            **changes,
        }
    )


def reserved():
    return {'inventory': {'CUSTOM_GPU': values.record(1)}}


cyborgs = test_cyborg_differences.reported


class HandoverTest(unittest.TestCase):
    """Steps of a host with one GPU to hand over, and another one."""

    def judge(
        self,
        to,
        *,
        slot=SLOT,
        nova=NOTHING,
        cyborg=NOTHING,
        wanted_class='CUSTOM_GPU',
        **changes,
    ):
        """Judge the steps.

        :param nova: Text of Nova's file.
        :param cyborg: Text of Cyborg's file.
        :param changes: ``below``, the providers; or what Cloud has.
        """
        records = cyborg_records.Records(
            profiles=changes.pop('profiles', ()),
            devices=(DEVICE,),
            requests=changes.pop('requests', ()),
            endpoint='http://cyborg/v2',
        )
        gone = frozenset({GONE})
        below = changes.pop('below', ())
        cloud = {
            'cyborg': changes.pop(
                'cyborg_facts', cyborg_slots.CyborgFacts(records, gone)
            ),
            'flavors': {},
            'gone': gone,
            'image': 'the image',
            'network': 'net',
            **changes,
        }
        return handover.make_steps(
            handover_facts.Facts(
                to=to,
                slot=slot,
                io_slots=(slot, OTHER),
                tree=placement_tree.Tree(
                    'host1', test_differences.ROOT, tuple(below)
                ),
                nova=file('nova.yaml', nova),
                cyborg=file('cyborg.yaml', cyborg),
                cloud=handover_facts.Cloud(**cloud),
                tool='tool --config-file x',
                wanted_class=wanted_class,
                node_option=' --node host1',
            )
        )

    def states(self, steps):
        return ''.join(str(step.state)[0] for step in steps)

    def assert_to_do(self, step, words, *commands):
        self.assertEqual('to do', str(step.state), step)
        self.assertIn(words, step.why)
        self.assertEqual(commands, step.commands)

    def assert_blocked(self, step, words):
        self.assertEqual('blocked', str(step.state), step)
        self.assertIn(words, step.why)


class ToCyborgTest(HandoverTest):
    def test_device_of_a_server_is_taken_from_it_first(self):
        steps = self.judge(
            CYBORG,
            slot=dataclasses.replace(SLOT, owner=values.client()),
            nova=GPUS,
            below=[novas(consumers=test_differences.held())],
        )
        self.assertEqual('tdbbbbttb', self.states(steps))
        self.assert_to_do(
            steps[0],
            f'server {SERVER} has it',
            f'openstack server delete --wait {SERVER}',
        )
        self.assert_blocked(steps[2], 'after step 1')
        self.assertEqual((), steps[2].commands)

    def test_consumer_that_is_no_server_is_not_deleted(self):
        steps = self.judge(
            CYBORG,
            nova=GPUS,
            below=[novas(consumers=test_differences.held(GONE))],
        )
        self.assert_blocked(steps[0], 'waits for its confirmation')
        self.assertNotIn('delete', ' '.join(steps[0].commands))

    def test_slot_of_a_foreign_partition_is_left_alone(self):
        owner = values.client(test_differences.values.OTHER_LPAR, name='db')
        steps = self.judge(
            CYBORG, slot=dataclasses.replace(SLOT, owner=owner), nova=GPUS
        )
        self.assert_blocked(steps[0], 'partition db, which is no instance')

    def test_slot_that_no_server_can_have_is_blocked(self):
        for change, words in (
            ({'vendor_id': 0xFFFF}, 'empty'),
            ({'sriov': True}, 'SR-IOV'),
            ({'owner': values.slots.Owner('VIOS')}, 'owned by VIOS'),
        ):
            with self.subTest(words):
                steps = self.judge(
                    CYBORG, slot=dataclasses.replace(SLOT, **change)
                )
                self.assert_blocked(steps[0], words)

    def test_burned_device_is_released_before_the_file_changes(self):
        traits = novas().traits | {names.ONE_TIME_USE_TRAIT}
        burned = novas(traits=traits, **reserved())
        steps = self.judge(CYBORG, nova=GPUS, below=[burned])
        self.assertEqual('dtbbbbttb', self.states(steps))
        self.assert_to_do(
            steps[1],
            'clean the device first',
            'tool --config-file x release 21010020 --node host1',
        )
        withdrawn = novas(
            traits=traits | {names.WITHDRAWN_TRAIT}, **reserved()
        )
        steps = self.judge(CYBORG, below=[withdrawn])
        self.assert_blocked(steps[1], 'identify it again')

    def test_file_of_novas_is_changed_for_this_slot_only(self):
        steps = self.judge(CYBORG, nova=GPUS, below=[novas()])
        self.assertEqual('ddtbbbttb', self.states(steps))
        self.assertIn("paragraph 'gpus' (line 1)", steps[2].why)
        (command,) = steps[2].commands
        self.assertIn('  allow: false', shlex.split(command))

    def test_provider_of_novas_is_waited_for(self):
        steps = self.judge(CYBORG, nova=DENIED, below=[novas()])
        self.assertEqual('dddtbbttb', self.states(steps))
        self.assertIn('wait for nova-compute', steps[3].why)

    def test_last_paragraph_is_kept_and_the_slot_denied(self):
        steps = self.judge(CYBORG, nova=ALONE, below=[novas()])
        self.assert_denied(steps[2])
        steps = self.judge(NOVA, cyborg=ALONE, below=[cyborgs(**reserved())])
        self.assert_denied(steps[2])

    def test_empty_file_of_a_slot_with_a_provider_is_not_done(self):
        steps = self.judge(CYBORG, below=[novas()])
        self.assertIn('nova-compute refuses such a file', steps[2].why)
        self.assert_denied(steps[2])
        steps = self.judge(NOVA, below=[cyborgs(**reserved())])
        self.assertIn('cyborg-agent refuses such a file', steps[2].why)
        self.assert_denied(steps[2])

    def assert_denied(self, step):
        self.assertEqual('to do', str(step.state), step)
        (command,) = step.commands
        self.assertIn('  allow: false', shlex.split(command))

    def test_class_is_kept_by_an_option(self):
        others = f'{ALONE}{DENIED}'
        steps = self.judge(CYBORG, nova=others, below=[novas()])
        self.assertIn('--resource-class CUSTOM_GPU', steps[2].why)
        for wanted_class in ('', 'CUSTOM_GPU'):
            steps = self.judge(CYBORG, nova=DENIED, wanted_class=wanted_class)
            with self.subTest(wanted_class):
                self.assertEqual(
                    'ddddtbttb' if wanted_class else 'ddddbbbbb',
                    self.states(steps),
                )
        self.assertIn('resource_class: CUSTOM_GPU', steps[4].commands[0])

    def test_step_with_an_unknown_class_asks_for_it(self):
        steps = self.judge(CYBORG, nova=DENIED, wanted_class='')
        for step in (steps[4], steps[6], steps[7]):
            self.assert_blocked(step, 'name it with --resource-class')
        self.assertEqual(
            'tool --config-file x handover 21010020 --to cyborg --node host1 '
            '--resource-class CLASS',
            steps[4].commands[0],
        )
        steps = self.judge(NOVA, cyborg=DENIED, wanted_class='')
        self.assertEqual('dddddbbb', self.states(steps))

    def test_file_of_cyborgs_gets_the_class_that_the_device_had(self):
        denied = file_edits.take_out(file('nova.yaml', GPUS), SLOT, (SLOT,))
        lines = shlex.split(denied.command)[2:-2]
        steps = self.judge(CYBORG, nova=GPUS + '\n'.join(lines))
        self.assertEqual('ddddtbttb', self.states(steps))
        self.assertIn('resource_class: CUSTOM_GPU', steps[4].commands[0])

    def test_one_time_use_in_cyborgs_file_is_refused(self):
        steps = self.judge(CYBORG, cyborg=f'{GPUS}  one_time_use: true\n')
        self.assert_blocked(steps[4], 'one_time_use')

    def test_provider_of_cyborgs_has_to_be_offered(self):
        for below, words, command in (
            ([], 'wait for cyborg-agent', ()),
            ([cyborgs(names.WITHDRAWN_TRAIT)], 'withholds it', ()),
            (
                [cyborgs(**reserved())],
                'disabled',
                ('openstack accelerator device enable the-device',),
            ),
        ):
            with self.subTest(words):
                steps = self.judge(CYBORG, cyborg=GPUS, below=below)
                self.assertEqual('dddddtttb', self.states(steps))
                self.assert_to_do(steps[5], words, *command)

    def test_commands_create_profile_flavor_and_server(self):
        steps = self.judge(CYBORG, cyborg=GPUS, below=[cyborgs()])
        self.assertEqual('ddddddttb', self.states(steps))
        (create,) = steps[6].commands
        *_, name, groups = shlex.split(create)
        profile = cyborg_records.Profile(name, tuple(json.loads(groups)))
        self.assertEqual('gpu', name)
        self.assertEqual('required', profile.groups[0][f'trait:{MODEL[1]}'])
        with_profile = {
            'cyborg': GPUS,
            'below': [cyborgs()],
            'profiles': (profile,),
        }
        steps = self.judge(CYBORG, **with_profile)
        self.assertEqual('dddddddtb', self.states(steps))
        self.assertIn('flavor create gpu.cyborg', steps[7].commands[0])
        *_, spec, _, policy = shlex.split(steps[7].commands[1])
        self.assertEqual('accel:device_profile=gpu', spec)
        self.assertEqual('group_policy=none', policy)
        specs = dict(pair.split('=') for pair in (spec, policy))
        steps = self.judge(
            CYBORG, **with_profile, flavors={'gpu.cyborg': specs}
        )
        self.assertEqual('ddddddddt', self.states(steps))
        self.assert_to_do(
            steps[8],
            'create a server from its image',
            'openstack server create --wait --flavor gpu.cyborg '
            "--image 'the image' --network net gpu-server",
        )

    def test_hand_over_ends_with_the_server(self):
        profile = cyborg_records.Profile(
            'mine',
            (
                {
                    'resources:CUSTOM_GPU': '1',
                    f'trait:{names.CYBORG_TRAIT}': 'required',
                },
            ),
        )
        steps = self.judge(
            CYBORG,
            slot=dataclasses.replace(
                SLOT, owner=values.client(partition.lpar_uuid(SERVER))
            ),
            cyborg=GPUS,
            below=[cyborgs(consumers=test_differences.held())],
            profiles=(profile,),
            flavors={'mine': {'accel:device_profile': 'mine'}},
        )
        self.assertEqual('d' * 9, self.states(steps))

    def test_profile_that_cannot_get_the_device_does_not_count(self):
        mark = {f'trait:{names.CYBORG_TRAIT}': 'required'}
        for group in (
            {'resources:CUSTOM_GPU': '1'},
            {'resources:CUSTOM_GPU': '2', **mark},
            {'resources:CUSTOM_X': '1', **mark},
            {'resources:CUSTOM_GPU': '1', **mark, 'trait:C': 'required'},
        ):
            with self.subTest(group):
                profile = cyborg_records.Profile('gpu', (group,))
                steps = self.judge(
                    CYBORG,
                    cyborg=GPUS,
                    below=[cyborgs()],
                    profiles=(profile,),
                )
                self.assertIn('profile create gpu-2 ', steps[6].commands[0])

    def test_silent_services_block_only_what_they_know(self):
        steps = self.judge(
            CYBORG,
            nova=GPUS,
            below=[novas()],
            cyborg_problem='no answer',
            flavors_problem='none either',
            **{'flavors': None},
        )
        self.assert_blocked(steps[7], 'none either')
        facts = dataclasses.replace(
            handover_facts.Facts(
                CYBORG,
                SLOT,
                (SLOT,),
                placement_tree.Tree('host1', test_differences.ROOT),
                file_edits.SlotFile('nova.yaml', problem='unreadable'),
                file('cyborg.yaml', NOTHING),
            ),
            cloud=handover_facts.Cloud(cyborg_problem='no answer'),
        )
        steps = handover.make_steps(facts)
        self.assert_blocked(steps[2], 'unreadable')
        self.assert_blocked(steps[6], 'no answer')


class ToNovaTest(HandoverTest):
    def test_device_is_disabled_before_its_server_goes(self):
        request = cyborg_records.Request(
            'r', 'Bound', 'gpu', 'host1', cyborgs().uuid, SERVER
        )
        changes = {'cyborg': GPUS, 'requests': (request,)}
        held = test_differences.held()
        steps = self.judge(NOVA, below=[cyborgs(consumers=held)], **changes)
        self.assertEqual('tbbbbbbt', self.states(steps))
        self.assert_to_do(
            steps[0],
            'disable',
            'openstack accelerator device disable the-device',
        )
        steps = self.judge(
            NOVA, below=[cyborgs(consumers=held, **reserved())], **changes
        )
        self.assert_to_do(
            steps[1],
            f'server {SERVER} has it',
            f'openstack server delete --wait {SERVER}',
        )

    def test_leftover_request_is_removed(self):
        request = cyborg_records.Request(
            'r', 'Bound', 'gpu', 'host1', cyborgs().uuid, GONE
        )
        steps = self.judge(
            NOVA,
            cyborg=GPUS,
            below=[
                cyborgs(consumers=test_differences.held(GONE), **reserved())
            ],
            requests=(request,),
        )
        self.assertIn('left over', steps[1].why)
        removal, deletion = steps[1].commands
        self.assertIn('http://cyborg/v2/accelerator_requests?arqs=r', removal)
        self.assertIn('X-Service-Token', removal)
        self.assertNotIn('$(', removal)
        self.assertIn(f'allocation delete {GONE}', deletion)

    def test_silent_cyborg_blocks_what_only_its_requests_tell(self):
        silent = {'cyborg_facts': None, 'cyborg_problem': 'no answer'}
        below = [cyborgs(**reserved())]
        steps = self.judge(NOVA, cyborg=DENIED, below=below, **silent)
        self.assert_blocked(steps[1], 'no answer')
        held = [cyborgs(consumers=test_differences.held(), **reserved())]
        steps = self.judge(NOVA, cyborg=DENIED, below=held, **silent)
        self.assertEqual('to do', str(steps[1].state))

    def test_files_and_providers_change_in_order(self):
        for changes, states in (
            ({'cyborg': GPUS, 'below': [cyborgs(**reserved())]}, 'ddtbbbbt'),
            ({'below': [cyborgs(**reserved())]}, 'ddtbbbbt'),
            (
                {'cyborg': DENIED, 'below': [cyborgs(**reserved())]},
                'dddtbbbt',
            ),
            (
                {
                    'cyborg': DENIED,
                    'below': [cyborgs(names.WITHDRAWN_TRAIT, **reserved())],
                },
                'dddtbbbt',
            ),
            (
                {
                    'cyborg': DENIED,
                    'below': [cyborgs(names.WITHDRAWN_TRAIT)],
                },
                'ddddtbbt',
            ),
            ({}, 'dddddtbt'),
            ({'nova': GPUS}, 'ddddddtt'),
            ({'nova': GPUS, 'below': [novas()]}, 'dddddddt'),
        ):
            with self.subTest(states):
                steps = self.judge(NOVA, **changes)
                self.assertEqual(states, self.states(steps))
                for step in steps:
                    self.assertTrue(step.why or str(step.state) == 'done')

    def test_disabled_device_is_enabled_once_it_is_withheld(self):
        # The agent reports a slot as long as it is disabled.
        for mark, words, commands in (
            (names.CYBORG_TRAIT, 'wait for cyborg-agent', ()),
            (
                names.WITHDRAWN_TRAIT,
                'enable the device',
                ('openstack accelerator device enable the-device',),
            ),
        ):
            below = [cyborgs(mark, **reserved())]
            step = self.judge(NOVA, cyborg=DENIED, below=below)[3]
            self.assert_to_do(step, words, *commands)

    def test_withheld_or_reserved_provider_is_not_offered(self):
        traits = novas().traits
        for changes, words in (
            ({'traits': traits | {names.WITHDRAWN_TRAIT}}, 'show --slot'),
            (reserved(), 'inventory set --amend'),
            (
                {'traits': traits | {names.ONE_TIME_USE_TRAIT}, **reserved()},
                'release 21010020',
            ),
        ):
            with self.subTest(words):
                steps = self.judge(NOVA, nova=GPUS, below=[novas(**changes)])
                self.assertIn(words, steps[6].commands[0])

    def test_flavor_for_the_slot_ends_the_hand_over(self):
        state = {'nova': GPUS, 'below': [novas()]}
        (create, change) = self.judge(NOVA, **state)[7].commands
        self.assertIn('flavor create gpu.nova', create)
        words = shlex.split(change)
        specs = dict(word.split('=', 1) for word in words if '=' in word)
        (group,) = flavors.read_groups(specs)
        self.assertEqual({*MODEL, 'OWNER_NOVA'}, set(group.required))
        for extra_specs, expected in (
            (specs, 'd'),
            ({**specs, 'trait1:CUSTOM_OTHER': 'required'}, 't'),
            ({'resources1:CUSTOM_GPU': '1'}, 't'),
        ):
            steps = self.judge(NOVA, **state, flavors={'f': extra_specs})
            self.assertEqual('ddddddd' + expected, self.states(steps))
