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

import pathlib
import tempfile
import unittest
from unittest import mock

from demo import accelerator_steps
from demo import cloud
from demo import config
from demo import cyborg_client
from demo import expected_providers
from demo import host
from demo import launcher
from demo import operator_commands
from demo import stack
from demo import step_context
from demo import steps
from tests.unit.demo import samples

_CARDS = ('21010038', '21030039')


def _name(card):
    return expected_providers.CYBORG.provider_name(stack.NODE, card)


class _World:
    """A cloud and its host in which each server gets the first free card.

    A test breaks it by ``wrong_slot`` (the LPAR gets this one instead), by
    ``state`` (of requests) or by ``ignores_disabled``.
    """

    def __init__(self):
        self.wrong_slot = None
        self.state = 'Bound'
        self.ignores_disabled = False
        self.reserves_another = False
        self.report_enables = False
        self.disabled = set()
        self.given, self.owners = {}, {}
        self.flavors, self.profiles = {}, {}
        self.cyborg = self

    def report(self):
        """Report the devices as an agent; return an exit status."""
        if self.report_enables:
            self.disabled.clear()
        return 0

    # What the steps ask of the host.

    def slots(self):
        return [
            samples.a_slot(card, '1014', '0634', owner=self.owners.get(card))
            for card in _CARDS
        ]

    def partitions(self):
        return [
            host.Partition(
                name, step_context.partition_uuid(name[2:]), 'running', (card,)
            )
            for card, name in self.owners.items()
        ]

    # What they ask of Cyborg.

    def devices(self):
        return [
            cyborg_client.Device(
                uuid=f'device {card}',
                hostname=stack.NODE,
                vendor='1014',
                model='0634',
                status='maintaining' if card in self.disabled else 'enabled',
                drc_index=card,
                provider=_name(card),
                provider_uuid=card,
            )
            for card in _CARDS
        ]

    def set_enabled(self, device, is_enabled):
        change = self.disabled.discard if is_enabled else self.disabled.add
        change(device.drc_index)

    def create_device_profile(self, name, groups):
        self.profiles[name] = groups

    def groups(self, profile):
        return self.profiles[profile]

    def requests(self, server_id):
        card = self.given.get(server_id)
        details = (accelerator_steps.PROFILE, stack.NODE, card)
        made = cyborg_client.Request(self.state, *details, {'drc_index': card})
        return [made] if card else []

    # What they ask of the other projects.

    def create_flavor(self, name, extra_specs, _sizes):
        self.flavors[name] = extra_specs

    def extra_specs(self, name):
        return self.flavors[name]

    def create_server(
        self, name, flavor, image, network, user_data, host=None
    ):
        identifier = f'{len(self.given):02x}-{name}'
        free = [
            card
            for card in _CARDS
            if card not in self.given.values()
            and (self.ignores_disabled or card not in self.disabled)
        ]
        if free:
            self.given[identifier] = free[0]
            self.owners[self.wrong_slot or free[0]] = f'i-{identifier}'
        return self.server(identifier)

    def server(self, identifier):
        is_up = identifier in self.given
        return cloud.Server(
            id=identifier,
            name=identifier[3:],
            instance_name=f'i-{identifier}',
            status='ACTIVE' if is_up else 'ERROR',
            fault='' if is_up else 'No valid host was found. None.',
        )

    def delete_server(self, server):
        card = self.given.pop(server.id)
        del self.owners[card]

    def allocations(self, consumer):
        card = self.given.get(consumer)
        return {card: {step_context.CARD: 1}} if card else {}

    def compute_node_uuid(self):
        return 'node'

    def provider_tree(self, provider):
        return [
            cloud.Provider(
                uuid=card,
                name=_name(card),
                parent='node',
                root='node',
                inventories={
                    step_context.CARD: {
                        **expected_providers.INVENTORY,
                        'reserved': int(
                            (card in self.disabled)
                            is not self.reserves_another
                        ),
                    }
                },
                usages={},
                traits=[],
            )
            for card in _CARDS
        ]


class AcceleratorStepsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.world = _World()
        self.context = step_context.Context(
            samples.a_stack_with_cyborg(), self.world, self.world
        )
        reports = mock.patch.object(
            accelerator_steps.operator_commands,
            'report_devices',
            side_effect=lambda _stack: operator_commands.Result(
                'report', self.world.report(), ''
            ),
        )
        reports.start()
        self.addCleanup(reports.stop)
        self.context.cards = list(_CARDS)
        self.context.provider_names = {card: _name(card) for card in _CARDS}
        self.context.image = cloud.Image('image', 1, 'sha512', '')
        self.context.network = cloud.Network('network', 100)

    def assert_right(self, outcome):
        expected, observed, _ = outcome
        self.assertEqual(expected, observed)

    def assert_wrong(self, outcome):
        expected, observed, _ = outcome
        self.assertNotEqual(expected, observed)

    def show_accelerators(self):
        with tempfile.TemporaryDirectory() as directory:
            made = samples.a_stack_with_cyborg(pathlib.Path(directory))
            made.etc.mkdir()
            made.accelerator_file.write_text(launcher.default_accelerators())
            (made.etc / config.CYBORG).write_text(
                config.ini(config.cyborg(made))
            )
            self.context.stack = made
            return accelerator_steps.show_accelerators(self.context)

    def test_free_cards_of_cyborgs_file_are_offered(self):
        self.context.cards = []
        self.assert_right(self.show_accelerators())
        self.assertEqual([*_CARDS], self.context.cards)
        self.world.owners[_CARDS[0]] = 'vios1'
        self.assert_wrong(self.show_accelerators())

    def test_missing_device_or_provider_is_wrong(self):
        self.assert_right(accelerator_steps.check_devices(self.context))
        name = self.context.provider_names.pop(_CARDS[1])
        self.assert_wrong(accelerator_steps.check_devices(self.context))
        self.context.provider_names[_CARDS[1]] = name
        self.context.cards.append('21040040')
        self.world.slots = lambda: [
            samples.a_slot(card, '1014', '0634') for card in self.context.cards
        ]
        self.assert_wrong(accelerator_steps.check_devices(self.context))

    def test_profile_requires_the_mark_and_the_flavor_names_it(self):
        self.assert_right(
            accelerator_steps.create_profile_and_flavor(self.context)
        )

        (group,) = self.world.profiles[accelerator_steps.PROFILE]
        self.assertEqual('required', group['trait:CUSTOM_POWERVM_CYBORG'])
        self.assertEqual(
            {'accel:device_profile': accelerator_steps.PROFILE},
            self.world.flavors[accelerator_steps.FLAVOR],
        )

    def test_server_with_another_slot_or_unbound_request_is_wrong(self):
        self.assert_right(accelerator_steps.boot_one_card(self.context))
        for name, right, wrong in (
            ('wrong_slot', None, _CARDS[1]),
            ('state', 'Bound', 'BindStarted'),
        ):
            with self.subTest(name):
                self.world.given.clear()
                self.world.owners.clear()
                setattr(self.world, name, wrong)
                outcome = accelerator_steps.boot_one_card(self.context)
                setattr(self.world, name, right)
                self.assert_wrong(outcome)

    def test_server_with_fewer_slots_than_wanted_is_wrong(self):
        self.assert_wrong(accelerator_steps.boot_gpu_and_card(self.context))

    def test_card_is_refused_while_disabled_and_given_afterwards(self):
        accelerator_steps.boot_one_card(self.context)

        self.assert_right(accelerator_steps.boot_disabled_card(self.context))
        self.assert_right(accelerator_steps.boot_enabled_card(self.context))
        self.assert_right(accelerator_steps.delete_second_card(self.context))
        self.assertEqual([_CARDS[0]], [*self.world.owners])

    def test_disabled_card_that_is_not_kept_back_is_wrong(self):
        for fault in (
            'ignores_disabled',
            'report_enables',
            'reserves_another',
        ):
            with self.subTest(fault):
                self.setUp()
                accelerator_steps.boot_one_card(self.context)
                setattr(self.world, fault, True)
                self.assert_wrong(
                    accelerator_steps.boot_disabled_card(self.context)
                )


class SequenceTest(unittest.TestCase):
    def test_sequences_have_titles_of_their_own(self):
        for sequence in (steps.STEPS, steps.CYBORG_STEPS):
            titles = [title for title, _ in sequence]
            self.assertEqual(len(titles), len(set(titles)))
