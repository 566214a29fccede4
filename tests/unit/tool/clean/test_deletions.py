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

"""Notifications as nova-compute sends them, with the driver "fake"."""

import threading
import unittest

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from nova_powervm.tool.clean import deletions
from tests import proofs


class DeletionsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], project='nova')
        self.topic = uuidutils.generate_uuid()
        self.transport = oslo_messaging.get_notification_transport(
            self.conf, url='fake://'
        )
        self.told = []
        self.asked = threading.Event()

    def tell(self):
        self.told.append(True)
        self.asked.set()

    def notify(self, event=deletions.EVENT, host='host1'):
        oslo_messaging.Notifier(
            self.transport,
            publisher_id=f'nova-compute:{host}',
            driver='messagingv2',
            topics=[self.topic],
        ).info({}, event, {'nova_object.data': {'uuid': 'instance-1'}})

    @proofs.proves('O13', 'O40')
    def test_deletion_on_this_node_is_told(self):
        server = deletions.listen(
            self.transport, self.topic, 'host1', self.tell
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        self.notify(host='host10')
        self.notify(event='instance.delete.start')
        self.notify(event='instance.create.end')
        self.notify()
        self.assertTrue(self.asked.wait(30))
        self.assertEqual([True], self.told)
