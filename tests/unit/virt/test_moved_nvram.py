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

"""What of an NVRAM gets to the destination of a move, and what into logs."""

from unittest import mock

import ddt
import fixtures
import oslo_messaging
from nova import context as nova_context
from nova import exception_wrapper
from nova import objects
from nova import rpc
from nova.objects import base as objects_base
from oslo_config import cfg
from oslo_serialization import jsonutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.virt import moved_nvram
from tests.unit.virt import base

NVRAM = 'cGFzc3dvcmQ9ZWFzeQ==\ncGFzc3dvcmQ='
LONGEST = 'A' * moved_nvram.LONGEST


class NvramTestCase(base.NoDBTestCase):
    """An instance, and what its host has as its NVRAM."""

    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(uuid=uuids.instance)
        self.logger = self.useFixture(fixtures.FakeLogger(level=0))

    def hand_over(self, nvram):
        """Return the disk_info, as it is for the destination."""
        partitions = mock.Mock()
        partitions.nvram.side_effect = [nvram]
        made = moved_nvram.hand_over(partitions, self.instance)
        serializer = objects_base.NovaObjectSerializer()
        sent = jsonutils.dumps(serializer.serialize_entity(None, made))
        return serializer.deserialize_entity(None, jsonutils.loads(sent))

    def take_out(self, disk_info):
        """Take the NVRAM out of a disk_info."""
        return moved_nvram.take_out(disk_info, self.instance)


@ddt.ddt
class CodingTest(NvramTestCase):
    @ddt.data(NVRAM, LONGEST)
    def test_nvram_arrives_and_is_nowhere_else(self, nvram):
        disk_info = self.hand_over(nvram)
        self.assertEqual(nvram, self.take_out(disk_info))
        self.assertEqual({}, disk_info)
        self.assertEqual('', self.logger.output)

    @ddt.data(None, '')
    def test_host_without_nvram_hands_over_nothing(self, nvram):
        self.assertEqual({}, self.hand_over(nvram))
        self.assertEqual('', self.logger.output)

    @ddt.data('', None, {}, {'of another': 'version'}, ['nvram_secret'])
    def test_source_may_hand_over_none(self, disk_info):
        """Earlier versions passed an empty text."""
        self.assertIsNone(self.take_out(disk_info))
        self.assertEqual('', self.logger.output)

    @ddt.named_data(
        ['too long', LONGEST + '/', '262145 characters, and 262144 are'],
        ['no base64', 'password=easy&', 'not a text in base64'],
        ['not for XML', 'c\x0bA', 'not a text in base64'],
        ['no text', 4711, 'not a text in base64'],
    )
    def test_unusable_nvram_stays_behind_with_a_warning(self, nvram, reason):
        """Neither side trusts what the other one sends."""
        self.assertEqual({}, self.hand_over(nvram))
        disk_info = {'nvram_secret': nvram}
        self.assertIsNone(self.take_out(disk_info))
        self.assertEqual({}, disk_info)
        self.assertEqual(2, self.logger.output.count(reason))
        self.assertNotIn(str(nvram), self.logger.output)

    @ddt.data(
        exception.RestUnreachable(server='host', reason='cut off'),
        RuntimeError('cut off'),
    )
    def test_nvram_that_cannot_be_read_holds_up_no_move(self, error):
        self.assertEqual({}, self.hand_over(error))
        self.assertIn('does not move with it', self.logger.output)
        self.assertIn('cut off', self.logger.output)

    @ddt.data((NVRAM, 1), (None, 0))
    @ddt.unpack
    def test_log_says_that_a_failed_end_loses_the_nvram(self, nvram, lines):
        for error in (None, exception.MoveRefused(reason='it is full')):
            failing = mock.Mock(side_effect=error)
            try:
                with moved_nvram.lost_on_error(nvram, self.instance):
                    failing()
            except exception.MoveRefused as raised:
                self.assertIs(error, raised)
        found = self.logger.output.count('The NVRAM of the instance is lost')
        self.assertEqual(lines, found)


class Manager:
    """What fails in a finish_resize of Nova's."""

    def __init__(self, fail):
        self.fail = fail

    @exception_wrapper.wrap_exception('compute', 'nova-compute')
    def finish_resize(self, context, disk_info):
        """Fail as Nova's own would."""
        self.fail(disk_info)
        raise ZeroDivisionError


class NotificationTest(NvramTestCase):
    """Nova sends the arguments of a finish_resize that fails to all."""

    def notify(self, fail):
        """Have a finish_resize fail; return what the log has of it."""
        transport = oslo_messaging.get_notification_transport(
            cfg.ConfigOpts(), url='fake:/'
        )
        notifier = oslo_messaging.Notifier(
            transport, publisher_id='compute', driver='log', topics=['nova']
        )
        self.stub_out(f'{rpc.__name__}.get_notifier', lambda _: notifier)
        disk_info = self.hand_over(NVRAM)
        self.assertRaises(
            ZeroDivisionError,
            Manager(fail).finish_resize,
            nova_context.get_admin_context(),
            disk_info,
        )
        self.assertIn('"disk_info": ', self.logger.output)
        self.assertNotIn('cGFzc3dvcmQ', self.logger.output)
        return self.logger.output

    def test_notification_of_failed_driver_has_no_nvram(self):
        self.assertNotIn('nvram_secret', self.notify(self.take_out))

    def test_earlier_notification_has_the_nvram_masked(self):
        found = self.notify(lambda disk_info: None)
        self.assertIn('"nvram_secret": "***"', found)
