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

"""The operator's commands that ask Cyborg.

Nova and Placement are real and in this process, Cyborg's API is real and in
its own. There is no agent: the tests write to Placement and to Cyborg's tables
what it would have reported.
"""

import json
import os
import urllib.error
import urllib.request

import fixtures
import os_traits
from oslo_utils import uuidutils

from nova_powervm.devices import names
from tests.functional import cyborg_process
from tests.functional import test_commands

CRYPTO = 'CUSTOM_CRYPTO'
#: Slots of the two cryptographic adapters of the emulated host.
FIRST, SECOND = 0x21010038, 0x21030039
CRYPTO_FILE = f"""\
crypto:
  identification:
    vendor_id: "1014"
    device_id: "0634"
  resource_class: {CRYPTO}
"""
RECORD = {
    'total': 1,
    'reserved': 0,
    'min_unit': 1,
    'max_unit': 1,
    'step_size': 1,
    'allocation_ratio': 1.0,
}
PROFILE = {
    'name': 'crypto',
    'groups': [
        {
            f'resources:{CRYPTO}': '1',
            f'trait:{names.CYBORG_TRAIT}': 'required',
        }
    ],
}


class CyborgTestCase(test_commands.CommandTestCase):
    """A host with slots of Nova's and of Cyborg's."""

    def setUp(self):
        super().setUp()
        self.start_host()
        self.cyborg = self.useFixture(cyborg_process.CyborgProcess())
        self.connect()

    def connect(self, roles='admin,member,reader'):
        """Let the commands use Cyborg and Nova as a user with these roles."""
        cyborg_process.use_connection(
            self,
            self.cyborg.connect(
                self.api_fixture.base_url, self.api_fixture.project_id, roles
            ),
        )

    def write_accelerators(self, text):
        """Write Cyborg's file, and return its path."""
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'accelerators.yaml')
        with open(path, 'w') as file:
            file.write(text)
        return path

    def add_provider(self, index, reserved=0, traits=(names.CYBORG_TRAIT,)):
        """Create the provider of a slot of Cyborg's; return its uuid."""
        uuid = uuidutils.generate_uuid()
        self.placement.post(
            '/resource_providers',
            {
                'name': names.cyborg_provider_name('host1', index),
                'parent_provider_uuid': self._get_provider_uuid_by_host(
                    'host1'
                ),
                'uuid': uuid,
            },
            version='1.20',
        )
        self.placement.put(f'/resource_classes/{CRYPTO}', None, version='1.7')
        self.set_inventory(uuid, {CRYPTO: {**RECORD, 'reserved': reserved}})
        own = {
            f'CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{index:08X}',
            os_traits.OWNER_CYBORG,
            *traits,
        }
        for trait in own:
            self.placement.put(f'/traits/{trait}', None, version='1.6')
        self.set_traits(uuid, own)
        return uuid

    def allocate(self, consumer, provider):
        """Allocate a slot of Cyborg's beside what the server has."""
        known = self.placement.get(f'/allocations/{consumer}', version='1.28')
        answer = self.placement.put(
            f'/allocations/{consumer}',
            {
                'allocations': {
                    uuid: {'resources': each['resources']}
                    for uuid, each in known.body['allocations'].items()
                }
                | {provider: {'resources': {CRYPTO: 1}}},
                'consumer_generation': known.body.get('consumer_generation'),
                'project_id': self.api.project_id,
                'user_id': 'admin',
            },
            version='1.28',
        )
        self.assertEqual(204, answer.status, answer.body)

    def create_profile(self, name, groups):
        """Create a device profile; return status and body of the answer."""
        request = urllib.request.Request(
            f'{self.cyborg.url}/device_profiles',
            json.dumps([{'name': name, 'groups': groups}]).encode(),
            headers={
                'X-Roles': 'admin',
                'Content-Type': 'application/json',
            },
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def request(self, provider, instance, **changes):
        """Return the record of an accelerator request."""
        return {
            'uuid': uuidutils.generate_uuid(),
            'profile': 'crypto',
            'state': 'Bound',
            'hostname': 'host1',
            'provider_uuid': provider,
            'instance': instance,
        } | changes


class ShowTest(CyborgTestCase):
    def show(self, index, *arguments):
        """Return the row of a slot."""
        code, rows = self.rows('show', *arguments)
        self.assertEqual(0, code)
        (row,) = [each for each in rows if each['Slot'] == f'{index:08X}']
        return row

    def test_show_tells_cyborgs_slots_without_asking_cyborg(self):
        self.add_provider(FIRST)
        row = self.show(FIRST)
        self.assertEqual(['Cyborg'], row['Managers'])
        self.assertEqual('Cyborg: free', row['State'])
        self.assertEqual(
            f'PowerVM Cyborg IOSlot host1 {FIRST:08X}', row['Cyborg Provider']
        )
        self.assertNotIn('Remedy', row)
        (gpu, *_) = sorted(self.slot_providers())
        self.assertEqual(['Nova'], self.show(gpu)['Managers'])
        _, out, _ = self.run_command('show')
        self.assertIn('Cyborg: free', out)

    def test_show_asks_cyborg_for_each_state(self):
        server = self.boot({})['id']
        gone = uuidutils.generate_uuid()
        provider = self.add_provider(FIRST)
        device = cyborg_process.device(FIRST, provider)
        disabled = {**device, 'status': 'maintaining'}
        bound = self.request(provider, server)
        failed = self.request(provider, server, state='BindFailed')
        left = self.request(provider, gone)
        for devices, requests, reserved, state, remedy in (
            ([device], [], 0, 'free', ''),
            ([disabled], [], 1, 'disabled', ''),
            ([disabled], [], 0, 'does not reserve it', 'device disable'),
            ([device], [], 1, 'although the device is en', 'device enable'),
            ([], [], 0, 'no device in Cyborg', 'cyborg-agent'),
            ([device], [bound], 0, 'Placement has not alloc', 'server show'),
            ([device], [failed], 0, 'in state BindFailed', 'arq show'),
            ([device], [left], 0, f'server {gone}, which does', left['uuid']),
        ):
            with self.subTest(state):
                self.cyborg.replace(
                    profiles=[PROFILE], devices=devices, requests=requests
                )
                self.reserve(provider, CRYPTO, reserved)
                row = self.show(FIRST, '--cyborg')
                self.assertIn(state, row['Cyborg State'])
                self.assertIn(remedy, ' '.join(row['Remedy']))
                self.assertIs(bool(remedy), bool(row['Remedy']), row)
        self.reserve(provider, CRYPTO, 0)
        self.allocate(server, provider)
        self.cyborg.replace(
            profiles=[PROFILE], devices=[device], requests=[bound]
        )
        row = self.show(FIRST, '--cyborg')
        self.assertEqual(f'in use by {server}', row['Cyborg State'])
        self.assertEqual([bound['uuid']], row['Requests'])
        self.assertEqual([], row['Remedy'])

    def test_remedy_removes_leftover_request(self):
        provider = self.add_provider(FIRST)
        left = self.request(provider, uuidutils.generate_uuid())
        self.cyborg.replace(
            profiles=[PROFILE],
            devices=[cyborg_process.device(FIRST, provider)],
            requests=[left],
        )
        (remedy,) = self.show(FIRST, '--cyborg')['Remedy']
        self.assertIn('X-Service-Token', remedy)
        url = remedy.rpartition(' ')[2].strip("'")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.delete(url)
        self.assertEqual(403, caught.exception.code)
        caught.exception.close()
        self.delete(url, 'service')
        self.assertEqual('free', self.show(FIRST, '--cyborg')['Cyborg State'])

    def delete(self, url, service_roles=''):
        """Send what curl sends, as auth_token passes it on to Cyborg."""
        request = urllib.request.Request(
            url,
            method='DELETE',
            headers={
                'X-Roles': 'admin,service',
                'X-Service-Roles': service_roles,
                'X-Project-Id': self.api_fixture.project_id,
            },
        )
        urllib.request.urlopen(request).close()

    def test_request_without_server_is_noted(self):
        provider = self.add_provider(FIRST)
        idle = self.request(
            None, None, state='Initial', hostname=None, provider_uuid=None
        )
        self.cyborg.replace(
            profiles=[PROFILE],
            devices=[cyborg_process.device(FIRST, provider)],
            requests=[idle],
        )
        code, _, err = self.run_command('show', '--cyborg')
        self.assertEqual(0, code)
        self.assertIn(f'openstack accelerator arq delete {idle["uuid"]}', err)

    def test_user_without_role_admin_is_refused(self):
        self.connect('member,reader')
        code, out, err = self.run_command('show', '--cyborg')
        self.assertEqual((1, ''), (code, out))
        self.assertIn('reading the servers of all projects', err)
        self.assertEqual(1, err.count('\n'), err)


class LintTest(CyborgTestCase):
    def lint(self, *arguments):
        """Return exit code, and name, severity and key of the findings."""
        code, rows = self.rows('flavor', 'lint', '--cyborg', *arguments)
        return code, {
            (
                row['Flavor'] or row['Device Profile'],
                row['Severity'],
                row['Extra spec'],
            )
            for row in rows
            # A flavor of nova's fixture
            if row['Flavor'] != 'm1.tiny.specs'
        }

    def make_flavor(self, name, extra_specs):
        flavor = self._create_flavor(name=name, extra_spec=extra_specs)
        self.addCleanup(self.api.delete_flavor, flavor)

    def test_lint_checks_profiles_with_the_flavors(self):
        provider = self.add_provider(FIRST)
        card = cyborg_process.device(FIRST, provider)
        greedy = {**PROFILE['groups'][0], f'resources:{CRYPTO}': '2'}
        gpu = [{'resources:CUSTOM_GPU': '1'}]
        self.cyborg.replace(
            profiles=[
                PROFILE,
                {'name': 'greedy', 'groups': [greedy]},
                {'name': 'gpu', 'groups': gpu},
                {'name': 'fake', 'groups': [{'resources:FPGA': '1'}]},
            ],
            devices=[card],
        )
        self.make_flavor('good', {'accel:device_profile': 'crypto'})
        self.make_flavor('gone', {'accel:device_profile': 'away'})
        self.make_flavor('plain', {f'resources1:{CRYPTO}': '1'})
        expected = {
            ('gone', 'error', 'accel:device_profile'),
            ('greedy', 'error', f'groups[0]: resources:{CRYPTO}'),
            ('gpu', 'error', f'groups[0]: trait:{names.CYBORG_TRAIT}'),
            ('gpu', 'warning', 'groups[0]'),
        }
        code, found = self.lint('--cloud')
        self.assertEqual(2, code)
        self.assertEqual(
            expected | {('plain', 'error', f'resources1:{CRYPTO}')}, found
        )
        self.assertEqual((0, set()), self.lint('good'))

    def test_profile_with_owner_trait_is_refused_by_cyborg(self):
        # So profiles require a mark that begins with CUSTOM_.
        group = {'resources:FPGA': '1', 'trait:OWNER_CYBORG': 'required'}
        code, answer = self.create_profile('owned', [group])
        self.assertEqual(400, code)
        self.assertIn('should start with CUSTOM_', answer)
        self.assertEqual(201, self.create_profile(**PROFILE)[0])


class DiffTest(CyborgTestCase):
    def test_diff_compares_cyborgs_file_with_its_providers(self):
        path = self.write_accelerators(CRYPTO_FILE)
        code, rows = self.rows('diff', '--accelerators', path)
        self.assertEqual(3, code)
        self.assertEqual(
            {('missing', f'{FIRST:08X}'), ('missing', f'{SECOND:08X}')},
            {(row['Kind'], row['Slot']) for row in rows},
        )
        self.add_provider(FIRST)
        _, rows = self.rows('diff', '--accelerators', path)
        (changed,) = [r for r in rows if r['Slot'] == f'{FIRST:08X}']
        self.assertEqual('changed', changed['Kind'])
        self.assertIn('VENDOR_ID_1014', changed['Difference'])
        # Without Cyborg's file, nothing is expected of Cyborg's slots.
        self.assertEqual(0, self.run_command('diff')[0])
