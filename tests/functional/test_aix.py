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

"""Servers with AIX, on hosts that run it and on one that does not.

What the host does in each operation is in ``tests/ops/test_aix.py``.
"""

import re
from unittest import mock

from nova import objects
from pypowervm.wrappers import job

from powervm_emulator import fixture
from powervm_emulator import worlds
from powervm_emulator.nouns.partition import operating_system
from tests import proofs
from tests.functional import moving
from tests.functional import pools
from tests.functional import test_consoles
from tests.functional import test_management
from tests.unit.docs import pages

AIX = operating_system.AIX_RECORD + bytes(32 * 1024)
TRAIT = 'CUSTOM_POWERVM_AIX'
REFUSAL = 'but the host cannot run AIX'
HOSTS = ('host1', 'host2', 'host3')


def properties_of_page():
    """Return the properties of the image that the page on AIX makes."""
    (line,) = (
        line
        for line, _ in pages.commands('admin/aix')
        if line.startswith('openstack image create')
    )
    return dict(re.findall(r'--property (\S+?)=(\S+)', line))


def made_worlds():
    """Return the worlds of the hosts, which share a pool.

    The first is that of the demonstration, which says that it runs AIX. The
    second does not say anything, and the last denies it.
    """
    first = worlds.load_file(str(pages.ROOT / 'demo' / 'aix-world.yaml'))
    silent, denying = map(pools.numbered_world, (2, 4))
    denying['systems'][0]['capabilities']['aix'] = 'Inactive'
    silent['systems'][0]['virtual_switches'].append(
        {'name': test_management.SWITCH, 'mode': 'Vepa'}
    )
    shared = {'clusters': [pools.cluster()]}
    return [one | shared for one in (first, silent, denying)]


class AixTest(moving.MovingTestCase, test_consoles.ConsoleTestCase):
    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=False)
        self.start_site(
            HOSTS,
            made_worlds(),
            host_roots=[self.root(name) for name in HOSTS],
        )
        properties = properties_of_page()
        self.aix_where_it_runs = self.create_image(AIX, properties=properties)
        self.assertEqual('required', properties.pop(f'trait:{TRAIT}'))
        self.aix = self.create_image(
            AIX, properties=properties | {'os_distro': 'AIX'}
        )

    def start_site(self, names, described, host_roots):
        """Start hosts whose nova-compute is on the management partition."""
        site = fixture.Site(described, host_roots=host_roots)
        for name, emulator in zip(names, site.emulators, strict=True):
            self.start_host(name, emulator=emulator, disk_driver='ssp')

    def test_server_has_aix(self):
        self.tell_stories()

    def boot_aix(self, image=None, host='host1', expected='ACTIVE'):
        """Boot a server with AIX on a host, as the page says."""
        return self.boot(
            {},
            expected,
            image=image or self.aix,
            disk=1,
            request={'host': host, 'config_drive': True},
        )

    def seen(self, server, host):
        """Return what a host says of a server's guest."""
        reader = self.hosts[host].reader
        lpar = self.lpar_uuid(server)
        return [
            reader.lpar_text(lpar, name)
            for name in ('ReferenceCode', 'OperatingSystemVersion')
        ]

    def jobs_of_stop(self, act, *arguments):
        """Return the jobs that stop a guest: whether by RMC, and seconds."""
        jobs = []
        run = job.Job.run_job

        def note(found, uuid, job_parms=None, timeout=None, **options):
            if found.op == 'PowerOff':
                words = [p.find('ParameterValue').text for p in job_parms]
                jobs.append(('osshutdown' in words, timeout))
            return run(
                found, uuid, job_parms=job_parms, timeout=timeout, **options
            )

        with mock.patch.object(job.Job, 'run_job', note):
            act(*arguments)
        return jobs

    @proofs.proves('system.aix', 'console.vnc')
    def story_server_boots_stops_and_moves_where_aix_runs(self):
        server = self.boot_aix(self.aix_where_it_runs)
        self.assertEqual(
            ['', operating_system.AIX], self.seen(server, 'host1')
        )
        self.use_commands('host1')
        self.assert_shows(self.ask(server), server).close()

        stopped = self.jobs_of_stop(self._stop_server, server)
        self.assertEqual([(True, 900)], stopped)
        self._start_server(server)

        with self.subTest('the scheduler knows who runs it'):
            self.admin_api.post_server_action(
                server['id'], {'migrate': {'host': 'host3'}}
            )
            event = self._wait_for_action('migrate', server, 'Error')
            self.assertIn('No valid host', event['details'])
            self._wait_for_server_parameter(
                server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
            )
        stopped = self.jobs_of_stop(self.migrate, server)
        self.assertEqual([(True, 900)], stopped)
        self.assertEqual(
            ['', operating_system.AIX], self.seen(server, 'host2')
        )
        server = self.confirm(server)
        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
        self.use_commands('host2')
        self.assert_shows(self.ask(server), server)

    @proofs.proves('system.aix')
    def story_host_that_cannot_run_it_refuses(self):
        with self.subTest('boot'):
            server = self.boot_aix(host='host3', expected='ERROR')
            self.assertIn(REFUSAL, self.fault(server))
        with self.subTest('move'):
            server = self.boot_aix()
            reason = self.refuse_move(server, 'migrate', host='host3')
            self.assertIn('the other host cannot run it', reason)
            self.assertIn(REFUSAL, reason)
            self.assertEqual(
                ['', operating_system.AIX], self.seen(server, 'host1')
            )
        server = self.boot({}, disk=1, request={'host': 'host3'})
        self.assertIn('Linux', self.seen(server, 'host3')[0])
        with self.subTest('rebuild'):
            self.assertIn(REFUSAL, self.refuse_rebuild(server, self.aix))
        with self.subTest('rescue'):
            self.api.post_server_action(
                server['id'], {'rescue': {'rescue_image_ref': self.aix}}
            )
            self._wait_for_state_change(server, 'ERROR')
            self.assertIn(REFUSAL, self.fault(server))
        self.assertIn('Linux', self.seen(server, 'host3')[0])
        self.assertEqual('running', self.lpar(server, 'host3').state)

    def story_nova_refuses_what_the_page_warns_of(self):
        for name, value in {
            'os_type': 'aix',
            'architecture': 'ppc64be',
            'hypervisor_type': 'powervm',
        }.items():
            described = {'properties': properties_of_page() | {name: value}}
            with self.subTest(name):
                self.assertRaises(
                    ValueError, objects.ImageMeta.from_dict, described
                )

    @proofs.proves('system.aix')
    def story_trait_is_published_by_hosts_that_do_not_deny_it(self):
        self.assertEqual(
            ['host1', 'host2'],
            [
                host
                for host in HOSTS
                if TRAIT in self._get_provider_traits(self.root_of(host))
            ],
        )

    def root_of(self, host):
        """Return the uuid of the compute node's own provider."""
        return self._get_provider_uuid_by_host(host)
