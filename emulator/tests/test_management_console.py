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

"""The management console, through pypowervm."""

import base64

from pypowervm.tasks import management_console as tasks
from pypowervm.wrappers import management_console

from powervm_emulator import worlds

from . import wire
from . import wrapper_properties

KEY = 'ssh-rsa AAAAB3NzaC1yc2E= nova@compute1'


class ConsoleTest(wire.WireTestCase):
    def read(self):
        (found,) = management_console.ManagementConsole.get(self.adapter)
        return found

    def test_console_is_that_of_the_system(self):
        found = self.read()
        self.assertEqual('localhost', found.name)
        self.assertEqual(self.system().mtms.mtms_str, found.mtms.mtms_str)
        _, key, name = tasks.get_public_key(self.adapter).split()
        self.assertIn(b'ssh-rsa', base64.b64decode(key))
        self.assertEqual('localhost', name)
        self.assertEqual((), tasks.get_authorized_keys(self.adapter))

    def test_key_is_added_once(self):
        for key in (KEY, 'ssh-ed25519 AAAA', KEY):
            tasks.add_authorized_key(self.adapter, key)
        self.assertEqual(
            (KEY, 'ssh-ed25519 AAAA'), tasks.get_authorized_keys(self.adapter)
        )

    def test_update_changes_nothing_but_keys(self):
        found = self.read()
        before = wrapper_properties.read_properties(found)
        found.ssh_authorized_keys = [KEY]
        found.set_parm_value('ManagementConsoleName', 'other')
        found.set_parm_value('PublicSSHKey', KEY)
        found.update()
        after = wrapper_properties.read_properties(self.read())
        self.assertEqual([KEY], list(after.pop('ssh_authorized_keys')))
        before.pop('ssh_authorized_keys')
        self.assertEqual(before, after)

    def test_update_refuses_what_is_no_key(self):
        for key in ('', 'ssh-rsa', 'ssh-rsa AAAA\nssh-rsa BBBB', 'a\tb'):
            with self.subTest(key):
                found = self.read()
                found.ssh_authorized_keys = [KEY, key]
                self.assert_refused(500, 'not a key', found.update)
        self.assertEqual((), tasks.get_authorized_keys(self.adapter))

    def test_console_cannot_be_created_or_deleted(self):
        path = f'uom/ManagementConsole/{self.read().uuid}'
        self.assertEqual(405, self.ask('DELETE', path).status)
        self.assertEqual(405, self.ask('PUT', 'uom/ManagementConsole').status)

    def test_console_of_world_has_its_name(self):
        world = worlds.default()
        world['management_consoles'] = [{'name': 'novalink1'}]
        self.control.load_world(world)
        self.assertEqual('novalink1', self.read().name)

    def test_captured_console_is_served_and_takes_a_key(self):
        world = worlds.default()
        for file in ('managementconsole.txt', 'managementconsole_ssh.txt'):
            with self.subTest(file):
                world['management_consoles'] = [{'capture': {'file': file}}]
                self.control.load_world(world)
                (captured,) = (
                    wire.contents(root)[0]
                    for name, root in wire.captured()
                    if name == file
                )
                (served,) = self.get('uom/ManagementConsole').contents
                self.assertEqual(wire.names(captured), wire.names(served))
                before = tasks.get_authorized_keys(self.adapter)
                tasks.add_authorized_key(self.adapter, KEY)
                self.assertEqual(
                    (*before, KEY), tasks.get_authorized_keys(self.adapter)
                )
