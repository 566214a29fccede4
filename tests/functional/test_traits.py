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

"""The driver decides all traits of a slot's provider; Nova adds its own.

Starting nova takes longer than everything else, so each test has many steps.
"""

import os
import re
import textwrap

import fixtures
from nova.scheduler.client import report

from tests import proofs
from tests.functional import base
from tests.functional import test_reload

INDEX = 0x21010020
OTHER = 0x21010021
ALL = test_reload.GPU_SLOTS
DENY = base.GPUS + textwrap.dedent("""\
    not this one:
      identification: {drc_index: "21010020"}
      allow: false
    """)


def gpus(*traits):
    """Return a file with these traits for all GPUs."""
    line = f'  traits: [{", ".join(traits)}]\n' if traits else ''
    return re.sub(r'  traits: .*\n', line, base.GPUS)


class TraitsTest(test_reload.ReloadTestCase):
    """Checks traits in Placement."""

    def test_driver_decides_traits(self):
        self.tell_stories()

    def add_trait(self, trait, index=INDEX):
        """Add a trait to a provider, as an operator does."""
        uuid = self.slot_providers()[index]['uuid']
        self._create_trait(trait)
        traits = self._get_provider_traits(uuid)
        self._set_provider_traits(uuid, [*traits, trait])

    def delete(self, index=INDEX):
        """Delete a slot's provider in Placement."""
        uuid = self.slot_providers()[index]['uuid']
        answer = self.placement.delete(f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status, answer.body)

    def rename(self, name, index=INDEX):
        """Rename a slot's provider."""
        provider = self.slot_providers()[index]
        answer = self.placement.put(
            f'/resource_providers/{provider["uuid"]}',
            {'name': name, 'parent_provider_uuid': self.root},
            version='1.14',
        )
        self.assertEqual(200, answer.status, answer.body)

    @property
    def root(self):
        return self._get_provider_uuid_by_host('host1')

    def nova_reads_all(self):
        """Clear Nova's cache of providers."""
        self.computes['host1'].manager.reportclient.clear_provider_cache()

    # Traits of the file

    @proofs.proves('C19', 'D64', 'device.traits.operator')
    def story_provider_traits_follow_inventory_file(self):
        self.begin(gpus('CUSTOM_A'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))

        self.add_trait('CUSTOM_HELD')
        self.nova_reads_all()
        self.change(gpus('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.assertEqual(ALL, self.providers_with('OWNER_NOVA'))
        # Traits set by hand are not kept.
        self.assertEqual(set(), self.providers_with('CUSTOM_HELD'))

        # Deleted and renamed providers.
        renamed = 'PowerVM IOSlot by another name 21020024'
        self.rename(renamed, 0x21020024)
        self.delete()
        # The first cycle fails in Nova, the second recreates it.
        self.cycles(2)
        self.assertEqual(ALL, set(self.slot_providers()))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.assertEqual(renamed, self.slot_providers()[0x21020024]['name'])

        # While nova-compute is down.
        self.add_trait('CUSTOM_HELD')
        self.restart_host(inventory=gpus('CUSTOM_C'))
        self.assertEqual(set(), self.providers_with('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with('CUSTOM_HELD'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_C'))

    @proofs.proves('device.traits.operator')
    def story_orphan_keeps_its_traits_until_it_is_offered_again(self):
        self.begin(gpus('CUSTOM_A'))
        server = self.boot(test_reload.FIRST_GPU)
        self.change(re.sub('traits: .*', 'traits: [CUSTOM_B]', DENY))
        self.add_trait('CUSTOM_HELD')
        self.nova_reads_all()
        self.cycles(1)
        self.assertEqual({INDEX}, self.providers_with(test_reload.WITHDRAWN))
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_A'))
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_HELD'))

        self.change(gpus('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with(test_reload.WITHDRAWN))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.assertEqual(set(), self.providers_with('CUSTOM_HELD'))
        self._delete_server(server)

    # A withdrawn device is offered again, whichever write failed.

    def fail(self, what, failure):
        """Let each write of a provider's traits or inventories fail.

        :param what: 'traits' or 'inventories'.
        :param failure: 'refused', 'conflict' or 'killed'.
        """
        uuid = self.slot_providers()[INDEX]['uuid']
        url = f'/resource_providers/{uuid}/{what}'
        put = report.SchedulerReportClient.put

        def fail_or_put(client, to, *args, **kwargs):
            if to != url:
                return put(client, to, *args, **kwargs)
            if failure == 'killed':
                raise SystemError('killed')
            if failure == 'conflict':
                # Another client was faster.
                self.add_trait(f'CUSTOM_{self.generation(uuid)}')
                return put(client, to, *args, **kwargs)
            return put(client, f'{to}/nowhere', *args, **kwargs)

        return fixtures.MockPatchObject(
            report.SchedulerReportClient, 'put', fail_or_put
        )

    def story_withdrawn_device_is_offered_again_after_failed_write(self):
        self.begin(base.GPUS)
        self.boot(test_reload.FIRST_GPU)
        for what, failure in (
            ('traits', 'killed'),
            ('traits', 'conflict'),
            ('inventories', 'refused'),
        ):
            with self.subTest(f'{what} {failure}'):
                self.withdraw_and_offer(what, failure)

    def withdraw_and_offer(self, what, failure):
        self.write(DENY)
        with self.fail(what, failure):
            self.cycles(3)
        if failure == 'killed':
            self.restart_host(inventory=DENY)
        if what == 'traits':
            # reserved without the trait would count as an operator's.
            self.assertEqual({'CUSTOM_GPU': 0}, self.reserved(INDEX))
        self.cycles(2)
        self.assertEqual({'CUSTOM_GPU': 1}, self.reserved(INDEX))
        self.assertEqual({INDEX}, self.providers_with(test_reload.WITHDRAWN))

        self.change(base.GPUS)
        self.assertEqual({'CUSTOM_GPU': 0}, self.reserved(INDEX))
        self.assertEqual(set(), self.providers_with(test_reload.WITHDRAWN))


class AdditionalTraitsTest(test_reload.ReloadTestCase):
    """Nova's provider.yaml adds an inventory and a trait to a slot."""

    added = textwrap.dedent("""\
        meta: {schema_version: '1.0'}
        providers:
          - identification: {name: PowerVM IOSlot host1 21010020}
            inventories:
              additional:
                - CUSTOM_LICENSE:
                    total: 4
                    reserved: 1
                    min_unit: 1
                    max_unit: 2
                    step_size: 1
                    allocation_ratio: 1.0
            traits:
              additional: [CUSTOM_RACK_4]
        """)

    @proofs.proves('C21', 'device.traits.operator')
    def test_additions_of_nova_survive_updates(self):
        directory = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(directory, 'slot.yaml'), 'w') as file:
            file.write(self.added)
        self.flags(provider_config_location=directory, group='compute')
        self.start_host()
        # The first update makes the provider that the file adds to.
        self.cycles(2)
        self.assert_added()

        server = self.boot(test_reload.FIRST_GPU)
        self.assertEqual({INDEX: True}, self.lpar(server).slots)
        self.forget_log()
        self.cycles(2)
        self.assert_added()
        self.change(DENY)
        self.cycles(1)
        self.assert_added()
        self.assertEqual(1, self.reserved(INDEX)['CUSTOM_GPU'])
        self.restart_host(inventory=base.GPUS)
        self.cycles(1)
        self.assert_added()
        self._delete_server(server)
        self.boot(test_reload.FIRST_GPU)
        self.assertNotIn('Error updating resources', self.logged())

    def assert_added(self):
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_RACK_4'))
        uuid = self.slot_providers()[INDEX]['uuid']
        inventory = self._get_provider_inventory(uuid)
        self.assertEqual({'CUSTOM_GPU', 'CUSTOM_LICENSE'}, set(inventory))
        self.assertEqual(
            (4, 1),
            (
                inventory['CUSTOM_LICENSE']['total'],
                inventory['CUSTOM_LICENSE']['reserved'],
            ),
        )
