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

"""Cyborg's driver under real Cyborg services, Placement and Nova.

The tests make the agent report when they want it to.
"""

from nova_powervm.devices import names
from tests import proofs
from tests.functional import base
from tests.functional import real_cyborg

CRYPTO, NVME = 0x21010038, 0x21010030
GPU = 0x21010020
MARKS = {names.CYBORG_TRAIT, names.WITHDRAWN_TRAIT}
CARD = {
    'description': 'PCIe3 Crypto Coprocessor',
    'vendor_id': '1014',
    'device_id': '0634',
    'class': '1080',
    'revision_id': '00',
}
ACCELERATORS = """\
crypto:
  identification: {drc_index: "21010038"}
  resource_class: CUSTOM_CRYPTO
  traits: [CUSTOM_FAST]
nvme:
  identification: {drc_index: "21010030"}
  resource_class: CUSTOM_NVME
"""


class CyborgTestCase(base.PowerVMTestCase):
    """Starts hosts with a GPU of Nova's, and two cards of Cyborg's."""

    inventory = """\
gpu:
  identification: {drc_index: "21010020"}
  resource_class: CUSTOM_GPU
"""
    accelerators = ACCELERATORS

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.cyborg = self.useFixture(real_cyborg.RealCyborg(self))
        self.begin()

    def begin(self, host='host1', **options):
        """Start a host and report its slots."""
        self.start_host(host)
        self.cyborg.configure(host, self.accelerators, **options)
        self.cyborg.report(host)

    def begin_anew(self):
        """Delete Cyborg's slots from Placement, and everything in Cyborg."""
        self.cyborg.call('clear')
        for host in self.hosts:
            for provider in self.providers(host).values():
                self.placement.delete(
                    f'/resource_providers/{provider["uuid"]}', version='1.36'
                )
        for trait in self._get_all_traits():
            if trait.startswith('CUSTOM_POWERVM_IOSLOT_DRC_INDEX_2101003'):
                self.placement.delete(f'/traits/{trait}', version='1.36')
        self.cyborg.configure('host1', ACCELERATORS)

    def providers(self, host='host1'):
        """Return Cyborg's providers of slots by DRC index."""
        root = self._get_provider_uuid_by_host(host)
        return {
            names.slot_of_cyborg_provider(provider['name']): provider
            for provider in self._get_all_rps_in_a_tree(root)
            if provider['name'].startswith(names.CYBORG_PROVIDER_PREFIX)
        }

    def contents(self, host='host1'):
        """Return what Placement has of each of Cyborg's slots."""
        return {
            index: (
                provider['uuid'],
                self._get_provider_inventory(provider['uuid']),
                set(self._get_provider_traits(provider['uuid'])),
            )
            for index, provider in self.providers(host).items()
        }

    def marks(self, host='host1'):
        """Return the mark of each of Cyborg's slots."""
        return {
            index: next(
                iter(MARKS.intersection(self._get_provider_traits(p['uuid']))),
                '',
            )
            for index, p in self.providers(host).items()
        }

    def look(self, count=1, host='host1'):
        """Report several times, and return the marks after each report."""
        seen = []
        for _ in range(count):
            self.cyborg.report(host)
            seen.append(self.marks(host))
        return seen

    def accelerated(self, resource_class='CUSTOM_CRYPTO', **options):
        """Boot a server with one device of Cyborg's."""
        profile = resource_class.lower()
        if profile not in self.profiles():
            self.cyborg.create_profile(
                {
                    f'resources:{resource_class}': '1',
                    f'trait:{names.CYBORG_TRAIT}': 'required',
                },
                name=profile,
            )
        return self.boot({'accel:device_profile': profile}, **options)

    def profiles(self):
        return {
            profile['name']
            for profile in self.cyborg.request(
                'GET', '/device_profiles'
            ).json()['device_profiles']
        }

    def delete(self, server):
        """Delete a server, and wait until nothing of it is left."""
        self._delete_server(server)
        self.wait_until_unallocated(server)


class ReportTest(CyborgTestCase):
    """Tells stories, each of which begins with a first report."""

    def prepare(self):
        # The story before may have killed the services.
        self.cyborg.configure_nova()
        self.begin_anew()
        self.cyborg.report()

    def forget(self):
        """Put the card back that a story has pulled."""
        super().forget()
        self.control().plug('21010038', CARD)
        self.cyborg.set_roles('admin')

    def test_reports_reach_placement(self):
        self.tell_stories()

    @proofs.proves('C1', 'C14', 'V19', 'V20')
    def story_providers_stand_below_node_with_class_and_traits(self):
        found = self.contents()

        self.begin('host2')
        others = self.contents('host2')
        self.assertEqual({CRYPTO, NVME}, found.keys())
        self.assertEqual(found.keys(), others.keys())
        self.assertEqual(
            4, len({u for u, _, _ in (*found.values(), *others.values())})
        )
        provider = self.providers()[CRYPTO]
        self.assertEqual(
            'PowerVM Cyborg IOSlot host1 21010038', provider['name']
        )
        self.assertEqual(
            self._get_provider_uuid_by_host('host1'),
            provider['parent_provider_uuid'],
        )
        _, inventory, traits = found[CRYPTO]
        self.assertEqual({'CUSTOM_CRYPTO'}, inventory.keys())
        self.assertEqual(1, inventory['CUSTOM_CRYPTO']['total'])
        self.assertLessEqual(
            {
                'CUSTOM_FAST',
                'CUSTOM_POWERVM_CYBORG',
                'CUSTOM_POWERVM_IOSLOT_DEVICE_ID_0634',
                'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010038',
                'CUSTOM_POWERVM_IOSLOT_VENDOR_ID_1014',
                'OWNER_CYBORG',
            },
            traits,
        )

    def story_unchanged_report_costs_reads_alone(self):
        self.cyborg.report()
        self.cyborg.placement.take()
        self.control().clear_journal()

        self.cyborg.report()

        requests = self.cyborg.placement.take()
        ours = [line for line in requests if 'in_tree' in line]
        of_slots = [
            line
            for line in requests
            if line.endswith(('/inventories', '/traits', '/allocations'))
        ]
        self.assertEqual({'GET'}, {line.split()[0] for line in requests})
        self.assertEqual(1, len(ours), requests)
        self.assertEqual(3 * 2, len(of_slots), requests)
        # Cyborg's conductor asks for the compute node's provider.
        self.assertEqual(1 + 3 * 2 + 1, len(requests), requests)
        self.assertEqual(
            [304], [entry['status'] for entry in self.control().journal()]
        )

    # Servers get the devices that are offered.

    @proofs.proves('C10', 'V1', 'V3', 'device.cyborg-arq')
    def story_server_gets_slot_and_gives_it_back(self):
        server = self.accelerated()

        self.assertEqual({CRYPTO: True}, self.lpar(server).slots)
        (request,) = self.cyborg.requests(server)
        self.assertEqual('Bound', request['state'])
        self.assertEqual(
            '21010038', request['attach_handle_info']['drc_index']
        )
        # The server's own slot stays as it was offered.
        self.assertEqual(
            [{CRYPTO: names.CYBORG_TRAIT, NVME: names.CYBORG_TRAIT}],
            self.look(),
        )

        self.delete(server)

        self.assertEqual([], self.cyborg.requests())
        self.assertIsNone(self.slot_owner(CRYPTO))

        # Disabled, it is out of reach however long it is missing.
        (device,) = [
            d
            for d in self.cyborg.request('GET', '/devices').json()['devices']
            if d['model'] == '0634'
        ]
        path = f'/devices/{device["uuid"]}'
        answer = self.cyborg.request('POST', f'{path}/disable')
        self.assertEqual(204, answer.status_code)
        self.control().pull('21010038')
        self.look(4)
        self.control().plug('21010038', CARD)
        self.look()
        refused = self.accelerated(expected='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        answer = self.cyborg.request('POST', f'{path}/enable')
        self.assertEqual(204, answer.status_code)

    # A card that vanishes goes when nobody has it.

    def story_card_in_use_stays_and_other_changes_reach_placement(self):
        server = self.accelerated()
        self.control().pull('21010038')
        self.cyborg.configure(
            'host1',
            ACCELERATORS.replace('CUSTOM_NVME', 'CUSTOM_DRIVE'),
            publish_location_traits=False,
        )

        (*_, marks) = self.look(4)

        self.assertEqual(
            {CRYPTO: names.WITHDRAWN_TRAIT, NVME: names.CYBORG_TRAIT}, marks
        )
        _, inventory, traits = self.contents()[NVME]
        self.assertEqual({'CUSTOM_DRIVE'}, inventory.keys())
        self.assertNotIn('IOSLOT_DRC_NAME', str(traits))
        self.delete(server)
        self.assertNotIn(CRYPTO, self.look(3)[-1])

    def story_card_with_leftover_request_stays_and_cyborg_keeps_answering(
        self,
    ):
        """Nova does not try again if Cyborg is away during a delete.

        Cyborg hides requests of other projects from an agent whose user is no
        administrator.
        """
        server = self.accelerated()
        self.cyborg.call('go_away')
        self.delete(server)
        self.cyborg.call('come_back')
        (left,) = self.cyborg.requests()
        self.control().pull('21010038')

        self.cyborg.set_roles('service', 'reader')
        self.assertIn(CRYPTO, self.look(4)[-1])
        self.assertIn('needs the role admin', self.cyborg.logged())
        self.cyborg.set_roles('admin')
        self.assertIn(CRYPTO, self.look(4)[-1])

        self.assertEqual([left], self.cyborg.requests())
        answer = self.cyborg.request(
            'DELETE', f'/accelerator_requests?arqs={left["uuid"]}'
        )
        self.assertEqual(204, answer.status_code)
        self.assertNotIn(CRYPTO, self.look()[-1])

    # What Placement loses is written again.

    def lose(self, what):
        uuid = self.providers()[CRYPTO]['uuid']
        if what == 'traits':
            self._set_provider_traits(uuid, ['OWNER_CYBORG'])
        elif what == 'inventory':
            self.set_inventory(uuid, {})
        else:
            self.placement.delete(
                f'/resource_providers/{uuid}', version='1.36'
            )

    def story_lost_content_of_placement_is_written_by_second_report(self):
        before = self.contents()
        for what in ('traits', 'inventory', 'provider'):
            with self.subTest(what):
                self.lose(what)
                self.look(2)
                self.assertEqual(before, self.contents())

    def restart(self, text):
        """Return the error with which an agent with another file ends."""
        self.cyborg.configure('host1', text)
        error = self.assertRaises(real_cyborg.ServiceError, self.cyborg.report)
        return str(error)

    def story_report_that_fails_changes_nothing(self):
        before = self.contents()
        self.control().add_fault(match='ManagedSystem', status=503, every=True)
        for _ in range(2):
            with self.assertRaises(real_cyborg.ServiceError):
                self.cyborg.report()
        self.control().clear_faults()
        for text, words in (
            (ACCELERATORS + 'more: 5\n', ('line 8', "'more'")),
            (
                ACCELERATORS + '  one_time_use: true\n',
                ("paragraph 'nvme' (line 5)", 'one_time_use'),
            ),
        ):
            with self.subTest(text):
                error = self.restart(text)
                for word in words:
                    self.assertIn(word, error)
        self.assertEqual(before, self.contents())
