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

"""An HMC in place of a NovaLink partition, as captures of HMCs show it."""

from pypowervm import exceptions as pvm
from pypowervm.tests.test_utils import pvmhttp
from pypowervm.wrappers import event
from pypowervm.wrappers import job
from pypowervm.wrappers import logical_partition
from pypowervm.wrappers import management_console

from powervm_emulator import worlds

from . import base

JOB = 'RemoteRestart'


class HmcTest(base.EmulatorTestCase):
    def setUp(self):
        super().setUp()
        self.emulator._application.emulation.event_wait = 0

    def load(self, **keys):
        """Load a world; return the headers of an answer."""
        self.control.load_world(worlds.default() | keys)
        return self.adapter.read('ManagedSystem').headers

    def restart(self):
        """Run the job of an HMC; return its status."""
        (lpar, *_) = logical_partition.LPAR.get(self.adapter)
        template = self.adapter.read(
            lpar.schema_type,
            root_id=lpar.uuid,
            suffix_type='do',
            suffix_parm=JOB,
        )
        request = job.Job.wrap(template.entry)
        with self.assertRaises(pvm.JobRequestFailed):
            request.run_job(lpar.uuid)
        return request.job_status

    def test_headers_are_those_of_captures(self):
        for file, keys in (
            ('cluster.txt', {'hmc': 'V10R3'}),
            ('fake_managedsystem.txt', {}),
        ):
            captured = pvmhttp.load_pvm_resp(file).response.headers
            kind = self.load(**keys).get('X-MC-Type')
            self.assertEqual(captured.get('x-mc-type'), kind)
        version = self.load(hmc='V10R3')['X-HMC-Schema-Version']
        captured = pvmhttp.load_pvm_resp('cluster.txt').response.headers
        self.assertEqual(captured['x-hmc-schema-version'], version)

    def test_console_names_systems_and_version_as_captured_one(self):
        captured = pvmhttp.load_pvm_resp('managementconsole.txt').response
        (recorded,) = captured.feed.entries
        self.load(hmc='V11R2')
        (console,) = management_console.ManagementConsole.get(self.adapter)
        for found in (console.element, recorded.element):
            self.assertIsNotNone(found.find('VersionInfo'))
            self.assertIsNone(found.find('AuthorizedKeys'))
            self.assertTrue(found.findall('ManagedSystems/link'))
        self.assertEqual('V11R2', console.element.findtext('BaseVersion'))
        self.assertEqual('11', console.element.findtext('VersionInfo/Version'))

    def test_first_poll_does_not_greet(self):
        self.load(hmc='V10R3')
        # pypowervm's own needs the greeting.
        query = [
            ('QUEUE_CLIENTKEY_METHOD', 'USE_APPLICATIONID'),
            ('QUEUE_APPLICATIONID', 'client'),
        ]

        def poll():
            answer = self.adapter.read('Event', xag=[], add_qp=query)
            return [one.etype for one in event.Event.wrap(answer)]

        self.assertEqual([], poll())
        self.create()
        self.assertEqual('ADD_URI', poll()[0])

    def test_job_of_an_hmc_is_listed_there_only_and_fails(self):
        self.load()
        with self.assertRaises(pvm.HttpNotFound):
            self.restart()
        self.load(hmc='V10R3')
        self.assertEqual('COMPLETED_WITH_ERROR', self.restart())
