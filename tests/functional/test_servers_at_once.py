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

"""Several servers at once get different devices, by the scheduler's filter."""

import concurrent.futures
import threading

import fixtures
from nova import context as nova_context
from nova import objects
from nova.scheduler.client import report
from oslo_utils import uuidutils

from demo import config
from powervm_emulator import worlds
from tests import proofs
from tests.functional import base

INVENTORY = (
    base.GPUS
    + """\
once:
  identification: {vendor_id: "10DE", device_id: "1EB8"}
  resource_class: CUSTOM_T4
  one_time_use: true
"""
)

#: A class of devices that the driver does not publish.
MANY = {'resources1:CUSTOM_CARD': '1'}


def world(gpus, once=0):
    """Return a world with free GPUs, and with devices for one-time use."""
    document = worlds.default()
    (system,) = document['systems']
    (gpu,) = (s for s in system['slots'] if s['drc_index'] == '21010020')
    others = [s for s in system['slots'] if s.get('device_id') != '1DB6']
    devices = ['1DB6'] * gpus + ['1EB8'] * once
    system['slots'] = others + [
        gpu
        | {
            'drc_index': f'{0x22000000 + number:08X}',
            'drc_name': f'U78D2.001.EMU0002-P2-C{number}',
            'device_id': device_id,
        }
        for number, device_id in enumerate(devices)
    ]
    return document


def groups(number, rc='CUSTOM_GPU'):
    """Return extra specs that request a number of devices."""
    return {
        f'resources{group}:{rc}': '1' for group in range(1, number + 1)
    } | {'group_policy': 'isolate'}


class ServersAtOnceTestCase(base.PowerVMTestCase):
    """Has the filter in Nova's scheduler, as the demonstration has it."""

    inventory = INVENTORY

    def setUp(self):
        self.flags(
            available_filters=['nova_powervm.scheduler.filters.all_filters'],
            enabled_filters=config.FILTERS,
            group='filter_scheduler',
        )
        super().setUp()
        self.scheduled = []

    def forget(self):
        super().forget()
        self.release()

    def release(self):
        """Free what was allocated to servers that are not built."""
        for uuid in self.scheduled:
            self.placement.delete(f'/allocations/{uuid}')
        self.scheduled.clear()

    # Scheduling without building

    def schedule(self, extra_specs, servers=1):
        """Have Nova's scheduler find hosts for the servers of a request.

        :returns: The providers that are allocated to each server, but for
            that of the compute node.
        :raises nova.exception.NoValidHost: It found none for one of them.
        """
        uuids = [uuidutils.generate_uuid() for _ in range(servers)]
        context = nova_context.get_admin_context()
        selected = self.scheduler_service.manager.select_destinations(
            context,
            spec_obj=self._request(context, uuids, extra_specs),
            instance_uuids=uuids,
            return_objects=True,
            return_alternates=True,
        )
        self.scheduled += uuids
        return [
            set(self._get_allocations_by_server_uuid(uuid))
            - {alternatives[0].compute_node_uuid}
            for uuid, alternatives in zip(uuids, selected, strict=True)
        ]

    def _request(self, context, uuids, extra_specs):
        self.flavors += 1
        name = str(1000 + self.flavors)
        self._create_flavor(id=name, name=name, extra_spec=extra_specs, disk=0)
        return objects.RequestSpec.from_components(
            context,
            uuids[0],
            objects.ImageMeta.from_dict({}),
            objects.Flavor.get_by_flavor_id(context, name),
            None,
            objects.InstancePCIRequests(requests=[]),
            {},
            None,
            None,
            project_id=self.api.project_id,
            user_id='user',
        )

    def schedule_together(self, extra_specs, requests):
        """Schedule a server by each of several requests at the same time.

        None of them claims before Placement has answered all.

        :returns: The providers that are allocated to each server.
        """
        ask = report.SchedulerReportClient.get_allocation_candidates
        answered = threading.Barrier(requests)

        def ask_and_wait(*args):
            answer = ask(*args)
            answered.wait(60)
            return answer

        with (
            fixtures.MockPatchObject(
                report.SchedulerReportClient,
                'get_allocation_candidates',
                ask_and_wait,
            ),
            concurrent.futures.ThreadPoolExecutor(requests) as pool,
        ):
            parts = pool.map(self.schedule, [extra_specs] * requests)
            return [devices for (devices,) in parts]

    def assert_different(self, allocated, servers, each=1):
        """Assert that servers share no device."""
        self.assertEqual([each] * servers, [len(d) for d in allocated])
        self.assertEqual(servers * each, len(set().union(*allocated)))


class OneHostTest(ServersAtOnceTestCase):
    """A host with eight GPUs, and three devices for one-time use."""

    def setUp(self):
        super().setUp()
        self.start_host(world=world(8, once=3))

    def test_servers_at_once_get_different_devices(self):
        self.tell_stories()

    def boot_at_once(self, extra_specs, number):
        """Boot servers by one request; return them."""
        request = {'min_count': number, 'max_count': number}
        self.boot(extra_specs, request=request)
        servers = [
            self._wait_until_built(server['id'])
            for server in self.api.get_servers()
        ]
        self._booted[:] = [server['id'] for server in servers]
        self.assertEqual(
            ['ACTIVE'] * number, [server['status'] for server in servers]
        )
        return servers

    @proofs.proves('device.several-servers')
    def story_request_for_three_servers_burns_three_devices(self):
        servers = self.boot_at_once(
            base.gpu_groups(1)
            | {'resources2:CUSTOM_T4': '1', 'group_policy': 'none'},
            3,
        )

        slots = [self.allocated_slots(server) for server in servers]
        self.assert_different(slots, 3, 2)
        self.assertEqual(
            [dict.fromkeys(found, True) for found in slots],
            [self.lpar(server).slots for server in servers],
        )
        burned = self.burned()
        self.assertEqual(
            [1] * 3, [len(burned.intersection(found)) for found in slots]
        )
        self.assertEqual(3, len(burned))

    def burned(self):
        """Return the DRC indexes whose providers are reserved."""
        return {
            index
            for index, provider in self.slot_providers().items()
            for record in self._get_provider_inventory(
                provider['uuid']
            ).values()
            if record['reserved']
        }

    @proofs.proves('device.several-servers')
    def story_servers_with_two_devices_share_none(self):
        self.assert_different(self.schedule(groups(2), 4), 4, 2)
        self.release()
        self.assert_different(self.schedule_together(groups(2), 4), 4, 2)

    @proofs.proves('device.several-servers')
    def story_ten_requests_at_same_time_find_devices_of_50(self):
        self.add_cards(50)

        self.assert_different(self.schedule_together(MANY, 10), 10)

    def add_cards(self, number):
        """Add providers of other devices to the host."""
        self.placement.put('/resource_classes/CUSTOM_CARD', {}, version='1.7')
        root = self._get_provider_uuid_by_host('host1')
        for card in range(number):
            created = self.placement.post(
                '/resource_providers',
                {'name': f'card {card}', 'parent_provider_uuid': root},
                version='1.20',
            ).body
            self.placement.put(
                f'/resource_providers/{created["uuid"]}/inventories',
                {
                    'resource_provider_generation': created['generation'],
                    'inventories': {'CUSTOM_CARD': {'total': 1}},
                },
                version='1.26',
            )
