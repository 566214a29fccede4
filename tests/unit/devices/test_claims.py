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

"""What an instance holds, what it moves, and who has burned a device."""

import dataclasses
import unittest

import ddt

from nova_powervm import exception
from nova_powervm.devices import claims
from nova_powervm.devices import one_time_use
from nova_powervm.devices import plan
from nova_powervm.devices import policy
from nova_powervm.devices import slot_providers
from tests import proofs
from tests.unit.devices import values


def gpu(uuid, index):
    return claims.SlotProvider(uuid, index, frozenset({'CUSTOM_GPU'}))


PROVIDERS = {
    'p1': gpu('p1', 0x21010020),
    'p2': gpu('p2', 0x21010010),
    'n1': claims.SlotProvider('n1', 0x30000000, frozenset({'CUSTOM_NVME'})),
}
ROOT = {'resources': {'VCPU': 2, 'MEMORY_MB': 2048}}


def held(resource_class='CUSTOM_GPU', amount=1):
    return {'resources': {resource_class: amount}, 'generation': 4}


def resolve(allocations, requested, accelerators=()):
    resolved = claims.resolve(
        'the-instance',
        allocations,
        PROVIDERS,
        requested,
        claims.OtherProviders(
            frozenset(accelerators), frozenset(accelerators)
        ),
    )
    return [str(claim) for claim in resolved]


@ddt.ddt
class RequestedAmountsTest(unittest.TestCase):
    @ddt.named_data(
        ['nothing', {}, {}],
        ['unnumbered', {'resources:CUSTOM_GPU': '1'}, {'CUSTOM_GPU': 1}],
        ['numbered', {'resources1:CUSTOM_GPU': '2'}, {'CUSTOM_GPU': 2}],
        ['named', {'resources_a-B9:CUSTOM_GPU': '2'}, {'CUSTOM_GPU': 2}],
        [
            'sum of groups',
            {
                'resources:CUSTOM_GPU': '1',
                'resources1:CUSTOM_GPU': '1',
                'resources2:CUSTOM_GPU': '3',
                'resources2:VCPU': '0',
            },
            {'CUSTOM_GPU': 5, 'VCPU': 0},
        ],
        ['number', {'resources1:CUSTOM_GPU': 1}, {'CUSTOM_GPU': 1}],
        ['spaces', {'resources1:CUSTOM_GPU': ' 1 '}, {'CUSTOM_GPU': 1}],
        ['traits', {'trait1:CUSTOM_GPU': 'required'}, {}],
        ['other scope', {'x:resources1:CUSTOM_GPU': '1'}, {}],
        ['no number', {'resources1:CUSTOM_GPU': 'one'}, {}],
        ['negative', {'resources1:CUSTOM_GPU': '-1'}, {}],
        ['superscript', {'resources1:CUSTOM_GPU': '\u00b2'}, {}],
        ['long suffix', {f'resources{"a" * 65}:CUSTOM_GPU': '1'}, {}],
        ['lower case', {'resources1:custom_gpu': '1'}, {}],
    )
    def test_requested_amounts_sums_resource_groups(
        self, extra_specs, expected
    ):
        self.assertEqual(expected, claims.requested_amounts(extra_specs))


@ddt.ddt
class ResolveTest(unittest.TestCase):
    @ddt.named_data(
        ['no devices', {'root': ROOT}, {}, []],
        ['one', {'root': ROOT, 'p1': held()}, {'CUSTOM_GPU': 1},
         ['21010020']],
        ['by index', {'p1': held(), 'p2': held()}, {'CUSTOM_GPU': 2},
         ['21010010', '21010020']],
        [
            'two classes',
            {'n1': held('CUSTOM_NVME'), 'p2': held()},
            {'CUSTOM_GPU': 1, 'CUSTOM_NVME': 1},
            ['21010010', '30000000'],
        ],
        [
            "the source host's while evacuating",
            {'p1': held(), 'elsewhere': held()},
            {'CUSTOM_GPU': 1},
            ['21010020'],
        ],
        ['a class that is not ours', {'root': ROOT}, {'VCPU': 2}, []],
        ['asked for none', {'root': ROOT}, {'CUSTOM_GPU': 0}, []],
    )  # fmt: skip
    def test_resolve_returns_slots_in_order_of_index(
        self, allocations, requested, expected
    ):
        self.assertEqual(expected, resolve(allocations, requested))

    def test_resolve_returns_claim_with_provider(self):
        self.assertEqual(
            (claims.Claim('p1', 0x21010020),),
            claims.resolve('i', {'p1': held()}, PROVIDERS, {'CUSTOM_GPU': 1}),
        )

    @ddt.named_data(
        ['no answer', None, {}, 'no allocations from Placement'],
        ['empty answer', {}, {}, 'no allocations from Placement'],
        ['too few', {'p1': held()}, {'CUSTOM_GPU': 2},
         'asks for 2 CUSTOM_GPU but 1 '],
        ['too many', {'p1': held(), 'p2': held()}, {'CUSTOM_GPU': 1},
         'asks for 1 CUSTOM_GPU but 2 '],
        ['a slot that the flavor does not ask for', {'p1': held()}, {},
         'asks for 0 CUSTOM_GPU but 1 '],
        ['none', {'root': ROOT}, {'CUSTOM_GPU': 1},
         'asks for 1 CUSTOM_GPU but 0 '],
        ["only the source host's", {'elsewhere': held()}, {'CUSTOM_GPU': 1},
         'but 0 of its allocations'],
        ['of another class', {'n1': held('CUSTOM_NVME')}, {'CUSTOM_GPU': 1},
         'but 0 of its allocations'],
        ['twice the same', {'p1': held(amount=2)}, {'CUSTOM_GPU': 2},
         'slot 21010020 is allocated 2 times'],
    )  # fmt: skip
    def test_resolve_refuses_missing_or_repeated_allocation(
        self, allocations, requested, words
    ):
        with self.assertRaises(exception.ClaimFailed) as caught:
            resolve(allocations, requested)
        self.assertIn(words, str(caught.exception))
        self.assertIn('the-instance', str(caught.exception))

    @proofs.proves('V23')
    def test_resolve_refuses_device_of_cyborg(self):
        allocations = {'p1': held(), 'c1': held('FPGA')}
        with self.assertRaises(exception.ForeignDevice) as caught:
            resolve(allocations, {'CUSTOM_GPU': 1}, ['c0', 'c1'])
        self.assertRegex(str(caught.exception), r'Cyborg.*OWNER_NOVA.*\bc1\b')
        self.assertNotIn('c0', str(caught.exception))
        self.assertEqual(
            ['21010020'], resolve(allocations, {'CUSTOM_GPU': 1}, ['c0'])
        )

    def test_resolve_refuses_device_class_without_known_provider_only(self):
        for name, refused in (('CUSTOM_GPU', True), ('CUSTOM_LICENSE', False)):
            arguments = ('i', {'root': held(name)}, {}, {name: 1})
            classes = {'device_classes': ('CUSTOM_GPU',)}
            with self.subTest(name):
                if refused:
                    with self.assertRaisesRegex(
                        exception.ClaimFailed, 'asks for 1'
                    ):
                        claims.resolve(*arguments, **classes)
                else:
                    resolved = claims.resolve(*arguments, **classes)
                    self.assertEqual((), resolved)

    def test_resolve_refuses_device_of_unknown_owner_if_it_is_requested(self):
        others = claims.OtherProviders(uuids=frozenset({'s1'}))
        for name, requested, refused in (
            ('FPGA', {'FPGA': 1}, True),
            ('NET_BW_EGR_KILOBIT', {'NET_BW_EGR_KILOBIT': 1}, False),
            ('CUSTOM_PCI_8086', {}, False),
        ):
            arguments = ('i', {'s1': held(name)}, {}, requested, others)
            with self.subTest(name):
                if refused:
                    with self.assertRaisesRegex(
                        exception.ForeignDevice, 'OWNER_NOVA.*s1'
                    ):
                        claims.resolve(*arguments)
                else:
                    self.assertEqual((), claims.resolve(*arguments))


class ResolveBoundTest(unittest.TestCase):
    """Cyborg's devices are in order if a request stands for them."""

    def resolve(self, allocations, requested, bound):
        cyborgs = frozenset({'c1', 'c2'})
        others = claims.OtherProviders(cyborgs, cyborgs)
        return claims.resolve(
            *('the-instance', allocations, PROVIDERS, requested, others),
            bound=bound,
        )

    def test_resolve_accepts_device_of_bound_request(self):
        resolved = self.resolve(
            {'p1': held(), 'c1': held('CUSTOM_GPU')},
            {'CUSTOM_GPU': 1},
            {'c1', None},
        )
        self.assertEqual((claims.Claim('p1', 0x21010020),), resolved)

    def test_resolve_refuses_device_without_bound_request(self):
        with self.assertRaises(exception.ForeignDevice) as caught:
            self.resolve({'c1': held(), 'c2': held()}, {}, {'c1'})
        self.assertIn('c2', str(caught.exception))
        self.assertNotIn('c1', str(caught.exception))
        # A device of Cyborg's does not count as a slot.
        with self.assertRaises(exception.ClaimFailed):
            self.resolve({'c1': held()}, {'CUSTOM_GPU': 1}, {'c1'})


class StoredClaimsTest(unittest.TestCase):
    """What Nova stored with an instance is what it has to have."""

    def stored(self, requested, *uuids):
        resolved = claims.resolve_stored(
            'the-instance',
            {uuid: PROVIDERS[uuid] for uuid in uuids},
            requested,
            {'CUSTOM_GPU'},
        )
        return [str(claim) for claim in resolved]

    def test_stored_returns_slots_in_order_of_index(self):
        requested = {'CUSTOM_GPU': 2, 'CUSTOM_NVME': 1, 'VCPU': 1}
        self.assertEqual(
            ['21010010', '21010020', '30000000'],
            self.stored(requested, 'p1', 'p2', 'n1'),
        )
        self.assertEqual([], self.stored({'VCPU': 1}))

    def test_stored_refuses_more_or_fewer_slots_than_requested(self):
        for wanted, *uuids in ((1, 'p1', 'p2'), (2, 'p1')):
            words = f'asks for {wanted} CUSTOM_GPU but {len(uuids)}'
            with self.assertRaisesRegex(exception.ClaimFailed, words):
                self.stored({'CUSTOM_GPU': wanted}, *uuids)


NOON, HOUR = 1_800_000_000.0, 3600


def holder(number, since=NOON, providers=('p1',), **changes):
    """Make an instance of a project of its own."""
    return one_time_use.Holder(
        f'i{number}',
        f'project{number}',
        frozenset(providers),
        since,
        **changes,
    )


class LastTest(unittest.TestCase):
    """The last holder of each device."""

    def test_last_holder_is_found_in_any_order(self):
        early, late = holder(1, NOON), holder(2, NOON + HOUR)
        for holders in ([early, late], [late, early]):
            self.assertEqual(
                {'p1': late}, one_time_use.find_last(holders, ['p1', 'p2'])
            )

    def test_devices_that_are_not_asked_for_are_left_out(self):
        last = one_time_use.find_last(
            [holder(1, providers=('p1', 'p2'))], ['p2']
        )
        self.assertEqual(['p2'], [*last])


class NameTest(unittest.TestCase):
    """The project that a device is put down to."""

    def test_project_of_last_holder_has_burned_device(self):
        for last, reserved_at in (
            (holder(1), None),
            (holder(1), NOON + HOUR),
            (holder(1, until=NOON + HOUR), NOON),
            # The clocks of Nova and Placement differ a little.
            (
                holder(1, until=NOON),
                NOON + 30,
            ),
        ):
            with self.subTest(last=last, reserved_at=reserved_at):
                self.assertEqual(
                    'project1', one_time_use.name_project(last, reserved_at)
                )

    def test_device_reserved_after_last_holder_is_unknown(self):
        self.assertEqual('unknown', one_time_use.name_project(None, NOON))
        self.assertEqual(
            'unknown',
            one_time_use.name_project(holder(1, until=NOON), NOON + HOUR),
        )


ONCE = 'HW_PCI_ONE_TIME_USE'
NEW_INDEX = 0x21010021
OLD = values.provider(traits=[ONCE])
NEW = values.provider(values.name_of(NEW_INDEX), traits=[ONCE])


class MovingInstanceTest(unittest.TestCase):
    """One host with the slots of both sides of a resize."""

    def plan(self, old_owner, new_owner, held=(OLD, NEW)):
        """Return the entries of the old and the new slot's providers."""
        once = dataclasses.replace(values.paragraph(), one_time_use=True)
        facts = plan.Facts(
            policy.Policy((once,), source='inventory.yaml'),
            (
                values.slot(owner=old_owner),
                values.slot(drc_index=NEW_INDEX, owner=new_owner),
            ),
            holdings={values.LPAR: [provider.uuid for provider in held]},
            descendants=(OLD, NEW),
        )
        made = plan.make_plan(
            plan.assess(facts),
            slot_providers.Allocations(
                {OLD.uuid: {'migration': {}}, NEW.uuid: {'instance': {}}}
            ),
            values.name_of,
        )
        entries = {entry.drc_index: entry for entry in made.entries}
        return entries[values.INDEX], entries[NEW_INDEX]

    def test_device_that_a_move_only_claimed_is_not_burned(self):
        old, new = self.plan(values.client(), None)

        self.assertTrue(old.burned)
        self.assertFalse(new.burned)

    def test_slots_of_both_sides_stay_offered(self):
        for owners in (
            (values.client(), None),
            (None, values.client()),
            (values.client(), values.client()),
        ):
            with self.subTest(owners=owners):
                for entry in self.plan(*owners):
                    self.assertIs(plan.Action.PUBLISH, entry.action)
                    self.assertEqual('', entry.reason)

    def test_slot_that_a_failed_move_left_is_withdrawn(self):
        # The migration is over, so its slots are held no more.
        old, new = self.plan(values.client(), values.client(), held=[NEW])

        self.assertIs(plan.Action.WITHDRAW, old.action)
        self.assertIs(plan.Action.PUBLISH, new.action)
