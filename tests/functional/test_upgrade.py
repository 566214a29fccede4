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

"""An upgrade of a host whose servers and cards an earlier version recorded.

``tests/upgrade/record.py`` says how the states are made.
"""

import json
import pathlib

from nova.db.main import api as main_db
from oslo_utils import uuidutils

from emulator.tests import rfb_viewer
from nova_powervm.devices import names
from nova_powervm.virt import system_metadata
from tests import upgrade
from tests.functional import base
from tests.functional import images
from tests.functional import local_hosts
from tests.functional import move_sites
from tests.functional import moving
from tests.functional import test_consoles
from tests.ops import base as ops_base
from tests.unit.docs import pages
from tests.upgrade import recording

_FOLDER = pathlib.Path(upgrade.__file__).parent
#: What of a partition is the server's, and not the moment's.
_OF_PARTITION = ('uuid', 'name', 'state', 'slots', 'adapters')
_OF_MAPPING = ('client', 'name', 'kind', 'udid', 'client_slot', 'lua')


class UpgradeTestCase(test_consoles.ConsoleTestCase, moving.MovingTestCase):
    """Loads a state, and starts nova-compute of this version on it."""

    def load(self, release):
        """Load what a release has recorded; return its description."""
        self.uploads = images.Uploads(self.glance)
        ops_base.make_gigabytes_small(self, local_hosts.GB)
        state = json.loads((_FOLDER / f'{release}.json').read_text())
        recording.load(self, state)
        described = state['described']
        emulator = recording.load_host(
            state,
            password=uuidutils.generate_uuid(),
            host_root=self.root('host1'),
        )
        self.inventory = described['inventory']
        self._node_uuids['host1'] = described['node']
        # The numbers of new ones begin behind those of the recorded ones.
        self.flavors = len(state['databases']['nova_api']['flavors'])
        self.hosts['host1'] = self.useFixture(
            base.EmulatedHost('host1', emulator=emulator)
        )
        return described

    def upgrade(self):
        """Start nova-compute of this version, and let two cycles pass."""
        self.configure('host1', disk_driver='ssp')
        self._start_compute('host1')
        # It was last heard of when the state was recorded.
        service = self.computes['host1'].service_ref
        service.report_count += 1
        service.save()
        for _ in range(2):
            self._run_periodics()

    def host_of_servers(self):
        """Return what servers have on the host."""
        return {
            partition['name']: (
                {key: partition[key] for key in _OF_PARTITION},
                [
                    {key: mapping[key] for key in _OF_MAPPING}
                    for mapping in self.mappings()
                    if mapping['client'] == partition['name']
                ],
            )
            for partition in self.host_state()['partitions']
            if partition['name'].startswith('instance-')
        }

    def cards(self):
        """Return uuid, name, classes and marks of each slot's provider."""
        found = {}
        for index, provider in self.slot_providers().items():
            uuid = provider['uuid']
            found[f'{index:08X}'] = {
                'provider': (uuid, provider['name']),
                'reserved': {
                    name: (record['reserved'], record['total'])
                    for name, record in self._get_provider_inventory(
                        uuid
                    ).items()
                },
                'marks': {
                    trait
                    for trait in self._get_provider_traits(uuid)
                    if trait.startswith(names.QUARANTINED_TRAIT)
                    or trait == names.ONE_TIME_USE_TRAIT
                },
                'usages': self._get_provider_usages(uuid),
            }
        return found

    def kept(self, server):
        """Return what the driver keeps in the record of a server."""
        return {
            key: value
            for key, value in self.instance(server).system_metadata.items()
            if 'powervm_' in key and not key.startswith('image_')
        }


class FirstReleaseTest(UpgradeTestCase):
    """The state before the first release, whose keys had other names."""

    def setUp(self):
        super().setUp()
        self.described = self.load('a1f4cb35')
        self.servers = {
            name: self.api.get_server(uuid)
            for name, uuid in self.described['servers'].items()
        }

    def test_upgrade_loses_nothing(self):
        host, cards = self.host_of_servers(), self.cards()
        kept = {name: self.kept(each) for name, each in self.servers.items()}
        # If this fails, the state is another one than the steps are for.
        self.assertEqual(4, len(host))
        old_path = kept['device'].pop('powervm_console@host1')
        self.assertEqual('2', kept['ungrown']['powervm_root_gb'])

        self.upgrade()

        with self.subTest('servers stay as they are'):
            self.assertEqual(host, self.host_of_servers())
            self.assertNotIn('ERROR [nova_powervm', self.logged())
        with self.subTest('cards stay as they are'):
            self.assertEqual(cards, self.cards())
            self.check_cards(cards)
        with self.subTest('keys have new names'):
            for name, server in self.servers.items():
                self.assertEqual(
                    {
                        f'os_glance_{key}': value
                        for key, value in kept[name].items()
                    }
                    | self.slots_of_ports(server),
                    self.kept(server),
                )
        with self.subTest('console has another path'):
            self.check_console(old_path)
        for step in (
            self.check_images,
            self.check_reboots,
            self.check_rollback,
            self.check_deletions,
        ):
            with self.subTest(step.__name__):
                step()

    def slots_of_ports(self, server):
        """Return the record of virtual slots, which the first start makes."""
        return {
            f'os_glance_powervm_slot@{adapter["mac"]}': str(adapter['slot'])
            for adapter in self.adapters(server)
        }

    def check_cards(self, cards):
        """Check that the state had what it is said to have."""
        burned = cards[self.described['burned']]
        self.assertEqual({move_sites.SCRATCH: (1, 1)}, burned['reserved'])
        self.assertEqual({names.ONE_TIME_USE_TRAIT}, burned['marks'])
        self.assertEqual({move_sites.SCRATCH: 0}, burned['usages'])
        withheld = cards[self.described['quarantined']]
        self.assertEqual({move_sites.GPU: (1, 1)}, withheld['reserved'])
        self.assertEqual(
            {names.QUARANTINED_TRAIT, names.quarantine_trait('FAILED')},
            withheld['marks'],
        )
        (used,) = self.allocated_slots(self.servers['one_time'])
        self.assertEqual(
            {move_sites.SCRATCH: (1, 1)}, cards[f'{used:08X}']['reserved']
        )

    def check_rollback(self):
        """Give the keys their old names, as the page says, and upgrade."""
        (statement,) = (
            text.replace('<host>', 'host1')
            for name, text in pages.blocks('sql')
            if name == 'admin/upgrade'
        )
        self.computes['host1'].stop()
        new = {name: self.kept(each) for name, each in self.servers.items()}
        # Its path is made anew by either version.
        del new['device'][system_metadata.console('host1').name]
        with main_db.get_engine().begin() as connection:
            connection.exec_driver_sql(statement)
        for name, server in self.servers.items():
            self.assertEqual(
                {
                    key.removeprefix('os_glance_'): value
                    for key, value in new[name].items()
                },
                {
                    key: value
                    for key, value in self.kept(server).items()
                    if 'console' not in key
                },
            )

        self.upgrade()

        for name, server in self.servers.items():
            self.assertLessEqual(new[name].items(), self.kept(server).items())

    def check_images(self):
        """Make an image of a server, and a server of an old image."""
        server = self.servers['device']
        self.write_as_guest(server)
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'new'}}
        )
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        (image,) = (
            image
            for image in self.glance.detail(None)
            if image['name'] == 'new'
        )
        self.assertEqual('active', image['status'])
        self.assert_has_no_keys(image)

        old = self.glance.show(None, self.described['snapshot'])['properties']
        built = self.boot({}, image=self.described['snapshot'], disk=1)
        self.assertEqual(
            old['powervm_console@host1'],
            self.instance(built).system_metadata[
                'image_powervm_console@host1'
            ],
        )
        viewer = self.assert_shows(self.ask(built), built)
        viewer.close()
        self.assertNotIn(
            old['powervm_console@host1'], self.recorded(built).values()
        )
        self._delete_server(built)

    def check_console(self, old_path):
        """Ask for the console whose path is in an image."""
        server = self.servers['device']
        self.assert_shows(self.ask(server), server).close()
        (path,) = self.recorded(server).values()
        self.assertNotEqual(old_path, path)
        self.assertIn(system_metadata.console('host1').name, self.kept(server))
        address = ('127.0.0.1', self.ports['host1'])
        viewer = rfb_viewer.Viewer(address, old_path)
        self.addCleanup(viewer.close)
        self.assertRaises(rfb_viewer.Refused, viewer.enter)

    def check_reboots(self):
        """Reboot each server hard: it has what it had, and grows."""
        before = self.host_of_servers()
        for server in self.servers.values():
            self.api.post_server_action(
                server['id'], {'reboot': {'type': 'HARD'}}
            )
            self._wait_for_server_parameter(
                server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
            )
        for partition, _ in before.values():
            partition['state'] = 'running'
        self.assertEqual(before, self.host_of_servers())
        ungrown = self.servers['ungrown']
        self.assertEqual(2.0, self.disks_of(ungrown)['root']['capacity'])
        self.assertNotIn(system_metadata.ROOT_GB.name, self.kept(ungrown))

    def check_deletions(self):
        """Delete the servers: nothing of theirs stays, but burned cards."""
        cards = self.cards()
        for server in self.servers.values():
            self._delete_server(server)
        for _ in range(3):
            self._run_periodics()

        self.assertEqual({}, self.host_of_servers())
        self.assertEqual([], self.mappings())
        self.assertEqual([], self.vlans_of_bridge())
        after = self.cards()
        for found in (*cards.values(), *after.values()):
            del found['usages']
        self.assertEqual(cards, after)

    def vlans_of_bridge(self):
        """Return the VLANs that the old version has added to the bridge."""
        (bridge,) = self.host_state()['network_bridges']
        return bridge['vlans']
