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

"""Our driver, over an emulated host with many equal cards."""

import nova.tests.functional  # noqa: F401  patches first

from nova_powervm.virt import driver
from powervm_emulator import worlds
from tests.benchmark import measuring
from tests.functional import base


def world(devices):
    """Make a world with so many free GPUs."""
    document = worlds.default()
    (system,) = document['systems']
    gpu = next(s for s in system['slots'] if s['drc_index'] == '21010020')
    others = [s for s in system['slots'] if s.get('device_id') != '1DB6']
    system['slots'] = others + [
        gpu
        | {
            'drc_index': f'{0x22000000 + number:08X}',
            'drc_name': f'U78D2.001.EMU0002-P2-C{number}',
        }
        for number in range(devices)
    ]
    return document


class Ours(measuring.MeasuringMixin, base.PowerVMTestCase):
    """The default options."""

    skipping = False

    def driver_parts(self):
        names = ('get_available_resource', 'update_provider_tree')
        return [(driver.PowerVMDriver, names)]

    def prepare(self):
        self.hosts['host1'] = self.useFixture(
            base.EmulatedHost('host1', world(self.devices))
        )

    def start(self):
        self.configure('host1', skip_free_provider_reads=self.skipping)
        self._start_compute('host1')

    def service(self):
        return self.computes['host1']

    def flavor(self, kind):
        return self._create_flavor(
            id=kind or 'plain',
            name=kind or 'plain',
            memory_mb=512,
            vcpu=1,
            disk=1,
            ephemeral=0,
            extra_spec=base.gpu_groups(1) if kind else {},
        )

    def send(self, flavor):
        body = self._build_server(
            image_uuid=self.image, flavor_id=flavor, networks='none'
        )
        return self.api.post_server({'server': body})['id']

    def host_requests(self):
        """Count the requests to the host since the last call.

        Polls for events are left out.

        :returns: All of them, and those not answered with 304.
        """
        answers = [
            record['status']
            for record in self.control().journal()
            if 'Event' not in record['label']
        ]
        self.control().clear_journal()
        return len(answers), sum(status != 304 for status in answers)


class Skipping(Ours):
    """With ``[powervm]skip_free_provider_reads``."""

    skipping = True
