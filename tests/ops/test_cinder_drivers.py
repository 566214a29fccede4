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


"""What the drivers in Cinder's wheel and this one have to say to each other.

They run in a process of their own, which the connectors of some hosts are sent
to.
"""

import json
import os
import pathlib
import subprocess
import sys

from os_brick.initiator import linuxscsi
from os_brick.initiator.connectors import fibre_channel

from nova_powervm.lpar import supported_features
from nova_powervm.lpar import volumes as lpar_volumes
from tests import proofs
from tests.ops import volumes
from tests.unit.docs import pages

_PROCESSES = pathlib.Path(__file__).parents[1] / 'processes'
#: The words that the page for administrators explains.
KNOWN = pages.keys('admin/volumes', 'Properties of volumes')
_REST = 'DriverTest.test_initialize_connection'
#: Drivers with an array in Cinder's tests, and the test that has it.
CONNECTING = {
    'AlletraMP': 'hpe.test_alletramp.TestHPEAlletraMPFCDriver.'
    'test_initialize_connection_with_multipath',
    'DataCore': 'datacore.test_datacore_fc.FibreChannelVolumeDriverTestCase.'
    'test_initialize_connection',
    'DS8K': 'ibm.test_ds8k_proxy.DS8KProxyTest.'
    'test_initialize_connection_when_no_existing_host',
    'Hitachi': f'hitachi.test_hitachi_hbsd_rest_fc.HBSDRESTFC{_REST}_1_False',
    'Huawei': 'huawei.test_huawei_drivers.HuaweiFCDriverTestCase.'
    'test_initialize_connection_success',
    'Infortrend': 'infortrend.test_infortrend_common.'
    'InfortrendFCCommonTestCase.test_initialize_connection',
    'InStorage': 'inspur.instorage.test_fc_driver.InStorageMCSFcDriverTestCase'
    '.test_instorage_mcs_fc_multi_host_maps',
    'Kaminario': 'test_kaminario.TestKaminarioFC.test_initialize_connection',
    'MacroSAN': 'test_macrosan_drivers.MacroSANFCDriverTestCase.'
    'test_initialize_connection',
    'NEC M': 'nec.test_volume.ExportTest.test_fc_initialize_connection',
    'NEC V': f'nec.v.test_internal_nec_rest_fc.VStorageRESTFC{_REST}',
    'NetApp': 'netapp.dataontap.test_block_base.'
    'NetAppBlockStorageLibraryTestCase.test_initialize_connection_fc',
    'Nimble': 'hpe.test_nimble.NimbleDriverConnectionTestCase.'
    'test_initialize_connection_fc_igroup_not_exist',
    'Pure': 'test_pure.PureFCDriverTestCase.test_initialize_connection',
    'SC': 'dell_emc.sc.test_fc.DellSCSanFCDriverTestCase.'
    'test_initialize_connection',
    'Storwize': 'ibm.test_storwize_svc.StorwizeSVCFcDriverTestCase.'
    'test_storwize_svc_fc_multi_host_maps',
    'ToYou': 'toyou.test_acs5000.Acs5000FCDriverTestCase.'
    'test_initialize_connection',
    'XP': f'hpe.xp.test_hpe_xp_rest_fc.HPEXPRESTFC{_REST}',
    'XtremIO': 'dell_emc.test_xtremio.XtremIODriverFCTestCase.'
    'test_initialize_connection',
    '3PAR': 'hpe.test_hpe3par.TestHPE3PARFCDriver.'
    'test_initialize_connection_1_volume',
}
VALIDATING = {
    'Acs5000FCDriver',
    'DPLFCDriver',
    'FJDXFCDriver',
    'FibreChannelVolumeDriver',
    'HBSDFCDriver',
    'HPE3PARFCDriver',
    'HPEAlletraMPFCDriver',
    'HPEXPFCDriver',
    'HPMSAFCDriver',
    'HuaweiFCDriver',
    'InStorageMCSFCDriver',
    'InfiniboxVolumeDriver',
    'InfortrendCLIFCDriver',
    'KaminarioFCDriver',
    'LenovoFCDriver',
    'MStorageFCDriver',
    'MacroSANFCDriver',
    'NetAppCmodeFibreChannelDriver',
    'NimbleFCDriver',
    'PVMEFCDriver',
    'PowerMaxFCDriver',
    'PureFCDriver',
    'SCFCDriver',
    'STXFCDriver',
    'StorwizeSVCFCDriver',
    'TatlinFCVolumeDriver',
    'VStorageFCDriver',
    'XtremIOFCDriver',
}


#: Equal up to the first dot, and in the last 31 characters.
HOSTS = [
    f'compute.{rack}.{"long." * 6}example.com'
    for rack in ('east', 'north', 'south', 'west')
]


class CinderDriversTest(volumes.VolumesTestCase):
    maxDiff = None

    def connector(self, host):
        """Return what the driver tells Cinder of a host."""
        return lpar_volumes.describe_host(
            host, '192.0.2.1', self.volumes.connector()
        )

    def ask(self, connectors):
        """Ask Cinder's drivers about connectors."""
        tests = [*CONNECTING.values()]
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'cinder_drivers'],
            input=json.dumps({'connectors': connectors, 'tests': tests}),
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {'PYTHONPATH': str(_PROCESSES)},
        )
        self.assertEqual(0, done.returncode, done.stderr[-4000:])
        return json.loads(done.stdout)

    @proofs.proves('operation.attach-volume')
    def test_drivers_of_cinder_and_this_one_understand_each_other(self):
        connectors = [self.connector(host) for host in HOSTS]
        answer = self.ask(connectors)
        with self.subTest('connector is valid'):
            self.assertEqual(dict.fromkeys(VALIDATING, ''), answer['refused'])
        with self.subTest('helpers find each port'):
            ports = made_of(connectors[0]['wwpns'])
            self.assertEqual(answer['made'][0] | ports, answer['made'][0])
        for name in ('3par', 'kaminario'):
            with self.subTest(f'{name} tells hosts apart by initiator'):
                hosts = {made[name] for made in answer['made']}
                self.assertEqual(len(HOSTS), len(hosts), hosts)
        # The array of MacroSAN's test knows names of nodes, not ports.
        with self.subTest('volume is connected and disconnected'):
            self.assertEqual([CONNECTING['MacroSAN']], answer['failed'])
        for name, test in CONNECTING.items():
            with self.subTest(f'answer of {name}'):
                # A test may also provoke an error, which is a text.
                given = [
                    one
                    for one in answer['connected'][test]
                    if isinstance(one, dict)
                ]
                self.assertTrue(given)
                for one in given:
                    self.check_answer(one)

    def check_answer(self, data):
        """Verify that the driver knows all words, and reads the paths."""
        for key in data:
            self.assertTrue(
                key in KNOWN or supported_features.rule_of_connection(key), key
            )
        self.assertEqual('', lpar_volumes.refusal({'data': data}))
        volume = lpar_volumes.parse({'serial': 'v1', 'data': data})
        self.assertEqual(
            luns_of_brick(data), lpar_volumes.fibre_channel(volume).luns
        )


def made_of(wwpns):
    """Return what helpers of drivers should make of ports."""
    ports = [
        ':'.join(wwpn[at : at + 2] for at in range(0, 16, 2)) for wwpn in wwpns
    ]
    pairs = [f'{port}:{port}'.upper() for port in ports]
    return {
        'unity': pairs,
        'vnx': pairs,
        'powerstore': ports,
        'ds8k': 'pSeries',
    }


def luns_of_brick(data):
    """Return where os-brick looks for a volume."""
    brick = fibre_channel.FibreChannelConnector('')
    found = brick._add_targets_to_connection_properties(data)
    mode = data.get('addressing_mode')
    return {
        target.upper(): linuxscsi.LinuxSCSI.lun_for_addressing(lun, mode)
        for target, lun in found['targets']
    }
