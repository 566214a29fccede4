import time
from keystoneauth1 import adapter
from nova_powervm.tool.inventory import placement_client as pc

from oslo_utils import uuidutils

from tests.functional import test_commands


class MeasureTest(test_commands.CommandTestCase):
    def setUp(self):
        super().setUp()
        self.start_host()

    def test_measure(self):
        root = self._get_provider_uuid_by_host('host1')
        have = self.slot_providers()
        model = next(iter(have.values()))['uuid']
        traits = sorted(self._get_provider_traits(model))
        inventory = self._get_provider_inventory(model)
        for number in range(256 - len(have)):
            uuid = uuidutils.generate_uuid()
            self.placement.post('/resource_providers', {
                'name': f'PowerVM IOSlot host1 {0x31000000 + number:08X}',
                'parent_provider_uuid': root, 'uuid': uuid}, version='1.20')
            self.placement.put(f'/resource_providers/{uuid}/inventories', {
                'resource_provider_generation': 0, 'inventories': inventory})
            self.set_traits(uuid, traits)
        real = adapter.Adapter.get
        def slow(self, *a, **k):
            time.sleep(adapter.Adapter.delay)
            return real(self, *a, **k)
        adapter.Adapter.get = slow
        for delay in (0, 0.02):
            adapter.Adapter.delay = delay
            for pc.CONNECTIONS in (1, 8):
                for command in ('diff', 'show', 'release'):
                    cpu, start = time.process_time(), time.monotonic()
                    code, out, err = self.run_command(command, '-f', 'json')
                    print('delay', delay, 'connections', pc.CONNECTIONS, command, code, len(out), round(time.monotonic() - start, 2), 's wall', round(time.process_time() - cpu, 2), 'cpu', err[-100:], flush=True)
