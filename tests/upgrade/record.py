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

"""Records the state of a cloud for the upgrade test of the next release.

    cp -r tests/upgrade <checkout of the release>/tests/
    cd <checkout of the release>
    .venv/bin/python -m tests.upgrade.record <file>

The release's own nova-compute builds it, with real Nova and Placement, on an
emulated host: servers with all that the driver keeps of one, and cards that
are burned or in quarantine. Copy the file to ``tests/upgrade`` under the
release's name, and let ``tests/functional/test_upgrade.py`` load it, too.
"""

import pathlib
import sys
import unittest

from nova import context as nova_context
from nova import objects
from nova.compute import rpcapi
from nova.compute import task_states
from oslo_utils import uuidutils

from powervm_emulator import fixture
from tests.functional import base
from tests.functional import images
from tests.functional import move_sites
from tests.functional import moving
from tests.functional import pools
from tests.functional import test_commands
from tests.functional import test_consoles
from tests.upgrade import recording

#: Slots of the default world that come from a capture: most of its bytes.
_CAPTURED = (
    '21010011',
    '21010023',
    '21010028',
    '2101002B',
    '21010040',
    '21010048',
)


def world():
    """Return a host that takes few bytes."""
    made = pools.world()
    (system,) = made['systems']
    del system['capture']
    system['slots'] = [
        slot for slot in system['slots'] if slot['drc_index'] not in _CAPTURED
    ]
    system['partitions'] = [
        found for found in system['partitions'] if found.get('management')
    ]
    return made


class Recorder(
    test_consoles.ConsoleTestCase,
    moving.MovingTestCase,
    test_commands.CommandTestCase,
):
    """Builds the state, as a test that writes what it has seen."""

    inventory = move_sites.INVENTORY
    output = None

    def setUp(self):
        super().setUp()
        images.Uploads(self.glance)
        self.emulator = fixture.Emulator(
            world(),
            password=uuidutils.generate_uuid(),
            host_root=self.root('host1'),
        )
        self.start_host(emulator=self.emulator, disk_driver='ssp')

    def runTest(self):
        """Build the state, and write it."""
        ports = [self.make_port(vlan) for vlan in (100, 200, 300)]
        attached = [{'port': port['id']} for port in ports]
        device = self.boot(base.gpu_groups(1), disk=1, networks=attached[:1])
        stopped = self.boot({}, disk=1, networks=attached[1:])
        self._stop_server(stopped)
        used = self.boot_one_time()
        burned = self.boot_one_time()
        (index,) = self.allocated_slots(burned)
        self._delete_server(burned)
        self._run_periodics()
        quarantined = self.quarantine()
        grown = self.leave_ungrown()
        self.ask(device)
        image = self.snapshot(device)
        servers = {
            'device': device['id'],
            'stopped': stopped['id'],
            'one_time': used['id'],
            'ungrown': grown['id'],
        }
        described = {
            'servers': servers,
            'burned': f'{index:08X}',
            'quarantined': f'{quarantined:08X}',
            'snapshot': image,
            'node': self._get_provider_uuid_by_host('host1'),
            'inventory': self.inventory,
        }
        state = recording.dump(
            self,
            self.emulator,
            [port['id'] for port in ports],
            [self.image, image],
        )
        recording.write(self.output, {'described': described, **state})

    def boot_one_time(self):
        """Boot a server with a one-time-use device."""
        return self.boot(
            {
                f'resources1:{move_sites.SCRATCH}': '1',
                'trait1:OWNER_NOVA': 'required',
            }
        )

    def quarantine(self):
        """Put the last of the free GPUs into quarantine."""
        index = max(
            index
            for index, found in self.slot_classes().items()
            if move_sites.GPU in found and self.slot_owner(index) is None
        )
        code, _, err = self.run_command(
            'quarantine', f'{index:08X}', '--reason', 'FAILED'
        )
        self.assertEqual(0, code, err)
        self._run_periodics()
        return index

    def leave_ungrown(self):
        """Leave a server whose root disk has still to grow."""
        server = self.resize(self.boot({}, disk=1), disk=2)
        context = nova_context.get_admin_context()
        record = objects.Instance.get_by_uuid(context, server['id'])
        record.task_state = task_states.DELETING
        record.save()
        # As Nova's API does before it deletes a server.
        rpcapi.ComputeAPI().confirm_resize(
            context,
            record,
            objects.Migration.get_by_instance_and_status(
                context, server['id'], 'finished'
            ),
            'host1',
            cast=False,
        )
        return server

    def snapshot(self, server):
        """Make an image of a server; return its id."""
        self.write_as_guest(server)
        self.api.post_server_action(
            server['id'], {'createImage': {'name': 'snapshot'}}
        )
        self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None}
        )
        (found,) = (
            image['id']
            for image in self.glance.detail(None)
            if image['name'] == 'snapshot'
        )
        return found


def main():
    """Write the file that the command line names."""
    Recorder.output = pathlib.Path(sys.argv[1]).resolve()
    result = unittest.TextTestRunner().run(Recorder())
    sys.exit(not result.wasSuccessful())


if __name__ == '__main__':
    main()
