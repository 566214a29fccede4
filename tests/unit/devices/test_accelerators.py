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

"""Parsing and refusing accelerator requests of Cyborg."""

import unittest

import ddt

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from tests import proofs

INSTANCE = '0a1b2c3d-0000-4000-8000-000000000001'


def arq(uuid='arq-1', index='21010020', **changes):
    """Return a bound request as Cyborg's API describes it."""
    return {
        'uuid': uuid,
        'device_profile_name': 'gpus',
        'device_profile_group_id': 0,
        'state': 'Bound',
        'device_rp_uuid': 'device',
        'hostname': 'host1',
        'instance_uuid': INSTANCE,
        'attach_handle_type': 'PCI',
        'attach_handle_info': {'bus': '00', 'drc_index': index},
    } | changes


def parse(*items, profile='gpus'):
    return accelerators.parse(INSTANCE, 'host1', profile, items)


@ddt.ddt
class ParseRequestsTest(unittest.TestCase):
    @proofs.proves('C57', 'C58')
    def test_parse_reads_slots_of_requests(self):
        unset = dict.fromkeys(('instance_uuid', 'hostname', 'device_rp_uuid'))
        test_pci = {'attach_handle_type': 'TEST_PCI', 'attach_handle_info': {}}
        for item, expected in (
            (arq(), ('arq-1', 'device', 0x21010020)),
            (arq('b', '2101002a'), ('b', 'device', 0x2101002A)),
            (arq(**test_pci), ('arq-1', 'device', None)),
            (arq(**unset), ('arq-1', None, 0x21010020)),
        ):
            with self.subTest(expected):
                self.assertEqual(
                    (accelerators.Request(*expected),), parse(item)
                )
        self.assertEqual((), accelerators.to_claims(parse(arq(**test_pci))))
        requests = parse(
            arq(), arq('c', '21010022', device_profile_group_id=1)
        )
        self.assertEqual(
            [0x21010020, 0x21010022],
            [request.drc_index for request in requests],
        )

    def test_parse_needs_requests_for_profile_only(self):
        for value in (None, []):
            requests = accelerators.parse(INSTANCE, 'host1', None, value)
            self.assertEqual((), requests)
            with self.assertRaisesRegex(
                exception.AcceleratorRefused, f"(?=.*{INSTANCE}).*'gpus'"
            ):
                accelerators.parse(INSTANCE, 'host1', 'gpus', value)

    @proofs.proves('V4', 'V15', 'V31')
    @ddt.named_data(
        ['text', 'junk', 'is not a valid request'],
        ['nothing', None, 'is not a valid request'],
        ['number', 7, 'is not a valid request'],
        ['no uuid', {'state': 'Bound'}, 'is not a valid request'],
        ['initial', arq(state='Initial'), "bound yet, its state is 'Initial'"],
        ['started', arq(state='BindStarted'), 'not bound yet'],
        ['failed', arq(state='BindFailed'), "'BindFailed'"],
        ['unbound', arq(state='Unbound'), "'Unbound'"],
        ['deleting', arq(state='Deleting'), "'Deleting'"],
        ['specified: provisioning', arq(state='provisioning'), 'not bound'],
        ['specified: unknown', arq(state='unknown'), 'not bound'],
        ['no state', {'uuid': 'arq-1'}, "'None'"],
        ['instance', arq(instance_uuid='another'), 'instance, another'],
        ['host', arq(hostname='host2'), 'on host host2, not on host1'],
        ['mdev', arq(attach_handle_type='MDEV'), "type 'MDEV'"],
        ['no type', arq(attach_handle_type=''), "type ''"],
        ['lower case', arq(attach_handle_type='pci'), "type 'pci'"],
        ['no info', arq(attach_handle_info=None), 'without drc_index'],
        ['text info', arq(attach_handle_info='{}'), 'without drc_index'],
        ['no index', arq(attach_handle_info={'bus': '0'}), 'without drc_in'],
        ['short', arq(index='2101002'), "'2101002', which is not eight"],
        ['long', arq(index='210100200'), 'not eight'],
        ['number index', arq(index=21), "'21', which"],
        ['prefix', arq(index='0x210100'), 'not eight'],
        ['line end', arq(index='21010020\n'), 'not eight'],
        ['none index', arq(index=None), "'None'"],
        ['unbound test', arq(state='Initial', attach_handle_type='TEST_PCI'),
         'not bound'],
    )  # fmt: skip
    def test_parse_refuses_unusable_request(self, item, words):
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            parse(item)
        self.assertIn(words, str(caught.exception))
        self.assertFalse(caught.exception.elsewhere)

    def test_parse_reports_all_problems(self):
        wrong = arq('a', attach_handle_type='MDEV'), arq('b', state='Unbound')
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            parse(*wrong, arq('c'))
        self.assertRegex(str(caught.exception), 'request a .*request b ')
        self.assertNotIn('request c', str(caught.exception))
        words = 'requests a and b both name slot 21010020'
        with self.assertRaisesRegex(exception.AcceleratorRefused, words):
            parse(arq('a'), arq('b'))


@ddt.ddt
class AcceleratorClaimTest(unittest.TestCase):
    def test_claim_names_accelerator_as_source(self):
        (claim,) = accelerators.to_claims(parse(arq()))

        self.assertEqual(claims.Source.ACCELERATOR, claim.source)
        self.assertEqual(
            '21010020 (ACCELERATOR), 21010021 (COMPUTE)',
            claims.describe([claim, claims.Claim('p1', 0x21010021)]),
        )
        self.assertIn('arq-1', claim.origin)

    def test_refuse_nova_devices_refuses_slot_of_nova_only(self):
        ours = claims.SlotProvider('p1', 0x21010020, frozenset())
        words = r'21010020 .*Nova manages.*arq-1, p1'
        with self.assertRaisesRegex(exception.AcceleratorRefused, words):
            accelerators.refuse_nova_devices(INSTANCE, parse(arq()), [ours])
        other = claims.SlotProvider('p2', 0x21010021, frozenset())
        accelerators.refuse_nova_devices(INSTANCE, parse(arq()), [other])

    @ddt.named_data(
        ['slot of cyborgs', arq(device_rp_uuid='p1', index='21010030')],
        ['its own slot', arq(device_rp_uuid='p1')],
        ['no slot', arq(device_rp_uuid='p1', attach_handle_type='TEST_PCI')],
    )
    @proofs.proves('V22')
    def test_refuse_nova_devices_refuses_provider_of_nova_and_names_cure(
        self, item
    ):
        ours = claims.SlotProvider('p1', 0x21010020, frozenset())
        duplicate = claims.SlotProvider('p2', 0x21010020, frozenset())
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            accelerators.refuse_nova_devices(
                INSTANCE, parse(item), [ours, duplicate]
            )
        message = caught.exception.summary
        self.assertIn('took slot 21010020', message)
        self.assertIn('arq-1, p1', message)
        # Nova puts the server's name before it and cuts the end.
        self.assertIn('"trait:CUSTOM_<marker>=required"', message[:100])


@ddt.ddt
class UnsettledTest(unittest.TestCase):
    @ddt.named_data(
        ['nothing', None, False],
        ['none', [], False],
        ['bound', [arq()], False],
        ['failed', [arq(state='BindFailed')], False],
        ['failed beside', [arq(state='Initial'), arq(state='BindFailed')],
         False],
        ['initial', [arq(), arq(state='Initial')], True],
        ['started', [arq(state='BindStarted')], True],
        ['junk', ['junk'], False],
    )  # fmt: skip
    def test_unsettled_is_true_while_requests_are_being_bound(
        self, accel_info, expected
    ):
        self.assertEqual(expected, accelerators.is_binding(accel_info))


@ddt.ddt
class LostRequestTest(unittest.TestCase):
    @ddt.named_data(
        ['as built', {0x21010020}, [arq()]],
        ['bound to another slot', {0x21010021}, [arq()]],
        ['never recorded', set(), [arq()]],
    )
    def test_refuse_lost_accepts_as_many_slots(self, built_with, items):
        accelerators.refuse_lost(INSTANCE, built_with, parse(*items))

    @ddt.named_data(
        ['one of two', [arq()], 'slot 21010021'],
        ['test handle', [arq(attach_handle_type='TEST_PCI')],
         'slots 21010020, 21010021'],
    )  # fmt: skip
    def test_refuse_lost_names_missing_slots(self, items, missing):
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            accelerators.refuse_lost(
                INSTANCE, {0x21010020, 0x21010021}, parse(*items)
            )

        self.assertIn(
            f'No request is bound to {missing}. Bind', str(caught.exception)
        )
