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

"""Events of refused operations."""

import ddt
import oslo_messaging
from nova import context
from nova import exception as nova_exception
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.virt import errors


@ddt.ddt
class ActionEventTest(test.NoDBTestCase):
    @ddt.named_data(
        ['conductor timeout', oslo_messaging.MessagingTimeout(), True],
        [
            'no action',
            nova_exception.InstanceActionNotFound(
                request_id='r', instance_uuid='i'
            ),
            False,
        ],
    )
    def test_failed_record_raises_nothing(self, error, is_logged):
        def fail(*args, **kwargs):
            raise error

        self.stub_out('nova.objects.InstanceActionEvent.event_start', fail)

        errors.record_failure(
            context.get_admin_context(),
            objects.Instance(uuid=uuids.instance, host='host1'),
            'powervm_reboot',
            nova_exception.NovaException('refused'),
        )

        self.assertEqual(
            is_logged,
            'Event powervm_reboot cannot be recorded'
            in self.stdlog.logger.output,
        )
