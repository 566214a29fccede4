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

"""Nova's Cyborg fixture, extended by slots of PowerVM hosts."""

import copy

from nova.tests.fixtures import cyborg
from oslo_utils import uuidutils

from tests.functional import accelerated_servers

PROFILE = 'the-profile'
#: A trait that only Cyborg's devices bear.
MARK = accelerated_servers.OTHER_MARK


def slot(index):
    """Return type and info of the attach handle of a slot."""
    return 'PCI', {
        'domain': '0000',
        'bus': '00',
        'device': '00',
        'function': '0',
        'drc_index': f'{index:08X}',
    }


class Cyborg(cyborg.CyborgFixture):
    """Device profiles and accelerator requests that a test defines."""

    def setUp(self):
        # Nova's fixture shares them among all tests.
        self.arq_list = []
        self.bound_arq_list = []
        self.groups = []
        super().setUp()

    def promise(self, *groups, resources='FPGA', mark=MARK):
        """Define the device profile: one group per list of handles.

        :param groups: Lists of (type, info) of attach handles.
        :param resources: Resource class that each group requests.
        :param mark: Trait that each group requires; None for no trait.
        """
        self.groups = [
            (
                {
                    f'resources:{resources}': len(handles),
                    **({f'trait:{mark}': 'required'} if mark else {}),
                },
                handles,
            )
            for handles in groups
        ]

    def bound_to(self, instance):
        """Return the requests that are bound to an instance."""
        return [
            arq
            for arq in self.bound_arq_list
            if arq['instance_uuid'] == instance
        ]

    def fake_get_device_profile_list(self, dp_name):
        """Return the device profile."""
        return [
            {
                'name': dp_name,
                'uuid': uuidutils.generate_uuid(),
                'groups': [group for group, _ in self.groups],
            }
        ]

    def fake_create_arqs(self, dp_name):
        """Create one request for each accelerator of each group."""
        made = []
        for number, (_, handles) in enumerate(self.groups):
            for kind, contents in handles:
                arq = {
                    'uuid': uuidutils.generate_uuid(),
                    'device_profile_name': dp_name,
                    'device_profile_group_id': number,
                    'state': 'Initial',
                    'device_rp_uuid': None,
                    'hostname': None,
                    'instance_uuid': None,
                    'attach_handle_info': {},
                    'attach_handle_type': '',
                }
                bound = {
                    'state': 'Bound',
                    'attach_handle_type': kind,
                    'attach_handle_info': contents,
                }
                self.arq_list.append(arq)
                self.bound_arq_list.append(arq | bound)
                made.append(copy.deepcopy(arq))
        return made

    def fake_bind_arqs(self, bindings):
        """Bind requests to a host, provider and instance."""
        for arq in self.bound_arq_list:
            arq.update(bindings.get(arq['uuid'], {}))

    def fake_get_arqs_for_instance(self, instance_uuid, only_resolved=False):
        """Return the requests of an instance."""
        return copy.deepcopy(self.bound_to(instance_uuid))
