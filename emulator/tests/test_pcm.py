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

"""PCM preferences are read and changed, and samples come of them."""

import json

from pypowervm.tasks import scsi_mapper
from pypowervm.tasks.monitor import host_cpu
from pypowervm.tasks.monitor import util
from pypowervm.wrappers import monitor
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from . import wire

PCM = wire.UOM.replace('uom', 'pcm')
MONITORS = {
    'ltm_enabled': False,
    'aggregation_enabled': False,
    'stm_enabled': False,
    'compute_ltm_enabled': False,
}


class PreferencesTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.uuid = self.system().uuid
        self.path = f'pcm/ManagedSystem/{self.uuid}/preferences'

    def document(self, inner, kind='ManagedSystemPcmPreference'):
        return f'<{kind} xmlns="{PCM}">{inner}</{kind}>'

    def post(self, inner, **headers):
        headers = {'Content_Type': 'application/xml', **headers}
        return self.ask('POST', self.path, self.document(inner), **headers)

    def monitors(self):
        found = self.adapter.read_by_path(f'/rest/api/{self.path}')
        (wrapper,) = monitor.PcmPref.wrap(found)
        self.assertEqual(self.system().system_name, wrapper.system_name)
        return {name: getattr(wrapper, name) for name in MONITORS}

    def test_preferences_are_as_captured(self):
        (captured,) = (
            wire.contents(root)[0]
            for name, root in wire.captured()
            if name == 'pcm_pref.txt'
        )
        served = self.get(self.path).content
        self.assertEqual(captured.tag, served.tag)
        for one, other in zip(captured.iter(), served.iter(), strict=True):
            self.assertEqual(one.tag, other.tag)
            self.assertEqual(one.get('kb'), other.get('kb'), one.tag)

    def test_monitors_are_off_until_pypowervm_enables_them(self):
        self.assertEqual(MONITORS, self.monitors())
        util.ensure_ltm_monitors(
            self.adapter, self.uuid, override_to_default=True
        )
        self.assertEqual(
            MONITORS | {'ltm_enabled': True, 'aggregation_enabled': True},
            self.monitors(),
        )
        self.control.reset()
        self.assertEqual(MONITORS, self.monitors())

    def test_monitor_that_is_not_posted_stays(self):
        for name in ('LongTermMonitorEnabled', 'ComputeLTMEnabled'):
            answer = self.post(f'<{name}>true</{name}>')
            self.assertEqual(200, answer.status, answer.text)
        self.assertEqual(
            MONITORS | {'ltm_enabled': True, 'compute_ltm_enabled': True},
            self.monitors(),
        )

    def test_tag_changes_with_the_preferences(self):
        tag = self.get(self.path).headers['etag']
        same = self.ask('GET', self.path, If_None_Match=tag)
        self.assertEqual(304, same.status)
        inner = '<AggregationEnabled>true</AggregationEnabled>'
        self.assertEqual(200, self.post(inner, If_Match=tag).status)
        self.assertEqual(412, self.post(inner, If_Match=tag).status)
        self.assertNotEqual(tag, self.get(self.path).headers['etag'])

    def test_wrong_documents_change_nothing(self):
        for body, message in (
            ('<LongTermMonitorEnabled>on</LongTermMonitorEnabled>', 'true or'),
            (
                '<EnergyMonitorEnabled>true</EnergyMonitorEnabled>',
                'no element',
            ),
        ):
            with self.subTest(body):
                self.assert_refusal(self.post(body), message)
        self.assertEqual(MONITORS, self.monitors())

    def test_preferences_of_unknown_system_are_not_found(self):
        answer = self.ask('GET', self.path.replace(self.uuid, self.uuid[::-1]))
        self.assert_refusal(answer, 'REST029B ', status=404)

    def test_metrics_are_empty_while_monitors_are_off(self):
        self.assertEqual([], util.query_ltm_feed(self.adapter, self.uuid))
        for name in ('LongTermMonitor', 'ShortTermMonitor'):
            path = f'pcm/ManagedSystem/{self.uuid}/RawMetrics/{name}'
            self.assertEqual(204, self.ask('GET', path).status)


class MetricsTest(wire.WireTestCase):
    def setUp(self):
        super().setUp()
        self.uuid = self.system().uuid
        self.path = f'pcm/ManagedSystem/{self.uuid}/RawMetrics/LongTermMonitor'
        host = self.emulator._application._emulation.host
        self.now = (int(host.clock()) // 120 + 10) * 120 + 7
        host.clock = lambda: self.now

    def cache(self):
        return util.LparMetricCache(self.adapter, self.uuid)

    def metrics(self, name, cache=None):
        """Return the latest and the previous metric of a partition."""
        cache = cache or self.cache()
        (uuid,) = (
            one['uuid']
            for one in self.control.state()['systems'][0]['partitions']
            if one['name'] == name
        )
        (_, new), (_, old) = (
            cache.get_latest_metric(uuid),
            cache.get_previous_metric(uuid),
        )
        return new, old

    def files(self):
        """Return the names of the samples by category, the last one first."""
        found = {}
        for one in util.query_ltm_feed(self.adapter, self.uuid):
            found.setdefault(one.category, []).append(one.title)
        return {key: sorted(names)[::-1] for key, names in found.items()}

    def test_running_partition_has_a_quarter_of_its_processors_busy(self):
        for name, processors, units in (
            ('database', 4, 2),
            ('novalink', 2, 0.5),
        ):
            new, old = (one.processor for one in self.metrics(name))
            self.assertEqual(
                (processors, units), (new.virt_procs, new.proc_units)
            )
            entitled = new.entitled_proc_cycles - old.entitled_proc_cycles
            self.assertEqual(30 * units * 512_000_000, entitled)
            used = [
                one.util_cap_proc_cycles
                + one.util_uncap_proc_cycles
                - one.idle_proc_cycles
                - one.donated_proc_cycles
                for one in (new, old)
            ]
            self.assertAlmostEqual(0.25, (used[0] - used[1]) / entitled)

    def test_inactive_partition_uses_nothing(self):
        new, _ = self.metrics('archive')
        self.assertEqual(0, new.processor.entitled_proc_cycles)
        self.assertEqual(0, new.processor.util_cap_proc_cycles)
        self.assertEqual(4096, new.memory.logical_mem)
        self.assertEqual(100, new.memory.pct_real_mem_free)

    def test_memory_is_told_by_guests_with_rmc_only(self):
        cache = self.cache()
        memory = self.metrics('database', cache)[0].memory
        self.assertEqual(
            (16384, 16384 << 20, 50, 75),
            (
                memory.logical_mem,
                memory.real_mem_size_bytes,
                memory.pct_real_mem_free,
                memory.pct_real_mem_avbl,
            ),
        )
        self.control.set_partition('database', rmc_state='inactive')
        memory = self.metrics('database')[0].memory
        self.assertEqual(0, memory.pct_real_mem_free)

    def test_host_has_all_cycles_of_its_processors(self):
        cache = host_cpu.HostCPUMetricCache(self.adapter, self.uuid)
        sample = cache.cur_phyp.sample
        self.assertEqual(32, sample.processor.configurable_proc_units)
        self.assertEqual(262144, sample.memory.configurable_mem)
        before = cache.prev_phyp.sample.time_based_cycles
        self.assertEqual(30 * 512_000_000, sample.time_based_cycles - before)
        # Units of vios1, novalink and database, at a quarter.
        self.assertEqual(30 * 512_000_000 * 3.5 / 4, cache.total_user_cycles)
        self.assertLess(cache.total_fw_cycles, cache.total_cycles)
        self.assertEqual(['vios1'], [one.name for one in sample.vioses])

    def test_adapter_of_network_has_packets(self):
        client = self.create('vm1')
        (switch,) = network.VSwitch.get(self.adapter, parent=self.system())
        adapter = network.CNA.bld(self.adapter, 1, switch.related_href)
        made = adapter.create(parent=client)
        self.now += 120
        for running in (False, True):
            self.control.set_partition(
                'vm1', state='running' if running else 'not activated'
            )
            new, old = self.metrics('vm1')
            (adapter,), (before,) = new.network.cnas, old.network.cnas
            self.assertEqual(made.loc_code, adapter.physical_location)
            for name in ('received_bytes', 'sent_packets'):
                grown = getattr(adapter, name) - getattr(before, name)
                self.assertEqual(running, grown > 0)

    def test_adapter_of_disks_has_requests(self):
        client = self.create('vm1')
        (server,) = virtual_io_server.VIOS.get(self.adapter)
        (group,) = (
            one
            for one in storage.VG.get(self.adapter, parent=server)
            if one.name == 'image_pool'
        )
        for number in range(2):
            disk = storage.VDisk.bld(self.adapter, f'disk{number}', 1)
            group.virtual_disks.append(disk)
            group = group.update()
        for disk in group.virtual_disks:
            scsi_mapper.add_vscsi_mapping(None, server, client.uuid, disk)
        self.now += 120
        new, old = self.metrics('vm1')
        (adapter,), (before,) = new.storage.virt_adpts, old.storage.virt_adpts
        self.assertEqual('vhost0', adapter.name)
        self.assertLess(before.num_reads, adapter.num_reads)
        self.assertLess(before.write_bytes, adapter.write_bytes)

    def test_compute_monitor_leaves_servers_out(self):
        util.ensure_ltm_monitors(self.adapter, self.uuid)
        self.assertEqual({'phyp', 'lpar', 'vios_2'}, set(self.files()))
        util.ensure_ltm_monitors(self.adapter, self.uuid, compute_ltm=True)
        self.assertEqual({'phyp', 'lpar'}, set(self.files()))
        _, phyp, vioses, _ = util.latest_stats(self.adapter, self.uuid)
        self.assertEqual([], vioses)
        self.assertEqual({None}, {one.network for one in phyp.sample.lpars})
        self.assertEqual({None}, {one.storage for one in phyp.sample.lpars})

    def test_sample_comes_every_thirty_seconds(self):
        util.ensure_ltm_monitors(self.adapter, self.uuid)
        first = self.files()['phyp']
        self.assertEqual(10, len(first))
        self.now += 22
        self.assertEqual(first, self.files()['phyp'])
        self.now += 1
        self.assertEqual(first[:-1], self.files()['phyp'][1:])
        # Those of guests come every two minutes.
        self.assertEqual(3, len(self.files()['lpar']))

    def test_sample_is_json_as_long_as_the_feed_names_it(self):
        util.ensure_ltm_monitors(self.adapter, self.uuid)
        oldest = self.files()['phyp'][-1]
        self.assertRegex(
            oldest, r'^LTM_9009-22A\*EMU0001_phyp_\d{8}T\d{6}\+0000\.json$'
        )
        accept = {'Accept': 'application/json'}
        answer = self.ask('GET', f'{self.path}/{oldest}', **accept)
        sample = json.loads(answer.text)['systemUtil']
        self.assertEqual(
            ('9009-22A*EMU0001', 'LTM', 'Raw'),
            tuple(
                sample['utilInfo'][key]
                for key in ('mtms', 'monitoringType', 'metricType')
            ),
        )
        self.assertEqual('application/json', answer.headers['content-type'])
        self.now += 30
        for name in (oldest, 'LTM_x.json'):
            answer = self.ask('GET', f'{self.path}/{name}', **accept)
            self.assert_refusal(answer, 'REST029B ', status=404)
