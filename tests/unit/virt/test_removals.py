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

"""Which LPARs and disks are removed for an instance, and which stay."""

from unittest import mock

import ddt
from nova import objects
from oslo_concurrency import lockutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.lpar import partition
from nova_powervm.virt import removals
from tests.unit.virt import base

LPAR = partition.lpar_uuid(uuids.instance)
VOLUMES = {
    'block_device_mapping': [
        {'boot_index': None, 'connection_info': {'serial': uuids.volume}}
    ]
}


@ddt.ddt
class RemovalsTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.host = mock.Mock(nodename='host1')
        self.deferred = mock.Mock()
        self.removals = removals.Removals(self.host, self.deferred)
        self.instance = objects.Instance(
            uuid=uuids.instance, host='host1', task_state=None, deleted=False
        )
        self.remove = self.host.removal.destroy

    def test_start_stops_lpar_that_may_be_the_only_one(self):
        """Nova took an interrupted evacuation for done."""
        self.host.startup.is_over = False
        stop = mock.Mock()
        self.stub_out(f'{removals.__name__}.power.power_off', stop)

        self.removals.destroy(self.instance, destroy_disks=True)

        self.remove.assert_not_called()
        stop.assert_called_once_with(self.host.partitions, LPAR, 0)

    @ddt.data(
        (True, {}),
        (False, {'host': 'host2'}),
        (False, {'deleted': True}),
        (False, {'task_state': 'deleting'}),
    )
    @ddt.unpack
    def test_lpar_is_removed_where_there_is_no_doubt(self, is_over, fields):
        self.host.startup.is_over = is_over
        self.instance.update(fields)
        self.removals.destroy(self.instance, destroy_disks=True)
        self.remove.assert_called_once()

    @ddt.data((True, True), (True, False), (False, True))
    @ddt.unpack
    def test_disks_go_if_nova_says_so_and_no_other_host_has_them(
        self, asks, may
    ):
        self.host.storage.may_delete_disks.return_value = may
        self.removals.destroy(self.instance, asks)
        _, options = self.remove.call_args
        self.assertIs(asks and may, options['delete_disks'])

        self.remove.reset_mock()
        self.removals.clean_up(self.instance, asks)
        self.assertIs(asks and may, self.remove.called)

    def test_all_of_a_server_goes_while_nothing_else_happens_to_it(self):
        def assert_locked(*_, **__):
            with (
                self.assertRaises(lockutils.AcquireLockFailedException),
                lockutils.lock(f'powervm-{uuids.instance}', blocking=False),
            ):
                pass

        self.remove.side_effect = assert_locked

        self.removals.destroy(self.instance, True, VOLUMES)

        _, options = self.remove.call_args
        (volume,) = options['volumes']
        self.assertEqual(uuids.volume, volume.id)
        self.deferred.forget.assert_called_once_with(self.instance)
        self.host.consoles.forget.assert_called_once_with(self.instance)
        self.host.networks.release_unused.assert_called_once()
