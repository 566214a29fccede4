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

"""The sample listener, with oslo.messaging's fake driver."""

import importlib.util
import json
import os
import pathlib
import tempfile
import threading
import unittest

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

_PATH = pathlib.Path(__file__).parents[3] / 'tools' / 'clean_and_release.py'
_SPEC = importlib.util.spec_from_file_location('clean_and_release', _PATH)
sample = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sample)

#: Stands for nova-powervm-inventory: what waits is a file for each slot.
INVENTORY = """\
#!/bin/sh
cd "$(dirname "$0")/waiting" || exit 4
if [ "$2" = -f ]; then
    echo "["
    first=yes
    for slot in *; do
        [ "$slot" = "*" ] && break
        [ $first = yes ] || echo ","
        first=no
        echo "{\\"Slot\\": \\"$slot\\", \\"State\\": \\"needs cleaning\\"}"
    done
    echo "]"
else
    [ "$1 $3" = "release --yes" ] || exit 2
    rm "$2"
fi
"""
#: Cleans all but one slot, and keeps a list.
CLEAN = """\
#!/bin/sh
echo "$*" >> "$(dirname "$0")/cleaned"
[ "$2" != 21010021 ]
"""


class CleanTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / 'waiting').mkdir()
        self.inventory = self.script('inventory', INVENTORY)
        self.clean = self.script('clean', CLEAN)

    def script(self, name, text):
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def use(self, *slots):
        for slot in slots:
            (self.directory / 'waiting' / slot).touch()

    def waiting(self):
        return sorted(os.listdir(self.directory / 'waiting'))

    def cleaned(self):
        path = self.directory / 'cleaned'
        return path.read_text().splitlines() if path.exists() else []

    def rounds(self, clean=None, **options):
        return sample.Rounds(
            [clean or self.clean, 'wipe'], [self.inventory], **options
        )


class RoundTest(CleanTestCase):
    def test_round_cleans_nothing_without_waiting_slots(self):
        self.rounds().once()
        self.assertEqual([], self.cleaned())

    def test_cleaned_slots_are_released(self):
        self.use('21010020', '21010022')
        self.rounds().once()
        self.assertEqual(['wipe 21010020', 'wipe 21010022'], self.cleaned())
        self.assertEqual([], self.waiting())

    def test_slot_that_fails_to_clean_stays_reserved(self):
        self.use('21010020', '21010021', '21010022')
        with self.assertLogs(sample.LOG, 'ERROR') as logs:
            self.rounds().once()
        self.assertEqual(['21010021'], self.waiting())
        self.assertIn('21010021 was not cleaned', logs.output[-1])

    def test_missing_clean_command_is_logged(self):
        self.use('21010020')
        with self.assertLogs(sample.LOG, 'ERROR') as logs:
            self.rounds(clean='/nowhere').once()
        self.assertIn('/nowhere can not be run', logs.output[0])
        self.assertEqual(['21010020'], self.waiting())

    def test_failing_inventory_command_is_logged(self):
        os.rmdir(self.directory / 'waiting')
        with self.assertLogs(sample.LOG, 'ERROR') as logs:
            self.rounds().once()
        self.assertIn('exit code 4', logs.output[0])


class ListenTest(CleanTestCase):
    """Notifications as nova-compute sends them."""

    def setUp(self):
        super().setUp()
        conf = cfg.ConfigOpts()
        conf([], project='nova')
        self.transport = oslo_messaging.get_notification_transport(
            conf, url='fake://'
        )
        self.topic = uuidutils.generate_uuid()
        self.asked = threading.Event()

    def start(self, rounds):
        server = sample.listen(self.transport, self.topic, 'host1', rounds)
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)

    def notify(self, event='instance.delete.end', host='host1'):
        oslo_messaging.Notifier(
            self.transport,
            publisher_id=f'nova-compute:{host}',
            driver='messagingv2',
            topics=[self.topic],
        ).info({}, event, {'nova_object.data': {'uuid': 'instance-1'}})

    def test_deletion_triggers_round(self):
        rounds = self.rounds(interval=600, delay=0)
        self.use('21010022')
        thread = threading.Thread(target=rounds.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(rounds.stop)
        self.start(rounds)
        self.wait_until_released()
        self.use('21010020')

        self.notify()

        self.wait_until_released()
        self.assertEqual(['wipe 21010022', 'wipe 21010020'], self.cleaned())

    def wait_until_released(self):
        for _ in range(600):
            if not self.waiting():
                return
            self.asked.wait(0.05)
        self.fail(json.dumps(self.waiting()))

    def test_unrelated_notifications_trigger_no_round(self):
        asked = []

        class Rounds:
            def ask(rounds):
                asked.append(True)
                self.asked.set()

        self.start(Rounds())
        self.notify(host='host10')
        self.notify(event='instance.delete.start')
        self.notify(event='instance.create.end')
        self.notify()
        self.assertTrue(self.asked.wait(30))
        self.assertEqual([True], asked)
