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

"""Common parts of the tests of sites of two hosts."""

import unittest

from pypowervm.tasks import scsi_mapper
from pypowervm.wrappers import storage

from powervm_emulator import fixture

from . import base
from . import pools


def world(number, **pool):
    """Return the world of a host with two nodes.

    :param pool: keys of the pool.
    """
    made = pools.world(**pool)
    (system,) = made['systems']
    system['name'] = f'host{number}'
    system['serial'] = f'EMU000{number}'
    system['partitions'].append(
        {'name': 'vm', 'memory': 2048, 'processors': 1}
    )
    return made


class SiteTestCase(base.EmulatorTestCase):
    """Starts two hosts; attributes with 1 or 2 are of one of them."""

    @staticmethod
    def worlds():
        """Return the worlds of both hosts."""
        return [world(1), world(2)]

    def setUp(self):
        unittest.TestCase.setUp(self)
        base.quieten(self)
        self.site = fixture.Site(self.worlds(), event_wait=0)
        self.addCleanup(self.site.stop)
        self.site.start()
        self.clients = [self.log_on(one) for one in self.site.emulators]
        self.controls = [one.control for one in self.site.emulators]
        self.client1, self.client2 = self.clients
        self.control1, self.control2 = self.controls

    def log_on(self, emulator):
        adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)
        return pools.Client(adapter)

    def pool(self, control):
        return control.state()['clusters'][0]['pool']

    def lpars(self, control):
        """Return the partitions in the state, by name."""
        found = control.state()['systems'][0]['partitions']
        return {one['name']: one for one in found}

    def lpar(self, control):
        return self.lpars(control)['vm']

    def cycle_power(self):
        """Take the power from the first host and give it back."""
        self.control1.power_off_system()
        self.control1.power_on_system()

    def map(self, client, control, unit):
        """Map a unit to the partition of a host by one server."""
        uuid = self.lpar(control)['uuid']
        reference = storage.LU.bld_ref(client.adapter, unit.name, unit.udid)
        scsi_mapper.add_vscsi_mapping(None, client.vios(), uuid, reference)
