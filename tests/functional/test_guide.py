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

"""Runs every example of the guides in the order of its page.

Commands that can't be run here are listed, so that none is skipped unnoticed.
"""

import contextlib
import io
import os
import pathlib
import re
import shlex
import textwrap

import fixtures
from keystoneauth1 import token_endpoint
from openstackclient import shell
from osc_lib import clientmanager

from tests import proofs
from tests.functional import one_time_use
from tests.functional import test_commands
from tests.unit.docs import pages
from tests.unit.tool.inventory import base as tool

#: Commands of others, and of ours what is run elsewhere or needs a service
#: that these tests do not have.
NOT_RUN = (
    'pvmctl',
    'lspci',
    'ss -',
    'strace',
    'systemctl',
    'chgrp',
    'curl',
    'pip',
    'python3 -m venv',
    '/opt/nova/bin/pip',
    'ln -s',
    'tools/',  # the demonstration and the tests themselves
    # In a shell of the demonstration.
    '. <state directory>',
    'export PATH=',
    'nova-powervm-inventory --config-file <state directory>',
    # In a guest.
    'mount',
    'python3 -m json.tool',
    'grep -ls',
    'nova-powervm-check',  # tests.ops.test_check
    'nova-powervm-clean',  # tests.functional.test_cleaning
    'cp etc/nova/',
    'install -m',
    'install -D',
    'kolla-build',
    'openssl rand',
    'source',  # tests.unit.tool.inventory.test_app
    'nova-powervm-inventory complete',  # the same
    'openstack accelerator',  # Cyborg
    'openstack image',  # Glance
    # The same: tests.cloud.old_images.
    'for image in',
    'while read -r image',
    # Keystone: tests.cloud.quotas.
    'openstack registered limit',
    'openstack limit',
    'openstack role',
    'nova-manage limits',
    'nova-powervm-status',  # tests.functional.test_commands
    # Cinder: tests.functional.test_cinder_volumes.
    'openstack volume set',
    'openstack server remove volume',
    'openstack --os-volume-api-version',  # tests.soak.volume_move_sweep
    'nova-powervm-inventory connector',
    'nova-manage volume_attachment',
    'echo 01',
    # A Virtual I/O Server.
    'rmdev',
    # They burn a device of these hosts: tests.functional.test_quarantine.
    'nova-powervm-inventory quarantine',
    'nova-powervm-inventory restore',
    # They need another host: tests.functional.test_stuck_servers, and
    # test_live_migration.
    'openstack compute service set --down',
    'openstack compute service set --up',
    'openstack resource provider allocation delete <server>',
    'openstack resource provider allocation delete <uuid of the live',
    'openstack server evacuate',
)
#: Exit codes that are not 0, by how the command begins.
CODES = {
    # The file has two errors.
    'nova-powervm-inventory validate wrong.yaml': 2,
    # The group requests two devices and no owner.
    'nova-powervm-inventory flavor lint --extra-spec': 2,
}

#: What needs Cyborg, or its file, which this cloud does not have: see
#: tests.functional.test_cyborg_commands and tests.cloud.guide.
_CYBORG = re.compile(
    ' --cyborg| --accelerators| handover |CUSTOM_POWERVM_CYBORG|crypto1'
)


class GuideTestCase(test_commands.CommandTestCase):
    """An operator's terminal with the openstack command."""

    inventory = one_time_use.ONE_TIME_USE_GPUS
    #: The request that made the last server.
    request = ''
    #: A server that an example sets the state of, or stops.
    stuck = ''

    def setUp(self):
        super().setUp()
        headers = {
            'X-Auth-Token': self.placement.fixture.token,
            'X-Auth-User': 'admin',
            'X-Auth-Project-Id': self.api_fixture.project_id,
            'X-Roles': 'admin,member,reader',
        }
        # Nova's fixture has no keystone; it believes what a request says.
        self.useFixture(
            fixtures.MockPatchObject(
                token_endpoint.Token, 'get_headers', lambda *_: headers
            )
        )
        # It keeps clients for the whole process, those of another test, too.
        self.useFixture(
            fixtures.MockPatchObject(
                clientmanager.ClientCache,
                '__get__',
                lambda cache, manager, _: cache.factory(manager),
            )
        )
        endpoint = self.placement.fixture.endpoint
        for name, value in {
            'OS_AUTH_TYPE': 'admin_token',
            'OS_TOKEN': self.placement.fixture.token,
            'OS_ENDPOINT': endpoint,
            'OS_COMPUTE_ENDPOINT_OVERRIDE': self.api_fixture.base_url,
            'OS_IDENTITY_ENDPOINT_OVERRIDE': endpoint,
            'OS_IDENTITY_API_VERSION': '3',
            'OS_PLACEMENT_API_VERSION': '1.0',
        }.items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.start_host()
        # Nova's fixture made it with hw:numa_nodes, which is refused here.
        self.api.delete_flavor('6')
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.conf = self.nova_conf()

    def follow(self, examples):
        """Run examples one after the other.

        :param examples: Pairs of command line and shown output. Every shown
            line has to be in the output, in this order; ``...`` stands for
            omitted lines.
        """
        for line, shown in examples:
            if line.startswith(NOT_RUN) or _CYBORG.search(line):
                continue
            with self.subTest(line):
                self.prepare_for(line)
                code, out = self.run_line(line)
                expected = next(
                    (c for head, c in CODES.items() if line.startswith(head)),
                    0,
                )
                self.assertEqual(expected, code, f'{line}\n{out}')
                self.assert_shown(shown, out)
                self.wait_after(line)

    def assert_shown(self, shown, out):
        """Assert that the output has the lines that a page shows."""
        there = iter([line.rstrip() for line in out.splitlines()])
        for line in shown.splitlines():
            if line != '...':
                self.assertIn(line.rstrip(), there, out)

    def prepare_for(self, line):
        """Set up what an example needs."""
        if ' release' in line and one_time_use.INDEX not in self.waiting():
            # As a server leaves it that is deleted.
            self.delete_all()
            provider = self.slot_providers()[one_time_use.INDEX]
            self.reserve(provider['uuid'], 'CUSTOM_GPU', 1)
        if line.startswith('nova-powervm-inventory generate'):
            # Another page may have had it written.
            pathlib.Path(self.directory, 'new.yaml').unlink(missing_ok=True)
        if line.startswith('nova-powervm-inventory flavor create gpu.two'):
            self._create_flavor(name='gpu.two', disk=0, ephemeral=0)
        if line.startswith(
            (
                'openstack server set --auto-approve --state',
                'openstack server stop',
            )
        ):
            self.stuck = self.boot({})['id']
        if line.startswith('openstack server reboot --hard <server>'):
            self.await_task_end(self.stuck)

    def wait_after(self, line):
        """Let as many cycles pass as a page tells to wait."""
        if line.startswith('openstack resource provider delete'):
            for _ in range(2):
                self._run_periodics()
        if line.startswith('openstack compute service set --disable'):
            # Another page needs it. Its own next example says so, too.
            self.openstack(
                *('compute', 'service', 'set', '--enable'),
                *('host1', 'nova-compute'),
            )

    def await_task_end(self, uuid):
        """Wait until nova-compute works on a server no more."""
        self._wait_for_server_parameter(
            {'id': uuid}, {'OS-EXT-STS:task_state': None}
        )

    def waiting(self):
        """Return the DRC indexes of devices that need cleaning."""
        _, rows = self.rows('release', conf=self.conf)
        return {int(row['Slot'], 16) for row in rows}

    def delete_all(self):
        """Delete all servers."""
        for server in self.api.get_servers(detail=False):
            self._delete_server(self.api.get_server(server['id']))

    def run_line(self, line):
        """Run a line of shell commands; return its exit code and output."""
        out = None
        line = re.sub(
            r'<([\w -]+)>',
            lambda found: self.fill_placeholder(found[1], line),
            line,
        )
        for part in line.split(' | '):
            code, out = self.run_words(shlex.split(part, comments=True), out)
        return code, out

    def fill_placeholder(self, words, line):
        """Return the value for a placeholder in angle brackets."""
        providers = self.slot_providers()
        wanted = {'CUSTOM_NVME'} & {*re.findall(r'CUSTOM_\w+', line)}
        of_class = [
            index
            for index, classes in self.slot_classes().items()
            if classes == (wanted or {'CUSTOM_GPU'})
        ]
        return {
            'compute node uuid': self._get_provider_uuid_by_host('host1'),
            'destination': 'host1',
            'host': 'host1',
            # No server of an example has the last one.
            'slot provider uuid': providers[max(of_class)]['uuid'],
            'image': self.image,
            'network': 'none',
            'project id': self.api_fixture.project_id,
            'request id': self.request,
            'server': self.stuck,
            'trait': 'CUSTOM_POWERVM_IOSLOT_DRC_NAME_U1_P1_C9',
            'uuid of the migration': self.stuck,
        }[words]

    def run_words(self, words, given):
        """Run one command with the given standard input."""
        command, *argv = words
        if command == 'export':
            os.environ.update(word.split('=') for word in argv)
            return 0, ''
        if command == 'openstack':
            return self.openstack(*argv)
        self.assertEqual('nova-powervm-inventory', command)
        places = {
            '/etc/nova/inventory.yaml': f'{self.directory}/new.yaml',
            'inventory.yaml': self.inventory_path('host1'),
            'wrong.yaml': self.write('wrong.yaml', self.wrong),
            'system.xml': self.write(
                'system.xml', self.hosts['host1'].reader.system().decode()
            ),
            '/var/lib/prometheus/node-exporter/powervm.prom': (
                f'{self.directory}/powervm.prom'
            ),
            'compute7': 'host1',
        }
        code, out, err = self.run_command(
            *(places.get(word, word) for word in argv),
            conf=self.conf,
            answer=given or 'y\n',
        )
        return code, (out + err).replace(places['wrong.yaml'], 'wrong.yaml')

    def write(self, name, text):
        """Write a file and return its path."""
        path = os.path.join(self.directory, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    @property
    def wrong(self):
        """The invalid inventory file that the guide shows."""
        (text,) = [
            text
            for name, text in pages.blocks('none')
            if name == 'admin/devices' and text.startswith('gpus:')
        ]
        return text

    def openstack(self, *argv):
        """Run the openstack command; return its exit code and output."""
        if argv[:2] == ('server', 'create'):
            # It would look for image and network in services of their own.
            flavor = argv[argv.index('--flavor') + 1]
            return 0, self.create_server(flavor, argv[-1])
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = shell.OpenStackShell().run([*argv])
        return code, out.getvalue() + err.getvalue()

    def create_server(self, flavor, name):
        """Create a server with a flavor and assert that it is running."""
        (found,) = [f for f in self.api.get_flavors() if f['name'] == flavor]
        extra_specs = self.api.get_extra_specs(found['id'])
        body = self._build_server(
            name=name,
            image_uuid=self.image,
            flavor_id=found['id'],
            networks='none',
        )
        server = self.api.post_server({'server': body})
        server = self._wait_until_built(server['id'])
        self.assertEqual('ACTIVE', server['status'], server.get('fault'))
        if extra_specs:
            self.assertTrue(self.allocated_slots(server))
        (action,) = self.api.get_instance_actions(server['id'])
        self.request = action['request_id']
        return ''


class DevicesGuideTest(GuideTestCase):
    """Examples of the guide to device passthrough."""

    @proofs.proves('device.validate-cli')
    def test_examples_of_devices_guide_work(self):
        self.follow(pages.commands('admin/devices'))


class PageExamplesTest(GuideTestCase):
    """Examples of all other pages and of the commands' help."""

    inventory = one_time_use.ONE_TIME_USE_GPUS + textwrap.dedent("""\
        nvme:
          identification: {vendor_id: "144D", class: "0108"}
          resource_class: CUSTOM_NVME
          one_time_use: true
        """)

    def test_examples_of_pages_and_help_work(self):
        for page in sorted({*pages.FOLLOWED} - {'admin/devices'}):
            with self.subTest(page):
                # A page may set it.
                os.environ['OS_PLACEMENT_API_VERSION'] = '1.0'
                self.follow(pages.commands(page))
            self.delete_all()
            # Which ones a page burns is Placement's choice; the next page
            # may need any of them.
            self.release_all()
        self.follow(self.of_the_help())

    def of_the_help(self):
        """Yield the examples in the help of commands that need the cloud.

        tests.unit.tool.inventory.test_app runs those of the other commands.
        """
        for command in ('diff', 'flavor create', 'flavor lint', 'release'):
            text = tool.run(*command.split(), '--help').out
            _, _, examples = text.partition('\nExamples:\n')
            whole = re.sub(r'(\\|(?<=\|))\n\s*', ' ', examples)
            for line in whole.splitlines():
                if line.strip() and not line.strip().startswith('#'):
                    yield line.strip(), ''
