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

import contextlib
from unittest import mock

import ddt
from nova import exception as nova_exception
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import moves

STOPPED = exception.GuestStaysOff(reason='it is full', second='It is locked')
FULL = exception.MoveRefused(reason='it is full')


@ddt.ddt
class RefusedMoveTest(test.NoDBTestCase):
    @ddt.data((FULL, True), (STOPPED, False))
    @ddt.unpack
    def test_refusal_says_whether_guest_runs_on(self, error, continues):
        for name in (
            'instance_records.unchanged',
            'record_changes.drop_migration_context',
        ):
            self.stub_out(
                f'nova_powervm.virt.{name}',
                lambda _: contextlib.nullcontext(),
            )
        self.stub_out(
            'nova_powervm.virt.instance_volumes.refuse_move',
            mock.Mock(side_effect=error),
        )
        unused = mock.Mock()

        refused = self.assertRaises(
            nova_exception.InstanceFaultRollback,
            moves.Moves(*[unused] * 5).migrate_disk_and_power_off,
            None,
            objects.Instance(uuid=uuids.instance),
            *[unused] * 3,
        )

        message = str(refused.inner_exception)
        self.assertEqual(continues, 'continues as it was' in message, message)
