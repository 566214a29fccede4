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

"""What nova-powervm-inventory shows of running services."""

import io
import json
import os

import fixtures
import nova.conf

from nova_powervm.tool.inventory import app
from tests.functional import base


class ShowTest(base.PowerVMTestCase):
    """The host's slots as the file, the host and Placement have them."""

    def show(self, *arguments):
        """Run the command with the options of the running service."""
        out, err = io.StringIO(), io.StringIO()
        tool = app.InventoryApp(io.StringIO(), out, err)
        status = tool.run(['--config-file', self.nova_conf(), *arguments])
        self.assertEqual((0, ''), (status, err.getvalue()))
        return out.getvalue()

    def nova_conf(self):
        """Write what the running service has of the options."""
        powervm = nova.conf.CONF.powervm
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )
        with open(path, 'w') as conf:
            conf.write(
                '[DEFAULT]\nhost = host1\n'
                '[powervm]\n'
                f'inventory_file = {powervm.inventory_file}\n'
                f'rest_url = {powervm.rest_url}\n'
                f'rest_username = {powervm.rest_username}\n'
                f'rest_password = {powervm.rest_password}\n'
                '[placement]\n'
                'auth_type = admin_token\n'
                f'token = {self.placement.fixture.token}\n'
                f'endpoint = {self.placement.fixture.endpoint}\n'
            )
        return path

    def test_show_tells_which_instance_has_a_device(self):
        self.start_host()
        server = self.boot(base.gpu_groups(1))
        (index,) = self.allocated_slots(server)

        listed = json.loads(self.show('show', '-f', 'json'))

        by_slot = {row['Slot']: row for row in listed}
        used = by_slot.pop(f'{index:08X}')
        self.assertEqual([server['id']], used['Consumers'])
        self.assertEqual(1, used['Used'])
        self.assertIs(True, used['Offered'])
        self.assertEqual(
            server['OS-EXT-SRV-ATTR:instance_name'], used['Instance']
        )
        self.assertEqual(f'PowerVM IOSlot host1 {index:08X}', used['Provider'])
        others = [row for row in by_slot.values() if row['Offered']]
        self.assertEqual(3, len(others))
        for row in others:
            self.assertEqual('free', row['State'])

        tree = self.show('show', '--tree')
        self.assertIn(f'allocated to {used["Instance"]}', tree)
        self.assertEqual(4, tree.count('PowerVM IOSlot host1'))

        # Made anew, the file has the device of the instance, too.
        generated = self.show('generate')
        self.assertIn('# 4 x 3D Controller', generated)
