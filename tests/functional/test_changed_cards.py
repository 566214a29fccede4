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

"""Cards that report other ids than before, on purpose or not."""

import textwrap

from nova_powervm.devices import names
from tests import proofs
from tests.functional import base
from tests.functional import one_time_use
from tests.functional import test_cleaning

INDEX, SLOT = test_cleaning.INDEX, test_cleaning.SLOT
MARKS = frozenset(
    {names.QUARANTINED_TRAIT, names.quarantine_trait('REPLACED')}
)
CRYPTO = 'CUSTOM_CRYPTO'
IDS = names.property_trait('device_id', '1DB6')

#: A class for one use, and another one.
_INVENTORY = one_time_use.ONE_TIME_USE_GPUS + textwrap.dedent("""\
    crypto:
      identification:
        vendor_id: "1014"
        device_id: "044B"
      resource_class: CUSTOM_CRYPTO
    """)
_GPU = {
    'description': '3D Controller',
    'vendor_id': '10DE',
    'device_id': '1DB6',
    'subsystem_vendor_id': '10DE',
    'subsystem_device_id': '124A',
    'class': '0302',
    'revision_id': 'A1',
}
#: What the firmware of the GPU is made to report.
_CRYPTO = {
    'description': 'Crypto adapter',
    'vendor_id': '1014',
    'device_id': '044B',
    'class': '1080',
}


class ChangedCardTest(test_cleaning.CleaningTestCase):
    """The ids that a slot shows are not those of its provider."""

    inventory = _INVENTORY

    @proofs.proves('device.quarantine')
    def test_card_of_other_ids_is_nobodys_until_it_is_accepted(self):
        self.tell_stories()

    def forget(self):
        base.PowerVMTestCase.forget(self)
        for provider in self.slot_providers().values():
            uuid = provider['uuid']
            self.placement.delete(f'/resource_providers/{uuid}')
        for index in (INDEX, INDEX + 1):
            self.show(_GPU, index)
        super().forget()
        self.restart_host(inventory=self.inventory)

    def show(self, card, index=INDEX):
        """Let a slot show a card from one moment to the next."""
        self.control().pull(f'{index:08X}')
        self.control().plug(f'{index:08X}', card)

    def provider(self, index=INDEX):
        """Return classes, reserve and traits of a slot's provider."""
        uuid = self.slot_providers()[index]['uuid']
        inventory = self._get_provider_inventory(uuid)
        return (
            {name: record['reserved'] for name, record in inventory.items()},
            set(self._get_provider_traits(uuid)),
        )

    def assert_quarantined(self, index=INDEX, class_name='CUSTOM_GPU'):
        """Assert that a device is reserved, marked, and as it was."""
        offer, traits = self.provider(index)
        self.assertEqual({class_name: 1}, offer)
        self.assertLessEqual({*MARKS, IDS}, traits)
        self.assertNotIn(names.WITHDRAWN_TRAIT, traits)

    def boot_crypto(self, expected):
        """Boot a server that wants another kind of card."""
        return self.boot({f'resources1:{CRYPTO}': '1'}, expected=expected)

    @proofs.proves('device.one-time-use')
    def story_burned_card_is_not_released_into_another_class(self):
        """Whoever writes the firmware of a card gave it to anybody.

        What cleans a crypto adapter ended with success, and nothing compared
        the card with the burned one. In the next cycle it had lost its
        one-time trait and was of the other class, and the next server had it
        with the firmware of the last one.
        """
        self._delete_server(self.boot(one_time_use.gpu_group()))
        self.assert_burned(INDEX)
        self.show(_CRYPTO)

        cleaned = self.clean()
        self.read_anew()

        self.boot_crypto('ERROR')
        self.assertEqual(2, cleaned)
        self.assert_logged('device_id was 1DB6, and is 044B')
        self.assertIn(one_time_use.TRAIT, self.provider()[1])
        self.assert_quarantined()
        self.assertEqual(0, self.clean())
        code, _, err = self.run_command('release', SLOT, '--yes')
        self.assertEqual(2, code)
        self.assertIn(f'restore {SLOT} --new-card', err)

    @proofs.proves('device.one-time-use')
    def story_new_card_is_accepted_before_it_is_cleaned_and_released(self):
        self._delete_server(self.boot(one_time_use.gpu_group()))
        self.show(_CRYPTO)
        self.read_anew()
        self.assert_quarantined()

        code, _, err = self.run_command('restore', SLOT)
        self.assertEqual(2, code)
        self.assertIn('device_id was 1DB6, and is 044B', err)
        self.assertIn(f'restore {SLOT} --new-card', err)
        self.assert_quarantined()

        code, _, err = self.run_command('restore', SLOT, '--new-card')
        self.assertEqual(0, code, err)
        offer, traits = self.provider()
        self.assertEqual({'CUSTOM_GPU': 1}, offer)
        self.assertIn(one_time_use.TRAIT, traits)
        self.assertTrue(traits.isdisjoint({*MARKS, IDS}))
        # Nothing else does until nova-compute has its ids.
        self.assertEqual(2, self.clean())
        self.assert_logged('has not taken up the new card yet')

        self.read_anew()
        offer, traits = self.provider()
        self.assertEqual({CRYPTO: 1}, offer)
        self.assertIn(one_time_use.TRAIT, traits)
        self.assertIn(names.property_trait('device_id', '044B'), traits)
        self.boot_crypto('ERROR')
        self.assertEqual(0, self.clean())
        self.read_anew()
        self.assertEqual(
            [INDEX], [*self.lpar(self.boot_crypto('ACTIVE')).slots]
        )

    def begin_with_plain_device(self):
        """Let the GPUs be of those that are used again."""
        plain = _INVENTORY.replace('one_time_use: true', 'one_time_use: false')
        self.restart_host(inventory=plain)

    def story_card_in_use_stays_with_its_server_only(self):
        self.begin_with_plain_device()
        server = self.boot(one_time_use.gpu_group())
        self.show(_CRYPTO)
        self.read_anew()

        self.assert_quarantined()
        self.assertEqual([INDEX], [*self.lpar(server).slots])
        self._delete_server(server)
        self.read_anew()
        self.assert_quarantined()
        self.boot_crypto('ERROR')

        # The old card comes back, which only an operator can tell.
        self.show(_GPU)
        self.read_anew()
        self.assert_quarantined()
        code, _, err = self.run_command('restore', SLOT, '--new-card')
        self.assertEqual(2, code)
        self.assertIn('leave out --new-card', err)
        code, _, err = self.run_command('restore', SLOT)
        self.assertEqual(0, code, err)
        self.read_anew()
        self.assertEqual({'CUSTOM_GPU': 0}, self.provider()[0])
