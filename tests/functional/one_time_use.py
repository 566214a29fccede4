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

"""Hosts with one-time-use devices."""

import fixtures
from nova import context as nova_context
from nova import objects
from nova.db.main import api as main_db
from nova.tests.functional.api import client

from nova_powervm.virt.provider_tree import free_provider_reads
from tests.functional import base

ONE_TIME_USE_GPUS = base.GPUS + '  one_time_use: true\n'
#: The id of another project.
ANOTHER = 'another'
TRAIT = 'HW_PCI_ONE_TIME_USE'
INDEX = 0x21010020
#: What Nova records about a server, and the columns with times.
_TIMES = {
    'instances': ('created_at', 'launched_at', 'updated_at', 'deleted_at'),
    'instance_actions': ('created_at', 'start_time', 'updated_at'),
    'migrations': ('created_at',),
}


def gpu_group(index=INDEX):
    """Return extra specs of a group that requests the GPU of a slot."""
    return {
        'resources1:CUSTOM_GPU': '1',
        f'trait1:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_{index:08X}': 'required',
    }


class OneTimeUseTestCase(base.PowerVMTestCase):
    """Provides one-time-use GPUs and checks which are burned."""

    inventory = ONE_TIME_USE_GPUS

    def reserved(self, index=INDEX, host='host1'):
        """Return reserved of a slot's provider."""
        return self._reserved_of(self.slot_providers(host)[index])

    def _reserved_of(self, provider):
        # Nova's provider.yaml may have added another class.
        inventory = self._get_provider_inventory(provider['uuid'])
        return inventory['CUSTOM_GPU']['reserved']

    def burned(self, host='host1'):
        """Return the DRC indexes whose providers are reserved."""
        return {
            index
            for index, provider in self.slot_providers(host).items()
            if self._reserved_of(provider)
        }

    def marked(self, host='host1'):
        """Return the DRC indexes of providers with the one-time-use trait."""
        return {
            index
            for index, provider in self.slot_providers(host).items()
            if TRAIT in self._get_provider_traits(provider['uuid'])
        }

    def release(self, index=INDEX, host='host1'):
        """Set reserved to 0, as an operator does after cleaning."""
        uuid = self.slot_providers(host)[index]['uuid']
        self.reserve(uuid, 'CUSTOM_GPU', 0)

    def pass_time(self, hours=1):
        """Make all that Nova has recorded older."""
        context = nova_context.get_admin_context()
        with main_db.get_engine(context=context).begin() as connection:
            for table, columns in _TIMES.items():
                for column in columns:
                    connection.exec_driver_sql(
                        f'UPDATE {table} SET {column} = '  # noqa: S608
                        f"strftime('%Y-%m-%d %H:%M:%S', {column}, "
                        f"'-{hours} hours') || '.000000'"
                        f' WHERE {column} IS NOT NULL'
                    )

    def deleted(self, server):
        """Delete a server without a host; return Nova's record of it."""
        self._delete_server(server)
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(read_deleted='yes'), server['id']
        )

    def boot_of_another(self):
        """Boot a server with any GPU for another project."""
        mine, self.api = (
            self.api,
            client.TestOpenStackClient(
                'another',
                self.api_fixture.base_url,
                project_id=ANOTHER,
                roles=['reader', 'member'],
            ),
        )
        self.api.microversion = mine.microversion
        try:
            # Not everybody may use a flavor without a disk.
            return self.boot(base.gpu_groups(1), disk=1)
        finally:
            self.api = mine

    def tree_queries_of_cycle(self, host='host1'):
        """Run a cycle; return its queries of the provider tree."""
        client = self.computes[host].manager.reportclient
        get = client.get
        asked = []

        def note_and_get(url, *args, **kwargs):
            # skip_free_provider_reads replaces queries of Nova.
            instead = kwargs.get('version') == free_provider_reads.VERSION
            if '?in_tree=' in url and not instead:
                asked.append(url.partition('?')[2])
            return get(url, *args, **kwargs)

        with fixtures.MockPatchObject(client, 'get', note_and_get):
            self._run_periodics()
        return asked

    def assert_burned(self, *indexes, host='host1'):
        """Assert that exactly these devices are burned."""
        self.assertEqual(set(indexes), self.burned(host))

    def fail_host(self, host):
        """Stop a host's nova-compute and mark its service as down."""
        self.computes[host].stop()
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        self.admin_api.put_service_force_down(service['id'], True)

    def recover_host(self, host):
        """Restart a host's nova-compute and mark its service as up."""
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        # Nova keeps it down until it has cleaned up.
        self.restart_host(host)
        self.admin_api.put_service_force_down(service['id'], False)
