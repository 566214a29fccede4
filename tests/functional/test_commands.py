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

"""The operator's commands that ask the cloud, against a real one."""

import io
import json
import os
from unittest import mock

import fixtures
import keystoneauth1.session
import openstack
from keystoneauth1 import token_endpoint
from nova import context as nova_context
from nova import objects
from oslo_utils import uuidutils

from nova_powervm.tool import errors
from nova_powervm.tool import status
from nova_powervm.tool.inventory import app
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import device_commands
from nova_powervm.tool.inventory import placement_client
from nova_powervm.tool.inventory import trait_purge
from nova_powervm.tool.rules import cyborg_slots
from tests import proofs
from tests.functional import base
from tests.functional import requests_seen

ONE_TIME = 'HW_PCI_ONE_TIME_USE'


class CommandTestCase(base.PowerVMTestCase):
    """Runs the commands as an operator does, in this process."""

    def nova_conf(self, name='host1', **changes):
        """Write what nova-compute and the command read, and give its path."""
        emulator = self.hosts[name].emulator
        placement = self.placement.fixture
        sections = {
            'DEFAULT': {'host': name, 'transport_url': 'fake:/'},
            'powervm': {
                'inventory_file': self.inventory_path(name),
                'rest_url': emulator.url,
                'rest_username': emulator.username,
                'rest_password': emulator.password,
                'volume_group_name': 'image_pool',
            },
            'placement': {
                'auth_type': 'admin_token',
                'endpoint': placement.endpoint,
                'token': placement.token,
            },
        } | changes
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )
        with open(path, 'w') as file:
            for section, options in sections.items():
                file.write(f'[{section}]\n')
                for key, value in options.items():
                    file.write(f'{key} = {value}\n')
        return path

    def inventory_path(self, name):
        """Write the file of a host where the command finds it."""
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'inventory.yaml'
        )
        with open(path, 'w') as file:
            file.write(self._inventories[name])
        return path

    def run_command(self, *argv, conf=None, answer=None):
        """Run a command.

        :param conf: Path of its nova.conf; None for a good one.
        :param answer: What a person types at the terminal; None for none.
        :returns: Exit code, standard output, standard error.
        """
        stdin = io.StringIO(answer)
        stdin.isatty = lambda: answer is not None
        out, err = io.StringIO(), io.StringIO()
        tool = app.InventoryApp(stdin=stdin, stdout=out, stderr=err)
        path = conf or self.nova_conf()
        code = tool.run(['--config-file', path, *argv])
        return code, out.getvalue(), err.getvalue()

    def rows(self, *argv, **options):
        """Run a command with its rows as JSON; give exit code and rows."""
        code, out, err = self.run_command(*argv, '-f', 'json', **options)
        self.assertTrue(out, err)
        return code, json.loads(out)

    def compute_api(self, roles='admin,member,reader'):
        """Let the SDK find nova's API, and log on there as its fixture."""
        session = keystoneauth1.session.Session(
            auth=token_endpoint.Token(self.api_fixture.base_url, 'token'),
            additional_headers={
                # Nova's older rules, which are in force after a test with
                # Cinder, take the name for the role.
                'X-Auth-User': roles.partition(',')[0],
                'X-Auth-Project-Id': self.api_fixture.project_id,
                'X-Roles': roles,
            },
        )
        connection = openstack.connection.Connection(
            session=session,
            compute_endpoint_override=self.api_fixture.base_url,
        )
        self.useFixture(
            fixtures.MockPatchObject(clouds, 'connect', lambda *_: connection)
        )

    def allocate(self, consumer, resources):
        """Replace the allocations of a consumer."""
        known = self.placement.get(f'/allocations/{consumer}', version='1.28')
        answer = self.placement.put(
            f'/allocations/{consumer}',
            {
                'allocations': {
                    uuid: {'resources': r} for uuid, r in resources.items()
                },
                'consumer_generation': known.body.get('consumer_generation'),
                'project_id': self.api.project_id,
                'user_id': 'admin',
            },
            version='1.28',
        )
        self.assertEqual(204, answer.status, answer.body)

    def set_traits(self, uuid, traits):
        """Replace a provider's traits."""
        answer = self.placement.put(
            f'/resource_providers/{uuid}/traits',
            {
                'resource_provider_generation': self.generation(uuid),
                'traits': sorted(traits),
            },
            version='1.6',
        )
        self.assertEqual(200, answer.status, answer.body)


class CommandsTest(CommandTestCase):
    """A host with four GPUs."""

    def setUp(self):
        super().setUp()
        self.start_host()

    def test_commands_tell_and_change_what_the_cloud_has(self):
        self.tell_stories()

    def forget(self):
        """Have the driver publish its providers as before."""
        for provider in self.slot_providers().values():
            if self.reserved(provider['uuid']):
                self.reserve(provider['uuid'], 'CUSTOM_GPU', 0)
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        for _ in range(2):
            self._run_periodics()
        super().forget()
        # A slot may have been withheld because an LPAR had it.
        self._run_periodics()

    # Differences

    def kinds(self, **options):
        code, rows = self.rows('diff', **options)
        return code, [(row['Kind'], row['Slot']) for row in rows]

    def story_diff_reports_each_kind_of_difference(self):
        server = self.boot(base.gpu_groups(1))
        (slot,) = self.allocated_slots(server)
        providers = self.slot_providers()
        free = sorted(set(providers) - {slot})
        self.assertEqual((0, []), self.kinds())

        # changed
        uuid = providers[free[0]]['uuid']
        good = set(self._get_provider_traits(uuid))
        self.set_traits(uuid, good - {'OWNER_NOVA'})
        code, (row,) = self.rows('diff')
        self.assertEqual(
            (3, 'changed', f'{free[0]:08X}', 'lacks OWNER_NOVA'),
            (code, row['Kind'], row['Slot'], row['Difference']),
        )
        self.set_traits(uuid, good)

        # foreign: Cyborg's for the same slot
        root = self._get_provider_uuid_by_host('host1')
        other = uuidutils.generate_uuid()
        answer = self.placement.post(
            '/resource_providers',
            {
                'name': f'host1_{free[0]:08X}',
                'parent_provider_uuid': root,
                'uuid': other,
            },
            version='1.20',
        )
        self.assertEqual(200, answer.status, answer.body)
        self.assertEqual((3, [('foreign', f'{free[0]:08X}')]), self.kinds())
        self._delete_provider(other)

        # stale: by a file that offers nothing, one is in use
        nothing = os.path.join(self.useFixture(fixtures.TempDir()).path, 'no')
        with open(nothing, 'w'):
            pass
        code, rows = self.rows('diff', nothing)
        self.assertEqual((3, {'stale'}), (code, {r['Kind'] for r in rows}))
        self.assertEqual(
            {f'{index:08X}' for index in providers},
            {row['Slot'] for row in rows},
        )
        (used,) = [r for r in rows if r['Slot'] == f'{slot:08X}']
        self.assertIn(server['id'], used['Cure'])

        # leaked: somebody without an LPAR; an LPAR without its allocation
        nobody = uuidutils.generate_uuid()
        self.allocate(nobody, {uuid: {'CUSTOM_GPU': 1}})
        code, (row,) = self.rows('diff')
        self.assertEqual((3, 'leaked'), (code, row['Kind']))
        self.assertIn(f'{nobody}, which has no LPAR', row['Difference'])
        self.allocate(nobody, {})
        self.allocate(server['id'], {root: {'VCPU': 1}})
        code, (stale, leaked) = self.rows('diff')
        for kind, row in (('stale', stale), ('leaked', leaked)):
            self.assertEqual(
                (3, kind, f'{slot:08X}'), (code, row['Kind'], row['Slot'])
            )
        self.assertIn(
            'its instance has no allocation for it', stale['Difference']
        )
        self.assertIn('was not allocated it', leaked['Difference'])

        # missing
        self._delete_provider(uuid)
        _, kinds = self.kinds()
        self.assertIn(('missing', f'{free[0]:08X}'), kinds)

    def story_diff_compares_traits_of_file_without_those_added_by_nova(self):
        path = self.inventory_path('host1')
        with open(path) as file:
            text = file.read()
        with open(path, 'w') as file:
            file.write(text.replace('CUSTOM_TESLA_V100', 'HW_GPU_API_VULKAN'))
        code, rows = self.rows('diff', path)
        self.assertEqual(
            (3, {'lacks HW_GPU_API_VULKAN; has CUSTOM_TESLA_V100'}),
            (code, {row['Difference'] for row in rows}),
        )
        _, shown = self.rows('show', path, '--offered')
        for row in shown:
            self.assertNotIn('CUSTOM_TESLA_V100', row['Traits'])

    def _delete_provider(self, uuid):
        fixture = self.placement.fixture
        answer = fixture._fake_delete(None, f'/resource_providers/{uuid}')
        self.assertEqual(204, answer.status_code, answer.text)

    # What is there

    @proofs.proves('O12')
    def story_commands_tell_of_device_in_use_and_release_none(self):
        server = self.boot(base.gpu_groups(1))
        self.show_device_in_use(server)
        self.ask_no_more_on_host_with_more_devices()
        self.release_only_what_nobody_has(server)

    def show_device_in_use(self, server):
        (index,) = self.allocated_slots(server)

        _, listed = self.rows('show')

        by_slot = {row['Slot']: row for row in listed}
        used = by_slot.pop(f'{index:08X}')
        self.assertEqual([server['id']], used['Consumers'])
        self.assertEqual(1, used['Used'])
        self.assertIs(True, used['Offered'])
        self.assertEqual(
            server['OS-EXT-SRV-ATTR:instance_name'], used['Instance']
        )
        self.assertEqual(f'PowerVM IOSlot host1 {index:08X}', used['Provider'])
        self.assertEqual(
            ['free'] * 3,
            [r['State'] for r in by_slot.values() if r['Offered']],
        )

        code, tree, err = self.run_command('show', '--tree')
        self.assertEqual((0, ''), (code, err))
        self.assertIn(f'allocated to {used["Instance"]}', tree)
        self.assertEqual(4, tree.count('PowerVM IOSlot host1'))

        # Made anew, the file has the device of the instance, too.
        code, generated, err = self.run_command('generate')
        self.assertEqual((0, ''), (code, err))
        self.assertIn('# 4 x 3D Controller', generated)

    # How much is asked

    def asked_by(self, *argv):
        """Run a command; return its requests to Placement and others."""
        with requests_seen.CommandRecorder() as recorder:
            code, _, err = self.run_command(*argv)
        self.assertEqual(0, code, err)
        return recorder.take()

    def ask_no_more_on_host_with_more_devices(self):
        """Count what commands ask, before and after devices are added."""
        commands = ('show', 'metrics', 'release', 'generate', 'diff')
        few = {name: self.asked_by(name) for name in commands}
        empty = ('21010040', '21010048')
        for index in empty:
            self.plug_gpu(index)
        self._run_periodics()
        self.assertEqual(6, len(self.slot_providers()))

        many = {name: self.asked_by(name) for name in commands}

        self.assertEqual(few, many)
        self.assertEqual(
            {
                'GET /resource_providers?name': 1,
                'GET /resource_providers?in_tree': 1,
                'GET /allocation_candidates?in_tree&limit&resources': 1,
                # Of the host, and of its only device that is in use
                'GET /resource_providers/{}/allocations': 2,
            },
            many['release'],
        )
        for index in empty:
            self.control().pull(index)
        self._run_periodics()

    # What moves have left

    def leave_migration(self, server, index):
        """Let a migration from this host hold a slot; return its uuid."""
        migration = objects.Migration(
            nova_context.get_admin_context(),
            instance_uuid=server['id'],
            source_compute='host1',
            dest_compute='host2',
            migration_type='migration',
            status='post-migrating',
        )
        migration.create()
        self.allocate_slot(migration.uuid, index)
        return migration.uuid

    def allocate_slot(self, consumer, index):
        """Let a consumer hold a slot, and nothing else."""
        uuid = self.slot_providers()[index]['uuid']
        self.allocate(consumer, {uuid: {'CUSTOM_GPU': 1}})

    def change_server(self, server, **changes):
        """Change Nova's record of a server."""
        record = self.instance(server)
        for name, value in changes.items():
            setattr(record, name, value)
        record.save()

    def assert_shown(self, index, state, *remedy):
        """Assert what is said of a slot, in a record and for copying."""
        code, out, err = self.run_command(
            'show', '-f', 'json', '--slot', f'{index:08X}'
        )
        self.assertEqual(0, code, err)
        (row,) = json.loads(out)
        self.assertEqual((state, [*remedy]), (row['State'], row['Remedy']))
        lines = (f'Slot {index:08X}, {state}:', *remedy) if remedy else ()
        self.assertEqual([*lines], err.splitlines())

    def story_show_tells_what_moves_have_left(self):
        server = self.boot(base.gpu_groups(1))
        uuid = server['id']
        (used,) = self.allocated_slots(server)
        spare = min(set(self.slot_providers()) - {used})
        migration = self.leave_migration(server, spare)
        reboot = f'openstack server reboot --hard {uuid}'

        # Nobody knows yet whether that is a migration.
        code, out, err = self.run_command('show', '--slot', f'{spare:08X}')
        self.assertEqual(0, code)
        self.assertIn('warning: The compute API', err)
        self.assertIn("delete nothing before Nova's API answers", err)
        self.assertNotIn('allocation delete', err + out)

        self.compute_api()
        name = server['OS-EXT-SRV-ATTR:instance_name']
        self.assert_shown(used, f'allocated to {name}')
        self.assert_shown(
            spare,
            f'left over from a move of server {uuid}',
            f'openstack resource provider allocation delete {migration}',
        )

        # Only what is no server of the host may be a migration.
        held = self._get_allocations_by_server_uuid(uuid)
        providers = self.slot_providers()
        lacking = providers[max(set(providers) - {used, spare})]['uuid']
        self.allocate(
            uuid,
            {name: each['resources'] for name, each in held.items()}
            | {lacking: {'CUSTOM_GPU': 1}},
        )
        self.assertEqual(
            {
                'GET /servers?all_tenants=1&host=host1': 1,
                'GET /os-migrations?limit=1&marker={}': 1,
                'GET /os-migrations?host=host1': 1,
                'GET /servers?all_tenants=1&limit=1': 1,
                'GET /servers/{}': 1,
            },
            {
                request: count
                for request, count in self.asked_by('show').items()
                if '/servers' in request or '/os-migrations' in request
            },
        )

        # The server has nothing here but what its migration has.
        self.allocate(uuid, {})
        self.allocate_slot(migration, used)
        self.assert_shown(
            used,
            f'allocated to a move of server {uuid}, which needs a hard reboot',
            reboot,
        )
        self.change_server(server, task_state='resize_migrated')
        code, out, err = self.run_command('show', '--slot', f'{used:08X}')
        self.assertIn(f'{name}, which', out)
        self.assertIn('nothing, as long as Nova is at it', err)
        self.assertEqual(
            [
                f'openstack server set --auto-approve --state active {uuid}',
                reboot,
            ],
            err.splitlines()[-2:],
        )
        self.change_server(server, task_state=None)

        # The server is on another host.
        self.change_server(server, host='host2')
        (number,) = [
            partition['id']
            for system in self.control().state()['systems']
            for partition in system['partitions']
            if partition['name'] == name
        ]
        removal = (
            f'pvmctl lpar power-off -i id={number}  # unless it is off',
            f'pvmctl lpar delete -i id={number}  # keep its disks',
            'restart nova-compute on this host',
        )
        self.assert_shown(
            used,
            f'allocated to a move of server {uuid}, which is on host2: its '
            'LPAR here is on the wrong side',
            f'once server {uuid} runs on host2:',
            *removal,
        )

        # The server is deleted, although its migration has allocations.
        self.change_server(server, host='host1')
        self.allocate_slot(migration, spare)
        self._delete_server(server)
        self._booted.clear()
        self.assert_shown(
            spare,
            'left over from a move of a deleted server',
            f'openstack resource provider allocation delete {migration}',
        )
        self.allocate(migration, {})
        self.assert_shown(spare, 'free')

    # Flavors

    def story_flavor_made_by_flavor_create_gets_devices(self):
        self.compute_api()
        flavor = self._create_flavor(
            name='gpu.two', memory_mb=512, vcpu=1, disk=0, ephemeral=0
        )

        code, out, err = self.run_command(
            *('flavor', 'create', 'gpu.two', '--apply'),
            *('--paragraph', 'gpus', '--count', '2'),
        )

        self.assertEqual(0, code, err)
        self.assertIn('gpu.two', out)
        body = self._build_server(
            image_uuid=self.image, flavor_id=flavor, networks='none'
        )
        server = self.api.post_server({'server': body})
        self._booted.append(server['id'])
        server = self._wait_until_built(server['id'])
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        self.assertEqual(2, len(self.allocated_slots(server)))

        # Nothing is wrong with it, and a second time changes nothing.
        code, rows = self.rows('flavor', 'lint', 'gpu.two', '--cloud')
        self.assertEqual((0, []), (code, rows))
        again = ('flavor', 'create', 'gpu.two', '--apply')
        code, _, err = self.run_command(*again, '--paragraph', 'gpus')
        self.assertEqual(1, code)
        self.assertIn('openstack flavor unset gpu.two', err)

        # What is wrong with another one
        code, rows = self.rows(
            *('flavor', 'lint', '--cloud'),
            *('--extra-spec', 'resources1:CUSTOM_NOWHERE=1'),
            *('--extra-spec', 'trait1:CUSTOM_NOWHERE=required'),
        )
        self.assertEqual(2, code)
        self.assertEqual(
            [
                'the cloud offers no device of class CUSTOM_NOWHERE',
                'the cloud has no device with this trait',
            ],
            [row['Problem'] for row in rows if row['Severity'] == 'error'],
        )

    # Traits

    def traits(self):
        """Return the names of all custom traits in Placement."""
        answer = self.placement.get(
            '/traits?name=startswith:CUSTOM_', version='1.6'
        )
        return set(answer.body['traits'])

    def story_trait_purge_removes_unused_traits_of_slots_only(self):
        self.compute_api()
        # What other stories have left.
        self.run_command('trait', 'purge', '--yes')
        before = self.traits()
        slot = 'CUSTOM_POWERVM_IOSLOT_'
        place, lost = f'{slot}DRC_NAME_U1_P1_C1', f'{slot}DRC_NAME_U1_P1_C2'
        asked, shunned = f'{slot}DRC_NAME_U1_P1_C3', f'{slot}VENDOR_ID_ABCD'
        profiled = f'{slot}DEVICE_ID_ABCD'
        others = {
            'CUSTOM_POWERVM_WITHDRAWN',
            'CUSTOM_OF_ANOTHER_FILE',
            f'{slot}MADE_BY_HAND',
            'CUSTOM_POWERVMXIOSLOT_VENDOR_ID_ABCD',
        }
        for trait in {place, lost, asked, shunned, profiled, *others}:
            self._create_trait(trait)
        self.make_flavor(
            {
                'resources1:CUSTOM_GPU': '1',
                f'trait1:{asked}': 'required',
                f'trait1:{shunned}': 'forbidden',
            }
        )
        everything = self.traits()
        self.assertLessEqual(before, everything)

        # Nobody can agree.
        code, _, err = self.run_command('trait', 'purge')
        self.assertEqual(2, code, err)
        self.assertIn('Remove 3 traits', err)
        # The flavors are not known.
        with fixtures.MockPatchObject(
            clouds.NovaClient,
            'flavors',
            side_effect=errors.ComputeApiError(reason='no answer'),
        ):
            code, _, err = self.run_command('trait', 'purge', '--yes')
        self.assertEqual(4, code, err)
        self.assertIn('no answer', err)
        # Private flavors are hidden from others than administrators.
        self.compute_api(roles='member,reader')
        code, _, err = self.run_command('trait', 'purge', '--yes')
        self.assertEqual((4, everything), (code, self.traits()), err)
        self.compute_api()
        # It shall only be shown.
        code, rows = self.rows('trait', 'purge', '--dry-run')
        states = {row['Trait']: row['State'] for row in rows}
        self.assertEqual(
            {
                **dict.fromkeys([place, lost, profiled], 'would be removed'),
                **dict.fromkeys([asked, shunned], 'kept'),
            },
            states,
        )
        self.assertEqual((0, everything), (code, self.traits()))

        # One is published meanwhile.
        uuid = self.slot_providers()[0x21010020]['uuid']
        agree = trait_purge.Purge.is_agreed

        def publish(command, question):
            self.add_trait(uuid, lost)
            return agree(command, question)

        profile = cyborg_slots.Profile(
            'card', ({f'trait:{profiled}': 'required'},)
        )
        cyborg = mock.Mock()
        cyborg.profiles.return_value = [profile]
        with (
            fixtures.MockPatchObject(trait_purge.Purge, 'is_agreed', publish),
            fixtures.MockPatchObject(
                clouds, 'CyborgClient', lambda *_: cyborg
            ),
        ):
            code, rows = self.rows('trait', 'purge', '--cyborg', answer='y\n')
        self.assertEqual(0, code)
        self.assertEqual(
            [
                (profiled, 'kept', 'device profile card'),
                (place, 'removed', ''),
                (lost, 'kept', 'a provider, meanwhile'),
            ],
            [
                (row['Trait'], row['State'], row['Named by'])
                for row in rows
                if row['Trait'] not in (asked, shunned)
            ],
        )
        self.assertEqual(everything - {place}, self.traits())
        self.assertIn(lost, self._get_provider_traits(uuid))

    def story_commands_know_that_locations_are_not_published(self):
        conf = self.nova_conf()
        with open(conf, 'a') as file:
            file.write('[powervm]\npublish_location_traits = false\n')
        (trait,) = (
            trait
            for trait in self._get_provider_traits(
                self.slot_providers()[0x21010020]['uuid']
            )
            if 'DRC_NAME' in trait
        )
        lint = (
            *('flavor', 'lint', '--cloud'),
            *('--extra-spec', 'resources1:CUSTOM_GPU=1'),
            *('--extra-spec', 'trait1:OWNER_NOVA=required'),
            *('--extra-spec', f'trait1:{trait}=required'),
        )
        self.assertEqual((0, []), self.rows(*lint))
        code, rows = self.rows(*lint, conf=conf)
        self.assertEqual(
            (1, [f'trait1:{trait}']), (code, [r['Extra spec'] for r in rows])
        )

        # nova-compute was not restarted yet.
        code, rows = self.rows('diff', conf=conf)
        self.assertEqual((3, 4), (code, len(rows)))
        for row in rows:
            self.assertEqual('changed', row['Kind'])
            self.assertIn('DRC_NAME', row['Difference'])

    def add_trait(self, uuid, trait):
        """Add a trait to a provider."""
        self.set_traits(uuid, {*self._get_provider_traits(uuid), trait})

    # Releases

    def burn(self, index):
        uuid = self.slot_providers()[index]['uuid']
        traits = set(self._get_provider_traits(uuid)) | {ONE_TIME}
        self.set_traits(uuid, traits)
        self.reserve(uuid, 'CUSTOM_GPU', 1)
        return uuid

    def reserved(self, uuid):
        return self._get_provider_inventory(uuid)['CUSTOM_GPU']['reserved']

    def release_only_what_nobody_has(self, server):
        """Set what is reserved of used devices to zero."""
        (used,) = self.allocated_slots(server)
        first, *others = sorted(set(self.slot_providers()) - {used})
        allocated, burned = self.burn(used), self.burn(first)

        # Only what nobody holds needs cleaning.
        code, rows = self.rows('release')
        self.assertEqual(0, code)
        self.assertEqual([f'{first:08X}'], [row['Slot'] for row in rows])
        self.control().set_owner(f'{first:08X}', 'archive')
        code, out, err = self.run_command('release', '-f', 'json')
        self.assertEqual((0, []), (code, json.loads(out)))
        self.assertIn('owned by partition archive', err)
        code, _, err = self.run_command('release', f'{first:08X}', '--dry-run')
        self.assertEqual(2, code)
        self.assertIn('owned by partition archive', err)
        self.control().set_owner(f'{first:08X}', None)

        # Refused: allocated; and then none of those that are named.
        named = [f'{index:08X}' for index in (first, used, others[0])]
        code, _, err = self.run_command('release', *named, '21019999', '--yes')
        self.assertEqual(2, code)
        self.assertIn(f'it is allocated to {server["id"]}', err)
        self.assertIn('not a one-time-use device', err)
        self.assertIn('host1 has no such slot or provider', err)
        self.assertIn('3 of 4 refused, so nothing was changed', err)
        self.assertEqual(1, self.reserved(burned))

        # Nobody can be asked; a dry run; no.
        name = self.slot_providers()[first]['name']
        code, _, err = self.run_command('release', name)
        self.assertEqual(2, code)
        self.assertIn('give --yes', err)
        self.assertEqual(1, self.reserved(burned))
        code, rows = self.rows('release', burned, '--dry-run')
        self.assertEqual((0, 'would be released'), (code, rows[0]['State']))
        code, _, err = self.run_command('release', burned, answer='\n')
        self.assertEqual(2, code)
        self.assertEqual(1, self.reserved(burned))

        # Yes; and what else the record says stays.
        before = self._get_provider_inventory(burned)['CUSTOM_GPU']
        code, _, err = self.run_command('release', name, answer='y\n')
        self.assertEqual(0, code, err)
        self.assertEqual(
            {**before, 'reserved': 0},
            self._get_provider_inventory(burned)['CUSTOM_GPU'],
        )
        code, _, err = self.run_command('release', burned, '--yes')
        self.assertIn('it is not burned', err)
        self.assertEqual(1, self.reserved(allocated))

    def story_release_looks_at_the_host_after_the_answer(self):
        """A card that was changed during the question was released.

        People take their time to answer whether a device has been cleaned.
        """
        index = min(self.slot_providers())
        burned, slot = self.burn(index), f'{index:08X}'
        agree = device_commands.DeviceCommand.is_agreed

        def change_card(command, question):
            self.control().pull(slot)
            card = {'description': 'Crypto adapter', 'vendor_id': '1014'}
            self.control().plug(slot, card)
            return agree(command, question)

        with mock.patch.object(
            device_commands.DeviceCommand, 'is_agreed', change_card
        ):
            code, _, err = self.run_command('release', slot, answer='y\n')
        self.assertEqual(2, code, err)
        self.assertIn('and is 1014', err)
        self.assertEqual(1, self.reserved(burned))
        self.control().reset()

    def story_release_changes_nothing_without_answer_of_host(self):
        first = min(self.slot_providers())
        burned = self.burn(first)
        deaf = self.nova_conf(
            powervm={
                'rest_url': 'http://127.0.0.1:1',
                'rest_username': 'someone',
                'rest_password': 'secret',
            }
        )
        for named in ([], [f'{first:08X}', '--yes']):
            code, out, err = self.run_command('release', *named, conf=deaf)
            self.assertEqual((4, ''), (code, out))
            self.assertIn('[powervm]rest_url', err)
        self.assertEqual(1, self.reserved(burned))

        # Nor for a slot that the host does not report.
        self.control().pull(f'{first:08X}', remove=True)
        code, _, err = self.run_command('release', f'{first:08X}', '--yes')
        self.assertEqual(2, code)
        self.assertIn('does not report its slot', err)
        self.assertEqual(1, self.reserved(burned))
        self.control().reset()

    def story_release_reports_result_per_slot_if_one_fails(self):
        first, second, *_ = sorted(self.slot_providers())
        burned = {self.burn(first): 0, self.burn(second): 1}
        failing = list(burned)[1]
        write = placement_client.PlacementClient.write_inventory

        def fail_for_one(placement, provider, name, record):
            if provider.uuid == failing:
                raise errors.PlacementUnreachable(reason='gone')
            return write(placement, provider, name, record)

        with mock.patch.object(
            placement_client.PlacementClient,
            'write_inventory',
            fail_for_one,
        ):
            code, rows = self.rows(
                'release', f'{second:08X}', f'{first:08X}', '--yes'
            )

        self.assertEqual(4, code)
        self.assertEqual(
            {f'{first:08X}': 'released', f'{second:08X}': 'unknown'},
            {row['Slot']: row['State'] for row in rows},
        )
        for uuid, reserved in burned.items():
            self.assertEqual(reserved, self.reserved(uuid))

    # Errors

    def story_unreachable_placement_is_reported_with_its_cure(self):
        good = {
            'auth_type': 'admin_token',
            'endpoint': self.placement.fixture.endpoint,
            'token': self.placement.fixture.token,
        }
        for section, words in (
            ({}, 'there is no auth_type'),
            ({'auth_type': 'password'}, 'nova.conf does not say how'),
            (good | {'token': 'wrong:token'}, 'were refused'),
            (good | {'endpoint': 'http://127.0.0.1:9'}, 'does not answer'),
        ):
            with self.subTest(section):
                conf = self.nova_conf(placement=section)
                code, out, err = self.run_command('diff', conf=conf)
                self.assertEqual((4, ''), (code, out), err)
                self.assertIn(words, err)
                self.assertEqual(1, err.count('\n'), err)
        code, _, err = self.run_command('diff', '--node', 'host9')
        self.assertEqual(4, code)
        self.assertIn("no provider named 'host9'", err)

    # Checks before an upgrade

    def check(self, conf):
        """Run the checks; give exit code and code and details by check."""
        out = self.useFixture(fixtures.StringStream('out')).stream
        with mock.patch('sys.stdout', out):
            code = status.main(
                ['--config-file', conf, 'upgrade', 'check', '--json']
            )
        out.seek(0)
        return code, {
            check['check']: (check['result'], check['details'])
            for check in json.loads(out.read())['checks']
        }

    def results(self, conf):
        """Run the checks; give the names of those that are not a success."""
        _, found = self.check(conf)
        return {name: code for name, (code, _) in found.items() if code}

    def story_ready_host_passes_all_checks_and_is_read_once(self):
        with requests_seen.CommandRecorder() as recorder:
            code, found = self.check(self.nova_conf())
        self.assertEqual((0, {0}), (code, {c for c, _ in found.values()}))
        self.assertIn('installed here', found['Placement'][1])
        self.assertEqual(
            {
                'GET /': 1,
                'GET /resource_providers?name': 1,
                'GET /resource_providers?in_tree': 1,
                'GET /allocation_candidates?in_tree&limit&resources': 1,
                'GET /resource_providers/{}/allocations': 1,
            },
            recorder.take(),
        )
        # A controller knows the database.
        _, found = self.check(
            self.nova_conf(api_database={'connection': 'sqlite://'})
        )
        code, details = found['Schedulers of a large cloud']
        self.assertEqual(0, code)
        self.assertIn('Compute nodes: 1. placement.conf', details)

    def story_failure_is_reported_by_the_check_of_its_cause_only(self):
        good = self.nova_conf()
        self.assertEqual({}, self.results(good))
        powervm = {
            'inventory_file': self.inventory_path('host1'),
            'rest_url': self.hosts['host1'].emulator.url,
            'rest_username': self.hosts['host1'].emulator.username,
            'rest_password': self.hosts['host1'].emulator.password,
        }
        bad_file = fixtures.TempDir()
        self.useFixture(bad_file)
        path = os.path.join(bad_file.path, 'inventory.yaml')
        with open(path, 'wb') as file:
            file.write(b'# \xe9\n')
        token = self.placement.fixture.token
        endpoint = self.placement.fixture.endpoint
        for changes, expected in (
            (
                {'powervm': powervm | {'inventory_file': path}},
                {'Inventory file': 2},
            ),
            (
                {'powervm': powervm | {'rest_url': 'http://127.0.0.1:9'}},
                {'PowerVM REST API': 2, 'Owners of slots': 1},
            ),
            (
                {'powervm': powervm | {'rest_url': 'ftp://host'}},
                {
                    'Options': 2,
                    'PowerVM REST API': 1,
                    'Owners of slots': 1,
                    'Names of providers': 1,
                },
            ),
            (
                {'placement': {}},
                {
                    'Placement': 2,
                    'Names of providers': 1,
                    'Candidates for many devices': 1,
                },
            ),
            (
                {
                    'placement': {
                        'auth_type': 'admin_token',
                        'endpoint': endpoint,
                        'token': f'wrong:{token}',
                    }
                },
                {
                    'Placement': 2,
                    'Names of providers': 1,
                    'Candidates for many devices': 1,
                },
            ),
            ({'DEFAULT': {'host': 'not-started-yet'}}, {}),
        ):
            with self.subTest(changes):
                conf = self.nova_conf(**changes)
                self.assertEqual(expected, self.results(conf))
