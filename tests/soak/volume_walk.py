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

"""A random walk over two hosts with volumes of real Cinder.

It has some of the steps of the walk that it is based on. Between two steps all
servers run, and Nova, Cinder, the array and the Virtual I/O Servers have to
agree on who has which volume.
"""

import base64
import contextlib
import dataclasses
import re
import time

from nova import context as nova_context
from nova.db.main import api as main_db
from nova.tests.functional.api import client
from pypowervm.tasks import hdisk

from demo import volume_world
from emulator.tests import base as emulator_base
from nova_powervm.lpar import volumes as lpar_volumes
from tests.functional import one_time_use
from tests.functional import real_cinder
from tests.soak import host_walk

host_of = host_walk.host_of

_MAX_SERVERS = 6
_MAX_VOLUMES = 3
_ARRAY = b'3IBM'
#: The log tells of disks that stay, and how to remove them.
_STAYS = re.compile('Virtual I/O Server (\\S+) may keep .* `rmdev -dev`')
_DOWN = 'vios2'
#: What befalls one request to a Virtual I/O Server. An answer that is lost
#: after an attachment began to be undone is a case of the sweeps.
_FAULTS = (
    {'status': 412, 'method': 'POST'},
    {'status': 401},
    {'status': 500},
    {'drop': True},
)


@dataclasses.dataclass
class _Volume:
    """A volume as it should be.

    :ivar data: Its first bytes.
    :ivar size: In GiB.
    :ivar server: The id of the server that has it, or None.
    :ivar is_root: Whether that server boots from it.
    :ivar is_deleted: Whether it is deleted with that server.
    """

    data: bytes
    size: int = 1
    server: str | None = None
    is_root: bool = False
    is_deleted: bool = False


class VolumeWalkTest(host_walk.HostWalkTest):
    """Two hosts with two Virtual I/O Servers each, and one array."""

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True, shelved_offload_time=0)
        self.flags(max_attempts=1, group='scheduler')
        self.cinder = self.useFixture(real_cinder.RealCinder(self))
        # By their ids; the numbers make their first bytes differ.
        self.volumes = {}
        self.made = 0
        self.rescue_image = self.create_image(b'\x01rescue' + bytes(4096))

    def make_world(self, host):
        """Return a world with a machine's own ports."""
        world = volume_world.make()
        (system,) = world['systems']
        for slot in system['slots']:
            for port in slot.get('fibre_channel_ports', ()):
                port['wwpn'] = _wwpn(port['wwpn'], host)
        return world

    def rules(self):
        """Return the steps, and how often each is chosen."""
        return (
            (self.boot_somewhere, 2),
            (self.boot_with_a_fault, 1),
            (self.boot_from_volume, 3),
            (self.boot_from_volume_with_a_fault, 1),
            (self.attach_one, 4),
            (self.attach_with_a_fault, 2),
            (self.attach_to_stopped, 1),
            (self.detach_one, 2),
            (self.detach_with_a_fault, 2),
            (self.extend_one, 2),
            (self.delete_volume, 1),
            (self.lose_paths, 1),
            (self.act_without_a_vios, 3),
            (self.delete_one, 2),
            (self.rebuild_one, 1),
            (self.reboot_one, 1),
            (self.rescue_one, 1),
            (self.shelve_one, 1),
            (self.resize_one, 2),
            (self.migrate_one, 1),
            (self.evacuate_one, 2),
            (self.release_one, 2),
            (self.restart, 1),
            (self.kill_while_it_builds, 1),
        )

    # Servers

    def boot_somewhere(self, host=None, expected=None):
        if len(self.servers) >= _MAX_SERVERS:
            return None
        return super().boot_somewhere(host, expected)

    def boot_from_volume(self, faults=()):
        """Boot a server from a volume, with or without a device or another."""
        if len(self.servers) >= _MAX_SERVERS:
            return None
        host = self.random.choice(host_walk.HOSTS)
        index = self.random.choice([None, *self.slots])
        free = index is None or self._has_room(host, index)
        disks = [self._create(is_root=True)]
        if self.random.random() < 0.5:
            disks.append(self._create())
        is_deleted = self.random.random() < 0.5
        with self._faults(host, faults):
            server = self.boot(
                {} if index is None else one_time_use.gpu_group(index),
                expected=None,
                image='',
                request={
                    'host': host,
                    'block_device_mapping_v2': [
                        {
                            'source_type': 'volume',
                            'destination_type': 'volume',
                            'uuid': volume,
                            'boot_index': -number,
                            'delete_on_termination': is_deleted,
                        }
                        for number, volume in enumerate(disks)
                    ],
                },
            )
        told = f'{host} {index and f"{index:08X}"} {server["status"]}'
        if server['status'] == 'ACTIVE':
            self.assertTrue(free, self.steps)
            self._is_built(server, host)
            for volume in disks:
                self.volumes[volume].server = server['id']
                self.volumes[volume].is_deleted = is_deleted
        else:
            self.assertTrue(faults or not free, server['fault'])
            self.wait_until_unallocated(server)
            self.assertIsNone(self.lpar(server, host), self.steps)
            self._delete_server(server)
            if index is not None and free:
                self.touched(host, index)
            for volume in disks:
                if is_deleted:
                    # Nova deletes what it has attached, and no others.
                    self._await_end(volume)
                else:
                    self.volumes[volume].is_root = False
        return f'{told} {len(disks)} {is_deleted}'

    def boot_from_volume_with_a_fault(self):
        fault = self._choose_fault(16)
        told = self.boot_from_volume([fault])
        return told and f'{told} {fault}'

    def delete_one(self):
        told = super().delete_one()
        if told is not None:
            self._is_deleted(told)
        return told

    def rebuild_one(self):
        server = self._pick(self._with_disks())
        if server is None:
            return None
        self._rebuild_server(server, self.image)
        return server['id']

    def rescue_one(self):
        """Rescue a server; one that boots from a volume is refused."""
        server = self._pick(self.servers.values())
        if server is None:
            return None
        body = {'rescue': {'rescue_image_ref': self.rescue_image}}
        if self._root(server):
            self.assertRaises(
                client.OpenStackApiException,
                self.api.post_server_action,
                server['id'],
                body,
            )
            return f'{server["id"]} refused'
        self.api.post_server_action(server['id'], body)
        self._wait_for_state_change(server, 'RESCUE')
        self._check_volumes()
        self.api.post_server_action(server['id'], {'unrescue': None})
        self._await_active(server)
        return server['id']

    def shelve_one(self):
        """Shelve a server that boots from a volume, and unshelve it."""
        server = self._pick(
            one
            for one in self.servers.values()
            if self._root(one) and not self.allocated_slots(one)
        )
        if server is None:
            return None
        self.api.post_server_action(server['id'], {'shelve': None})
        self._wait_for_state_change(server, 'SHELVED_OFFLOADED')
        self.assertIsNone(self.lpar(server, host_of(server)), self.steps)
        self._check_volumes(shelved=server['id'])
        self.api.post_server_action(server['id'], {'unshelve': None})
        found = self._await_active(server)
        self.servers[server['id']] = found
        return f'{server["id"]} {host_of(server)} {host_of(found)}'

    # Moves

    def resize_one(self):
        """Resize a server within its host, if it has no volumes."""
        server = self._pick(self.servers.values())
        if server is None:
            return None
        held = self._volumes_of(server)
        flavor = self.make_flavor(memory_mb=1024, disk=0)
        body = {'resize': {'flavorRef': flavor}}
        self.control(host_of(server)).clear_journal()
        with self._only(host_of(server)):
            if held:
                event = self._act(
                    server,
                    lambda: self.api.post_server_action(server['id'], body),
                    'compute_resize_instance',
                )
                self.assertIn('moves no volumes yet', event['details'])
                self._await_active(server)
                self.assertEqual([], self.jobs(host_of(server)), self.steps)
                return f'{server["id"]} refused'
            self.api.post_server_action(server['id'], body)
            self._wait_for_state_change(server, 'VERIFY_RESIZE')
            self._attach(server, self._create(), 'error')
            self._check_volumes()
            end = self.random.choice(('confirmResize', 'revertResize'))
            self.api.post_server_action(server['id'], {end: None})
            self.servers[server['id']] = self._await_active(server)
        return f'{server["id"]} {end}'

    def evacuate_one(self):
        """Evacuate a server; one with volumes stays, and is in error."""
        server = self._pick(self.servers.values())
        if server is None:
            return None
        if not self._volumes_of(server):
            return self._evacuate(server)
        source = host_of(server)
        self.fail_host(source)
        self.api.post_server_action(server['id'], {'evacuate': {}})
        failed = self._wait_for_state_change(server, 'ERROR')
        self.assertTrue(self.fault(failed), self.steps)
        self._check_volumes()
        self.recover_host(source)
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}}
        )
        self._await_active(server)
        return f'{server["id"]} {source} refused'

    # Volumes

    def attach_one(self):
        server = self._pick(self._with_room())
        if server is None:
            return None
        volume = self._free_volume()
        self._attach(server, volume)
        return f'{server["id"]} {volume}'

    def attach_with_a_fault(self):
        """Attach a volume, or leave nothing of it."""
        server = self._pick(self._with_room())
        if server is None:
            return None
        volume, fault = self._free_volume(), self._choose_fault(10)
        with self._faults(host_of(server), [fault]):
            result = self._attach(server, volume, None)
        return f'{server["id"]} {volume} {fault} {result}'

    def attach_to_stopped(self):
        server = self._pick(self._with_room())
        if server is None:
            return None
        self._stop_server(server)
        told = [self._free_volume()]
        self._attach(server, told[0])
        if self.random.random() < 0.5:
            self._detach(server, told[0])
        self._check_volumes()
        self._start_server(server)
        return f'{server["id"]} {told}'

    def detach_one(self):
        volume = self._detachable()
        if volume is None:
            return None
        self._detach(self.servers[self.volumes[volume].server], volume)
        return volume

    def detach_with_a_fault(self):
        """Detach a volume, or let a hard reboot mend what is left."""
        volume = self._detachable()
        if volume is None:
            return None
        server = self.servers[self.volumes[volume].server]
        fault = self._choose_fault(6)
        with self._faults(host_of(server), [fault]):
            result = self._detach(server, volume, None)
        if result != 'success':
            self._reboot_server(server, hard=True)
        return f'{server["id"]} {volume} {fault} {result}'

    def extend_one(self):
        volume = self._pick(self.volumes)
        if volume is None:
            return None
        size = self.volumes[volume].size + 1

        def extend():
            self.cinder.act(volume, 'os-extend', new_size=size)

        server = self.volumes[volume].server
        if server:
            self._act(
                self.servers[server],
                extend,
                'compute_extend_volume',
                'success',
            )
        else:
            extend()
        self.volumes[volume].size = size
        return f'{volume} {size} {server}'

    def delete_volume(self):
        volume = self._pick(self._available())
        if volume is None:
            return None
        self.cinder.delete(volume)
        del self.volumes[volume]
        return volume

    def lose_paths(self):
        """Have an administrator unmap a volume; a hard reboot maps it."""
        volume = self._pick(
            one for one, has in self.volumes.items() if has.server
        )
        if volume is None:
            return None
        server = self.servers[self.volumes[volume].server]
        driver = self.computes[host_of(server)].manager.driver
        driver.services.host.volumes.disconnect(
            lpar_volumes.Volume(volume, ''), self.lpar_uuid(server)
        )
        self._reboot_server(server, hard=True)
        return f'{server["id"]} {volume}'

    def act_without_a_vios(self):
        """Do something while a Virtual I/O Server does not answer."""
        acts = (
            self._attach_by_one_path,
            self._detach_in_vain,
            self._delete_in_vain,
            self.reboot_one,
            self.boot_from_volume,
        )
        hosts = {host_of(server) for server in self.servers.values()}
        host = self._pick(sorted(hosts))
        if host is None:
            return None
        act = self.random.choice(acts)
        there = self._servers_on(host)
        self.control(host).set_partition(_DOWN, state='not activated')
        told = act() if act not in acts[:3] else act(there)
        self.control(host).set_partition(
            _DOWN, state='running', rmc_state='active'
        )
        self._mend(host)
        return told and f'{host} {act.__name__} {told}'

    def _attach_by_one_path(self, servers):
        server = self._pick(self._with_room(servers))
        if server is None:
            return None
        volume = self._free_volume()
        self._attach(server, volume)
        return f'{server["id"]} {volume}'

    def _detach_in_vain(self, servers):
        volume = self._detachable(servers)
        if volume is None:
            return None
        server = self.servers[self.volumes[volume].server]
        self.flags(host=host_of(server))
        event = self._act(
            server,
            lambda: self.api.delete_server_volume(server['id'], volume),
            'compute_detach_volume',
        )
        self.assertIn(f'{_DOWN} does not answer', event['details'])
        return f'{server["id"]} {volume}'

    def _delete_in_vain(self, servers):
        server = self._pick(one for one in servers if self._volumes_of(one))
        if server is None:
            return None
        self.api.delete_server(server['id'])
        self._wait_for_state_change(server, 'ERROR')
        return server['id']

    def _mend(self, host):
        """Do what is needed once all Virtual I/O Servers answer again."""
        for server in self._servers_on(host):
            found = self.api.get_server(server['id'])
            if found['status'] == 'ERROR':
                self._delete_server(found)
                del self.servers[server['id']]
                self._is_deleted(server['id'])
            elif self._volumes_of(server):
                self._reboot_server(server, hard=True)

    # What is requested

    def _create(self, *, is_root=False):
        """Create a volume, and return its id."""
        self.made += 1
        data = b'volume %d' % self.made
        volume = (
            self.cinder.create_bootable(data)
            if is_root
            else self.cinder.create(data=data)
        )
        self.volumes[volume] = _Volume(data, is_root=is_root)
        return volume

    def _attach(self, server, volume, expected='success'):
        """Attach a volume, and return how that ends.

        :param expected: None for any end.
        """
        body = {'volumeAttachment': {'volumeId': volume}}
        result = self._act(
            server,
            lambda: self.api.post_server_volume(server['id'], body),
            'compute_attach_volume',
            expected,
        )['result'].lower()
        if result == 'success':
            self.volumes[volume].server = server['id']
        return result

    def _detach(self, server, volume, expected='success'):
        """Detach a volume, and return how that ends."""
        # Nova looks at it, and all services of this process share it.
        self.flags(host=host_of(server))
        result = self._act(
            server,
            lambda: self.api.delete_server_volume(server['id'], volume),
            'compute_detach_volume',
            expected,
        )['result'].lower()
        if result == 'success':
            self.volumes[volume].server = None
        return result

    def _act(self, server, request, name, expected='error'):
        """Send a request, and return the event that ends its action.

        :param name: The name of the event.
        :param expected: Its result; None for any.
        """
        earlier = len(self.admin_api.get_instance_actions(server['id']))
        request()

        def find_event():
            actions = self.admin_api.get_instance_actions(server['id'])
            for action in actions[: len(actions) - earlier]:
                events = self.admin_api.get_instance_action_details(
                    server['id'], action['request_id']
                )['events']
                for event in events:
                    if event['event'] == name and event['result']:
                        return event
            return None

        event = self.await_found(find_event, f'no {name}: {self.steps}')
        if expected:
            self.assertEqual(expected, event['result'].lower(), event)
        return event

    def _await_active(self, server):
        return self._wait_for_server_parameter(
            server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )

    def _await_end(self, volume):
        """Wait for the end of a volume that Nova deletes."""
        self.await_found(
            lambda: self.cinder.find(volume) is None, f'{volume} is not gone'
        )
        del self.volumes[volume]

    def _is_deleted(self, server):
        """Note that a server is gone, with some of its volumes."""
        for volume, known in list(self.volumes.items()):
            if known.server == server:
                if known.is_deleted:
                    self._await_end(volume)
                else:
                    known.server, known.is_root = None, False

    @contextlib.contextmanager
    def _faults(self, host, faults):
        for fault in faults:
            self.control(host).add_fault(match='VirtualIOServer', **fault)
        yield
        self.control(host).clear_faults()
        if faults:
            self._remove_disks(host)

    def _remove_disks(self, host):
        """Remove the disks that the log asks to remove with ``rmdev``."""
        emulator = self.hosts[host].emulator
        adapter = emulator_base.adapter_for(emulator)
        for name in {*_STAYS.findall(self.logged())}:
            for disk in self._partition(name, host)['physical_volumes']:
                if disk['stale'] and disk['available']:
                    hdisk.remove_hdisk(
                        adapter,
                        self.host_state(host)['name'],
                        disk['name'],
                        self._partition(name, host)['uuid'],
                    )
        emulator_base.forget(adapter.session)

    def _choose_fault(self, most):
        nth = self.random.randint(1, most)
        return {**self.random.choice(_FAULTS), 'nth': nth}

    @contextlib.contextmanager
    def _only(self, host):
        """Keep the scheduler from choosing the other host."""
        (other,) = {*host_walk.HOSTS} - {host}
        service = self.computes[other].service_ref.uuid
        self.admin_api.put_service(service, {'status': 'disabled'})
        yield
        self.admin_api.put_service(service, {'status': 'enabled'})

    # What there is

    def _servers_on(self, host):
        return [one for one in self.servers.values() if host_of(one) == host]

    def _volumes_of(self, server):
        return [
            volume
            for volume, known in self.volumes.items()
            if known.server == server['id']
        ]

    def _root(self, server):
        """Return whether a server boots from a volume."""
        return any(
            self.volumes[one].is_root for one in self._volumes_of(server)
        )

    def _with_disks(self):
        return [one for one in self.servers.values() if not self._root(one)]

    def _with_room(self, servers=None):
        return [
            one
            for one in (self.servers.values() if servers is None else servers)
            if len(self._volumes_of(one)) < _MAX_VOLUMES
        ]

    def _available(self):
        return [one for one, has in self.volumes.items() if not has.server]

    def _free_volume(self):
        found = self._available()
        if not found or self.random.random() < 0.3:
            return self._create()
        return self._pick(found)

    def _detachable(self, servers=None):
        """Choose a volume that no server boots from, but one has."""
        chosen = self.servers.values() if servers is None else servers
        return self._pick(
            volume
            for server in chosen
            for volume in self._volumes_of(server)
            if not self.volumes[volume].is_root
        )

    # Invariants

    def check(self):
        """Check all invariants, also those of volumes."""
        super().check()
        self._check_volumes()

    def _check_volumes(self, shelved=None):
        """Compare what each part says of the volumes.

        :param shelved: The id of a server whose volumes no host has.
        """
        expected = self._expected(shelved)
        for _ in range(100):
            if self._seen() == expected:
                break
            # Cinder ends some requests after Nova.
            time.sleep(0.1)
        seen = self._seen()
        for part in expected:
            self.assertEqual(expected[part], seen[part], (part, self.steps))
        self._check_contents(shelved)

    def _expected(self, shelved):
        held = {
            volume: known.server
            for volume, known in self.volumes.items()
            if known.server
        }
        hosts = {
            volume: host_of(self.servers[server])
            for volume, server in held.items()
            if server != shelved
        }
        partitions = {
            (host, vios): {
                'disks': {
                    volume: (self.volumes[volume].size * 1024, False)
                    for volume, found in hosts.items()
                    if found == host
                },
                'clients': sorted(
                    (volume, self.instance({'id': held[volume]}).name)
                    for volume, found in hosts.items()
                    if found == host
                ),
            }
            for host in host_walk.HOSTS
            for vios in volume_world.wwpns()
        }
        return {
            'status': {
                volume: (_status(known.server, shelved), known.size)
                for volume, known in self.volumes.items()
            },
            'attachments': sorted(held.items()),
            'records': sorted(held.items()),
            'ports': {
                volume: _wwpns(hosts.get(volume)) for volume in self.volumes
            },
            'maps': sorted(f'volume-{volume}' for volume in hosts),
            **partitions,
        }

    def _seen(self):
        array = {one: self.cinder.find(one) for one in self.volumes}
        names = {found.udid: one for one, found in array.items() if found}
        shown = {one: self.cinder.show(one) for one in self.volumes}
        attachments = self.cinder.request('GET', '/attachments/detail')
        (told,) = self.cinder.network.told
        return {
            'status': {
                volume: (one['status'], one['size'])
                for volume, one in shown.items()
            },
            'attachments': sorted(
                (one['volume_id'], one['instance'])
                for one in attachments['attachments']
            ),
            'records': _records(),
            'ports': {
                volume: found.wwpns for volume, found in array.items() if found
            },
            'maps': sorted(one['volume'] for one in told['maps']),
            **{
                (host, one['name']): _shown_by(one, names)
                for host in host_walk.HOSTS
                for one in self.host_state(host)['partitions']
                if one['name'] in volume_world.wwpns()
            },
        }

    def _check_contents(self, shelved):
        """Verify that each disk leads to the bytes of its volume."""
        for volume, known in self.volumes.items():
            if known.server in (None, shelved):
                continue
            udid = self.cinder.find(volume).udid
            host = host_of(self.servers[known.server])
            for vios in volume_world.wwpns():
                found = self.control(host).contents(udid, vios)
                self.assertEqual(known.data, found, self.steps)


def _status(server, shelved):
    if server is None:
        return 'available'
    return 'reserved' if server == shelved else 'in-use'


def _wwpn(wwpn, host):
    """Return the port of a host that is the given one on the first."""
    number = host_walk.HOSTS.index(host)
    return wwpn.replace('90FA', f'90F{"AB"[number]}')


def _wwpns(host):
    """Return the sorted ports of a host; none of no host."""
    return sorted(
        _wwpn(wwpn, host)
        for wwpns in volume_world.wwpns().values()
        for wwpn in wwpns
        if host
    )


def _records():
    """Return volume and server of Nova's records, sorted."""
    context = nova_context.get_admin_context()
    with main_db.get_engine(context=context).connect() as connection:
        found = connection.exec_driver_sql(
            'SELECT volume_id, instance_uuid FROM block_device_mapping'
            ' WHERE volume_id IS NOT NULL AND deleted = 0'
        )
        return sorted(tuple(one) for one in found)


def _shown_by(partition, names):
    """Return the disks of the array and their clients on a server.

    :param names: UDID -> id of a volume.
    """
    return {
        'disks': {
            names.get(one['udid'], one['udid']): (
                one['capacity'],
                one['stale'],
            )
            for one in partition['physical_volumes']
            if base64.b64decode(one['udid'][2:]).startswith(_ARRAY)
        },
        'clients': sorted(
            (names.get(one['udid'], one['udid']), one['client'])
            for one in partition['scsi_mappings']
            if one['kind'] == 'PhysicalVolume'
        ),
    }
