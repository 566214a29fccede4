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

"""One host whose slots Nova and real Cyborg services share."""

import os_traits

from tests.functional import base
from tests.functional import real_cyborg

#: Nova's; the others are Cyborg's.
OURS = {0x21010020, 0x21010021}
CRYPTO, GPU, NVME = 0x21010022, 0x21020024, 0x21010030
#: The mark of devices of other drivers of Cyborg.
OTHER_MARK = 'CUSTOM_CYBORG'
FILE = """\
nvme:
  identification: {drc_index: "21010030"}
  resource_class: FPGA
gpu:
  identification: {drc_index: "21020024"}
  resource_class: PGPU
crypto:
  identification: {drc_index: "21010022"}
  resource_class: CUSTOM_CRYPTO
"""


class AcceleratorTestCase(base.PowerVMTestCase):
    """Provides one host with devices of Nova and devices of Cyborg."""

    inventory = """\
first:
  identification: {drc_index: "21010020"}
  resource_class: CUSTOM_GPU
second:
  identification: {drc_index: "21010021"}
  resource_class: CUSTOM_GPU
"""
    accelerators = FILE
    drivers = ('powervm',)

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=1, group='scheduler')
        self.cyborg = self.useFixture(real_cyborg.RealCyborg(self))
        self._profiles = 0
        self.start_host()
        self.report()

    def report(self, accelerators=None):
        """Make Cyborg's agent report what a file identifies.

        :param accelerators: Text of the file; None for that of the class.
        """
        self.cyborg.configure(
            'host1', accelerators or self.accelerators, self.drivers
        )
        self.cyborg.report()
        self.forget_tree()

    def forget_tree(self):
        """Make nova-compute read all providers again."""
        self.computes['host1'].manager.reportclient.clear_provider_cache()
        self._run_periodics()

    def create_profile(self, *classes, mark=real_cyborg.MARK):
        """Create a device profile with one group for each class.

        :param classes: Resource classes; one may be (class, amount).
        :param mark: Trait that each group requires; None for no trait.
        :returns: Its name.
        """
        self._profiles += 1
        name = f'profile{self._profiles}'
        groups = []
        for wanted in classes:
            resources, amount = (
                wanted if isinstance(wanted, tuple) else (wanted, 1)
            )
            groups.append(
                {
                    f'resources:{resources}': str(amount),
                    **({f'trait:{mark}': 'required'} if mark else {}),
                }
            )
        self.cyborg.create_profile(*groups, name=name)
        return name

    def accelerated(
        self, *classes, extra=None, mark=real_cyborg.MARK, **options
    ):
        """Boot a server with a device profile."""
        profile = self.create_profile(*classes, mark=mark)
        specs = {
            'accel:device_profile': profile,
            'group_policy': 'none',
            **(extra or {}),
        }
        return self.boot(specs, **options)

    def assert_has(self, server, *slots):
        """Assert that a server's LPAR is running with exactly these slots."""
        lpar = self.lpar(server)
        self.assertEqual('running', lpar.state)
        self.assertEqual(dict.fromkeys(slots, True), lpar.slots)

    def assert_nothing_made(self, server):
        """Assert that a failed build has left nothing and made no LPAR."""
        self.wait_until_unallocated(server)
        self.assertEqual([], self.cyborg.requests())
        self.assertIsNone(self.lpar(server))
        self.assertNotIn(
            'PUT LogicalPartition.create', self.control().journal_counts()
        )


def add_device(test, name, traits=(), total=4):
    """Create a provider as another driver of Cyborg does."""
    root = test._get_provider_uuid_by_host('host1')
    uuid = test.placement.post(
        '/resource_providers',
        {'name': name, 'parent_provider_uuid': root},
        version='1.20',
    ).body['uuid']
    test.set_inventory(uuid, {'FPGA': {'total': total}})
    if OTHER_MARK not in test._get_all_traits():
        test._create_trait(OTHER_MARK)
    test._set_provider_traits(
        uuid, [os_traits.OWNER_CYBORG, OTHER_MARK, *traits]
    )
    test.forget_tree()
    return uuid
