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

"""What an administrator does for volumes after a failover of their array."""

import contextlib
import io
import json
import pathlib
import shlex
import subprocess

import fixtures
import nova.conf
from nova.cmd import manage

from tests.functional import moving
from tests.functional import test_commands
from tests.unit.docs import pages

CONF = nova.conf.CONF

#: What the page has for each step.
STOP = 'openstack server stop <server>'
CONNECTOR = 'nova-powervm-inventory connector > connector.json'
IN_USE = 'openstack volume set --state in-use --attached <volume>'
REFRESH = (
    'nova-manage volume_attachment refresh <server> <volume> connector.json'
)
REBOOT = 'openstack server reboot --hard <server>'


class RefreshTestCase(moving.MovingTestCase, test_commands.CommandTestCase):
    """Runs the commands of the page, those of Nova by Nova's own code."""

    def read_udid(self, udid):
        """Return what the page's command reads in a UDID."""
        ((line, _),) = (
            example
            for example in pages.commands('admin/volumes')
            if example[0].startswith('echo ')
        )
        done = subprocess.run(
            ['/bin/bash', '-c', line.replace(line.split()[1], udid)],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def refresh(self, server, *ids, host='host1'):
        """Have a server on a host accept what its volumes are now."""
        lines = [line for line, _ in pages.commands('admin/volumes')]
        first = lines.index(STOP)
        self.assertEqual(
            [STOP, CONNECTOR, IN_USE, REFRESH, REBOOT],
            lines[first : first + 5],
        )
        printed = self.print_connector(host)
        driver = self.computes[host].manager.driver
        # All hosts of a test have the name and address of the last one.
        if len(self.computes) == 1:
            self.assertEqual(
                driver.get_volume_connector(self.instance(server)),
                json.loads(printed),
            )
        self.assertEqual(5, self.run_refresh(server, ids[0], printed))
        self.api.post_server_action(server['id'], {'os-stop': None})
        self._wait_for_server_parameter(
            server, {'status': 'SHUTOFF', 'OS-EXT-STS:task_state': None}
        )
        wrong = printed.replace(f'"{host}"', '"host3"')
        self.set_in_use(ids[0])
        self.assertEqual(7, self.run_refresh(server, ids[0], wrong))
        for volume in ids:
            self.set_in_use(volume)
            self.assertEqual(0, self.run_refresh(server, volume, printed))
        return self.reboot_hard(server)

    def run_refresh(self, server, volume, connector):
        """Run the command of Nova; return its exit code.

        :param connector: The contents of the file.
        """
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'connector.json'
        )
        path.write_text(connector)
        _, group, action, *argv = shlex.split(
            REFRESH.replace('<server>', server['id'])
            .replace('<volume>', volume)
            .replace(path.name, str(path))
        )
        with contextlib.redirect_stdout(io.StringIO()):
            return getattr(manage.CATEGORIES[group](), action)(*argv)

    def set_in_use(self, volume):
        """Run ``openstack volume set --state in-use --attached``."""

    def print_connector(self, host):
        """Return what our command prints on a host."""
        _, *argv = shlex.split(CONNECTOR.partition(' > ')[0])
        place = {'host': host, 'my_ip': CONF.my_ip}
        conf = self.nova_conf(host, DEFAULT=place)
        code, out, err = self.run_command(*argv, conf=conf)
        self.assertEqual((0, ''), (code, err))
        return out
