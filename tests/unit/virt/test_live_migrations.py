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

"""What the two hosts of a live migration tell each other, by Nova's means."""

import json
import subprocess
import sys
import types
from unittest import mock

import fixtures
from nova import exception as nova_exception
from nova import objects
from nova import test
from nova.compute import manager
from nova.objects import base as objects_base
from nova.objects import migrate_data
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import live_config_drives
from nova_powervm.virt import live_migrations
from nova_powervm.virt import system_metadata

#: Reads an object as a conductor does, and writes it again.
_CONDUCTOR = """
import json, sys
from nova import context, objects
from nova.objects import base
objects.register_all()
serializer = base.NovaObjectSerializer()
admin = context.get_admin_context()
read = serializer.deserialize_entity(admin, json.load(sys.stdin))
written = serializer.serialize_entity(admin, read)
assert not [name for name in sys.modules if name.startswith('nova_powervm')]
json.dump(written, sys.stdout)
"""


class LiveMigrationsTest(test.NoDBTestCase):
    """The destination, whose host is a mock."""

    def setUp(self):
        super().setUp()
        self.host = mock.Mock()
        self.host.live_migrations.full.return_value = ''
        self.host.live_migrations.servers.return_value = ['vios1'], []
        self.host.live_migrations.public_key.return_value = 'ssh-rsa AAAA'
        self.host.partitions.find.return_value = None
        self.host.networks.connect.return_value = []
        self.host.networks.has_management_switch.return_value = True
        self.host.storage.pool.identity.return_value = 'pool'
        system = types.SimpleNamespace(
            name='host2',
            memory_region_mb=256,
            compatibility_modes=['POWER9'],
        )
        self.host.reader.last_or_read.return_value.system = system
        self.useFixture(
            fixtures.MockPatchObject(
                instance_volumes, 'recorded', return_value=()
            )
        )
        self.instance = mock.Mock(spec=objects.Instance, uuid=uuids.instance)
        self.instance.get_network_info.return_value = []
        self.migrations = live_migrations.LiveMigrations(
            self.host, mock.Mock(), mock.Mock()
        )

    def check(self, *, block_migration=False):
        return self.migrations.check_destination(
            self.instance, block_migration
        )

    def test_conductor_without_the_driver_passes_the_object_on(self):
        data = self.check()
        written = objects_base.NovaObjectSerializer().serialize_entity(
            None, data
        )
        passed = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _CONDUCTOR],
            input=json.dumps(written),
            capture_output=True,
            text=True,
            check=True,
        )
        read = objects_base.NovaObjectSerializer().deserialize_entity(
            None, json.loads(passed.stdout)
        )
        self.assertEqual(data.source_mdev_types, read.source_mdev_types)
        destination = live_migrations._read_destination(read)
        self.assertEqual('host2', destination.system)
        self.assertEqual(('vios1',), destination.disk_servers)

    def test_nova_cleans_up_and_leaves_disks(self):
        flags = manager.ComputeManager._live_migration_cleanup_flags(
            mock.Mock(), self.check()
        )
        self.assertEqual((True, False), flags)

    def test_any_error_of_a_check_leaves_the_server_as_it_is(self):
        for error in (
            ValueError('a mistake'),
            exception.RestSilent(server='it', reason='it is silent'),
        ):
            self.host.partitions.find.side_effect = error
            with self.assertRaises(nova_exception.MigrationPreCheckError):
                self.check()
            self.host.locations.here.side_effect = error
            with self.assertRaises(nova_exception.MigrationPreCheckError):
                self.migrations.check_source(self.instance, None, None)

    def test_refusals_of_the_destination_have_words(self):
        with self.assertRaisesRegex(
            nova_exception.MigrationPreCheckError, 'block migration'
        ):
            self.check(block_migration=True)
        self.host.live_migrations.full.return_value = 'it is full'
        with self.assertRaisesRegex(
            nova_exception.MigrationPreCheckError, 'no further one now'
        ):
            self.check()
        self.host.live_migrations.full.return_value = ''
        self.host.partitions.find.return_value = 'an LPAR'
        with self.assertRaisesRegex(
            nova_exception.MigrationPreCheckError, 'has an LPAR of this server'
        ):
            self.check()

    def test_destination_of_another_version_is_refused(self):
        data = migrate_data.LibvirtLiveMigrateData()
        for told in (None, {}, {'destination': '{}'}):
            if told is not None:
                data.source_mdev_types = told
            with self.assertRaisesRegex(
                nova_exception.MigrationPreCheckError, 'another version'
            ):
                self.migrations.check_source(self.instance, data, None)

    def test_record_stays_until_the_config_drive_is_connected(self):
        """A hard reboot connects it as long as the record is there."""
        problem = exception.RestError(action='uploading', reason='HTTP 500')
        for error, writes in ((problem, 0), (None, 1)):
            with (
                mock.patch.object(
                    live_config_drives, 'make', side_effect=error
                ),
                mock.patch.object(
                    system_metadata, 'write_live_migration'
                ) as write,
            ):
                self.migrations.finish(self.instance, [], None)
            self.assertEqual(writes, write.call_count)
