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

"""What the commands and nova-compute tell of the devices of a host."""

import os
import pathlib
import stat
import time

import fixtures
from oslo_utils import timeutils
from oslo_utils import uuidutils

from tests import proofs
from tests.functional import base
from tests.functional import move_sites
from tests.functional import test_quarantine
from tests.promtool import queries

_OTHER = {
    'description': '3D Controller',
    'vendor_id': '10DE',
    'device_id': '20B5',
    'class': '0302',
}


def slots_of(text, name):
    """Return state and reason of slots to their number, for all classes."""
    counts = {}
    for sample in queries.samples(text):
        if sample.name == name:
            key = tuple(
                sample.labels[label]
                for label in ('resource_class', 'state', 'reason')
            )
            counts[key] = counts.get(key, 0) + int(sample.value)
    return counts


def shapes(found):
    """Return the names of metrics with their labels, and each kind."""
    return {
        (each.name, *sorted(each.labels), each.labels.get('kind'))
        for each in found
    }


class WatchingTest(test_quarantine.QuarantineTestCase):
    """Watches a host with four GPUs and two one-time-use drives."""

    def test_devices_are_told_of(self):
        self.tell_stories()

    def row(self, index, *command, **options):
        """Return the row of a slot."""
        _, rows = self.rows(*command, **options)
        (row,) = [row for row in rows if row['Slot'] == f'{index:08X}']
        return row

    # Replaced cards

    def story_card_of_other_ids_is_named(self):
        server = self.boot(base.gpu_groups(1))
        (index,) = self.allocated_slots(server)
        self._stop_server(server)
        self.control().pull(f'{index:08X}')
        self.control().plug(f'{index:08X}', _OTHER)
        ids = 'device_id was 1DB6, and is 20B5'
        try:
            self.assertIn(ids, self.row(index, 'show')['Replacement'])
            self.assertIn(f'another card: {ids}', str(self.rows('show')))
            code, rows = self.rows('diff')
            self.assertEqual(3, code)
            (row,) = [row for row in rows if row['Kind'] == 'replaced']
            self.assertEqual(
                (f'{index:08X}', True),
                (row['Slot'], ids in row['Difference']),
            )
        finally:
            self._delete_server(server)
            self.control().pull(f'{index:08X}')
            self.plug_gpu(f'{index:08X}')
            self._run_periodics()
        self.assertIsNone(self.row(index, 'show')['Replacement'])

    # Metrics

    def metrics(self, *options):
        """Return the slots in the metrics of the command."""
        code, out, err = self.run_command('metrics', *options)
        self.assertEqual((0, ''), (code, err))
        return slots_of(out, 'powervm_slots')

    def story_slot_is_counted_once_in_its_state(self):
        gpu, scratch = move_sites.GPU, move_sites.SCRATCH
        foreign = (
            self.metrics().items()
            - {
                (gpu, 'offered', ''): 4,
                (scratch, 'offered', ''): 2,
            }.items()
        )
        self.assertEqual({'foreign'}, {state for (_, state, _), _ in foreign})
        self.boot(base.gpu_groups(1))
        gpus = self.gpus()
        free = [i for i in gpus if self.slot_owner(i) is None]
        providers = self.slot_providers()
        nobody = uuidutils.generate_uuid()
        self.allocate(nobody, {providers[free[0]]['uuid']: {gpu: 1}})
        self.act('quarantine', f'{free[1]:08X}', '--reason', 'SUSPECT')
        self.reserve(providers[free[2]]['uuid'], gpu, 1)
        burned = self.of_class(scratch)[0]
        self.reserve(providers[burned]['uuid'], scratch, 1)

        found = self.metrics()
        self.allocate(nobody, {})
        self.assertEqual(
            {
                (gpu, 'attached', ''): 1,
                (gpu, 'allocated', ''): 1,
                (gpu, 'quarantined', 'SUSPECT'): 1,
                (gpu, 'withdrawn', 'reserved'): 1,
                (scratch, 'burned', ''): 1,
                (scratch, 'offered', ''): 1,
                **dict(foreign),
            },
            found,
        )

    @proofs.proves('device.metrics')
    def story_metrics_have_the_labels_of_the_recorded_ones(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'm.prom')
        with open(path, 'w') as file:
            file.write('old')
        os.chmod(path, 0o600)
        code, out, err = self.run_command('metrics', '--output', path)
        self.assertEqual((0, '', ''), (code, out, err))
        self.assertEqual(0o644, stat.S_IMODE(os.stat(path).st_mode))
        self.assertEqual(['m.prom'], os.listdir(os.path.dirname(path)))
        self.assertEqual(
            {s for s in shapes(queries.recorded()) if 'service' not in s[0]},
            shapes(queries.samples(pathlib.Path(path).read_text())),
        )

    def service_metrics(self):
        """Start nova-compute with a file for its metrics; return its path."""
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory, 'service.prom')
        self.restart_host(metrics_file=str(path))
        self._run_periodics()
        return path

    def story_service_writes_what_its_cycle_knows(self):
        server = self.boot(base.gpu_groups(1))
        path = self.service_metrics()
        text = path.read_text()
        self.assertEqual(0o644, stat.S_IMODE(path.stat().st_mode))
        self.assertEqual([path], [*path.parent.iterdir()])
        found = slots_of(text, 'powervm_service_slots')
        self.assertEqual(
            (1, 3),
            tuple(
                found[move_sites.GPU, state, '']
                for state in ('attached', 'offered')
            ),
        )
        self.assertEqual(
            {s for s in shapes(queries.recorded()) if 'service' in s[0]},
            shapes(queries.samples(text)),
        )
        # What Nova publishes beside its cycle tells nothing new.
        self._delete_server(server)
        self.assertEqual(text, path.read_text())
        self._run_periodics()
        self.assertNotEqual(text, path.read_text())

    def story_unwritable_file_costs_one_warning_and_no_cycle(self):
        path = self.service_metrics()
        path.unlink()
        path.mkdir()
        self.plug_gpu('21010040')
        for _ in range(2):
            self._run_periodics()
        self.assertIn(0x21010040, self.slot_providers())
        (warning,) = [
            line
            for line in self.logged().splitlines()
            if 'metrics cannot be' in line
        ]
        self.assertIn(f'to {path}: Is a directory. Each cycle', warning)
        path.rmdir()
        self._run_periodics()
        self.assertIn('powervm_service_slots', path.read_text())
        self.control().pull('21010040')

    # Servers

    def story_table_tells_which_server_uses_which_card(self):
        scratch = move_sites.SCRATCH
        group = {'resources1:' + scratch: '1'}
        server = self.boot(group)
        (index,) = self.allocated_slots(server)
        lpar = server['OS-EXT-SRV-ATTR:instance_name']
        row = self.row(index, 'show', '--servers')
        self.assertEqual(
            {'Slot', 'Location', 'Device', 'Server', 'Availability'}, {*row}
        )
        self.assertEqual(
            (server['id'], f'allocated to {lpar}'),
            (row['Server'], row['Availability']),
        )
        burned = self.row(index, 'show')['Burned At']

        time.sleep(1.1)
        self._delete_server(server)
        self.read_anew()

        row = self.row(index, 'show', '--servers')
        self.assertEqual(
            (None, f'needs cleaning, burned {burned} UTC'),
            (row['Server'], row['Availability']),
        )
        at = timeutils.parse_strtime(burned, '%Y-%m-%d %H:%M:%S')
        self.assertLess(
            abs(timeutils.delta_seconds(at, timeutils.utcnow())), 60
        )
        _, rows = self.rows('show', '--servers')
        told = {row['Availability'] for row in rows}
        self.assertLessEqual({'free', 'not offered: the slot is empty'}, told)
        self.assertIsNone(self.row(self.gpus()[0], 'show')['Burned At'])
        code, out, err = self.run_command('show', '--servers')
        self.assertEqual((0, ''), (code, err))
        self.assertLessEqual(
            {len(line) for line in out.splitlines()}, {*range(121)}
        )

    def story_servers_are_not_told_without_placement(self):
        code, out, err = self.run_command(
            'show', '--servers', '--no-placement'
        )
        self.assertEqual((1, ''), (code, out))
        self.assertIn('only Placement knows the servers', err)
