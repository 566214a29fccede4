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

"""Traits that leave the inventory file leave Placement; those of others stay.

Starting nova takes longer than all else, so each test tells a whole story.
"""

import json
import os
import re

import fixtures
from nova.scheduler.client import report

from tests.functional import base
from tests.functional import test_reload

INDEX = 0x21010020
OTHER = 0x21010021
ALL = test_reload.GPU_SLOTS


def gpus(*traits):
    """Give a file that sets these traits on all GPUs."""
    line = f'  traits: [{", ".join(traits)}]\n' if traits else ''
    return re.sub(r'  traits: .*\n', line, base.GPUS)


def on_all(trait):
    """Give what the journal holds if all providers got this trait of it."""
    return {index: {trait} for index in ALL}


class TraitsTestCase(test_reload.Reload):
    """Looks at the traits in Placement, and at the journal of them."""

    inventory = gpus('CUSTOM_A')

    @property
    def trait_journal(self):
        return self.journal().replace('.json', '-traits.json')

    def recorded(self):
        """Give the traits in the journal, by slot."""
        with open(self.trait_journal) as file:
            providers = json.load(file)['providers']
        indexes = {p['uuid']: i for i, p in self.slot_providers().items()}
        # Whatever is gone would be found here by its uuid.
        return {
            indexes.get(uuid, uuid): set(traits)
            for uuid, traits in providers.items()
        }

    def by_hand(self, trait, index=INDEX):
        """Set one more trait, as an operator does."""
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
        """Give a slot's provider another name."""
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
        """Let Nova forget what it has cached of Placement."""
        self.computes['host1'].manager.reportclient.clear_provider_cache()

    def dies_before_placement_is_told(self, text):
        """Change the file; the update gets as far as the journal."""
        self.write(text)
        with fixtures.MockPatchObject(
            report.SchedulerReportClient,
            'update_from_provider_tree',
            side_effect=SystemError('killed'),
        ):
            self.cycles()
        self.assertIn('SystemError: killed', self.stdlog.logger.output)

    def warnings(self):
        return [line for line in self.log('WARNING') if '-traits' in line]


class Running(TraitsTestCase):
    def test_a_trait_of_the_file_comes_and_goes(self):
        self.start_host()
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))
        # Nothing of what the driver generates, and no owner.
        self.assertEqual(on_all('CUSTOM_A'), self.recorded())

        # Nova has not read any of this when the file says the same.
        self.by_hand('CUSTOM_B')
        self.by_hand('CUSTOM_HELD')
        self.change(gpus('CUSTOM_A', 'CUSTOM_B'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.change(gpus())
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_B'))
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_HELD'))
        self.assertEqual(ALL, self.providers_with('OWNER_NOVA'))

        # One more cycle finds them gone; after that nothing is done.
        self.cycles(1)
        self.assertEqual({}, self.recorded())
        settled = self.computes['host1'].manager.driver._settled
        picture = settled._picture
        self.assertIsNotNone(picture)
        os.remove(self.trait_journal)
        self.cycles(2)
        self.assertIs(picture, settled._picture)
        self.assertFalse(os.path.exists(self.trait_journal))

        # What the file had once is anybody's now.
        self.by_hand('CUSTOM_A', OTHER)
        self.nova_reads_all()
        self.cycles(1)
        self.assertEqual({OTHER}, self.providers_with('CUSTOM_A'))
        self.change(gpus('CUSTOM_A'))
        self.change(gpus())
        self.assertEqual({OTHER}, self.providers_with('CUSTOM_A'))
        self.assertEqual([], self.warnings())

    def test_deleted_renamed_and_withdrawn_providers(self):
        self.start_host()
        renamed = 'PowerVM IOSlot by another name 21020024'
        self.rename(renamed, 0x21020024)
        self.delete()
        # The first cycle fails in Nova, the second makes it anew.
        self.cycles(2)
        self.assertEqual(ALL, set(self.slot_providers()))
        self.assertEqual(on_all('CUSTOM_A'), self.recorded())

        server = self.boot(
            {
                'resources1:CUSTOM_GPU': '1',
                'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010022': 'required',
            }
        )
        self.change(gpus('CUSTOM_A') + test_reload.Denied.deny)
        self.assertEqual(
            {0x21010022}, self.providers_with(test_reload.WITHDRAWN)
        )
        self.cycles(1)
        self.assertEqual({0x21010022, 0x21020024}, set(self.recorded()))

        # It is mended by a file that does not have the trait any more.
        self.change(gpus('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with(test_reload.WITHDRAWN))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.cycles(1)
        self.assertEqual(on_all('CUSTOM_B'), self.recorded())
        self.assertEqual(renamed, self.slot_providers()[0x21020024]['name'])
        self._delete_server(server)

    def test_a_journal_that_can_not_be_written_stops_nothing(self):
        self.start_host(inventory=gpus())
        self.assertFalse(os.path.exists(self.trait_journal))
        self.forget_log()
        os.mkdir(self.trait_journal + '.new')
        self.change(gpus('CUSTOM_A'))
        self.cycles(2)
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))
        (line,) = self.warnings()
        self.assertIn('can not be written', line)

        # This process knows all the same.
        self.change(gpus('CUSTOM_B'))
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.assertEqual(1, len(self.warnings()))
        os.rmdir(self.trait_journal + '.new')
        self.cycles(1)
        self.assertEqual(on_all('CUSTOM_B'), self.recorded())


class Down(TraitsTestCase):
    def test_the_file_changes_while_nova_compute_is_down(self):
        self.start_host()
        self.by_hand('CUSTOM_HELD')
        self.restart_host(inventory=gpus('CUSTOM_B', 'CUSTOM_HELD'))
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_HELD'))
        self.restart_host(inventory=gpus())
        self.assertEqual(set(), self.providers_with('CUSTOM_B'))
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_HELD'))

        # Killed when Placement has been told, before it was written down.
        self.assertIn('CUSTOM_B', self.recorded()[OTHER])
        self.restart_host()
        self.assertEqual({}, self.recorded())
        self.assertEqual({INDEX}, self.providers_with('CUSTOM_HELD'))

    def test_it_is_killed_between_journal_and_placement(self):
        self.start_host(inventory=gpus())
        # What was never set is forgotten.
        self.dies_before_placement_is_told(gpus('CUSTOM_A'))
        self.assertEqual(on_all('CUSTOM_A'), self.recorded())
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))
        self.restart_host(inventory=gpus())
        self.assertEqual({}, self.recorded())

        # ... or set, if the file still says so.
        self.dies_before_placement_is_told(gpus('CUSTOM_A'))
        self.restart_host(inventory=gpus('CUSTOM_A'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))

        # What should have gone goes.
        self.dies_before_placement_is_told(gpus())
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))
        self.restart_host(inventory=gpus())
        self.assertEqual(set(), self.providers_with('CUSTOM_A'))

    def test_a_journal_that_is_lost_or_damaged(self):
        self.start_host()
        self.computes['host1'].stop()
        os.remove(self.trait_journal)
        # As after an upgrade from a driver that kept none.
        self.restart_host(inventory=gpus('CUSTOM_B'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_A'))
        self.assertEqual(on_all('CUSTOM_B'), self.recorded())

        self.computes['host1'].stop()
        with open(self.trait_journal, 'w') as file:
            file.write('{')
        self.forget_log()
        self.restart_host(inventory=gpus('CUSTOM_C'))
        self.plug_gpu('21010040')
        self.cycles()
        self.assertEqual(ALL | {0x21010040}, set(self.slot_providers()))
        self.assertEqual(ALL | {0x21010040}, self.providers_with('CUSTOM_C'))
        self.assertEqual(ALL, self.providers_with('CUSTOM_B'))
        (line,) = self.warnings()
        self.assertIn('is damaged', line)
        self.assertIn('or remove it', line)
        with open(self.trait_journal) as file:
            self.assertEqual('{', file.read())
