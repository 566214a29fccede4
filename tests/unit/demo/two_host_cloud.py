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


"""A cloud with two hosts that is played by plain objects.

A test breaks it by the names in :attr:`TwoHostCloud.faults`.
"""

import pathlib

import requests

from nova_powervm.demo import cloud
from nova_powervm.demo import compute_hosts
from nova_powervm.demo import expected_providers
from nova_powervm.demo import guest
from nova_powervm.demo import host
from nova_powervm.demo import launcher
from nova_powervm.demo import step_context
from nova_powervm.demo import two_host_steps
from nova_powervm.demo import two_hosts
from nova_powervm.demo import two_worlds
from tests.unit.demo import samples

_GPUS = ('21010020', '21010021', '21010022', two_worlds.OTHER_GPU)
_OTHERS = {
    '21010030': ('144D', 'A822'),
    '21010038': ('1014', '0634'),
}
_IMAGE = 'nvi' + '0' * 40


class FakeHost:
    """A PowerVM host; its disks are in the pool of the cloud."""

    def __init__(self, name, other_model, whole):
        self.name = name
        self.has_power = True
        self.owners = {}
        self.lpars = {}
        self._model = other_model
        self._whole = whole

    def _answer(self):
        if not self.has_power:
            raise requests.ConnectionError('refused')

    def system_name(self):
        return f'system of {self.name}'

    def slots(self):
        self._answer()
        found = []
        for index in _GPUS:
            is_other = index == two_worlds.OTHER_GPU
            more = {} if is_other else {'subsys_device_id': '124A'}
            device = self._model if is_other else '1DB6'
            owner = self.owners.get(index)
            found.append(
                samples.a_slot(index, '10DE', device, owner=owner, **more)
            )
        return found + [
            samples.a_slot(index, *ids) for index, ids in _OTHERS.items()
        ]

    def partitions(self):
        self._answer()
        return [
            host.Partition(
                f'i-{server}',
                step_context.partition_uuid(server),
                state,
                tuple(
                    index
                    for index, owner in self.owners.items()
                    if owner == f'i-{server}'
                ),
            )
            for server, state in self.lpars.items()
        ]

    def adapters(self, _partition):
        return [host.Adapter('fa:16:3e:00:00:01', 100)]

    def storage(self, partition):
        for server in self.lpars:
            if step_context.partition_uuid(server) == partition:
                name = self._whole.unit_of(server)
                contents = self._whole.units[name]
                return [
                    host.StorageElement(
                        'LogicalUnit', name, '100', contents, name
                    )
                ]
        return []

    def pool_units(self):
        images = [_IMAGE] if self._whole.has_image else []
        return [
            *(host.PoolUnit(name, name, _IMAGE) for name in self._whole.units),
            *(host.PoolUnit(name, name, None) for name in images),
        ]

    def volume_group_contents(self):
        return []

    def write_disk(self, udid, data):
        changed = [udid]
        if 'write reaches clones' in self._whole.faults:
            changed = list(self._whole.units)
        for name in changed:
            before = self._whole.units[name]
            self._whole.units[name] = data + before[len(data) :]

    def power_off(self):
        self.has_power = 'plug is stuck' in self._whole.faults
        self.lpars = dict.fromkeys(self.lpars, 'not activated')

    def power_on(self):
        self.has_power = True

    def log_off(self):
        pass


class TwoHostCloud:
    """The APIs of the cloud, its processes and its two hosts."""

    def __init__(self, directory: pathlib.Path):
        self.faults = set()
        self.units = {}
        self.has_image = False
        self.servers = {}
        self.forced_down = set()
        self.killed = set()
        self.flavors = {}
        self.allocated = {}
        self.stack = samples.a_stack_with_two_hosts(directory)
        texts = (launcher.default_inventory(), launcher.second_inventory())
        for compute, text in zip(self.stack.computes, texts, strict=True):
            compute.inventory_file.parent.mkdir(exist_ok=True)
            compute.inventory_file.write_text(text)
        self.hosts = {
            compute.name: FakeHost(compute.name, model, self)
            for compute, model in zip(
                self.stack.computes, ('1DB6', '1EB8'), strict=True
            )
        }
        self.compute_hosts = self

    def context(self):
        first, second = (
            two_hosts.Side(compute, self.hosts[compute.name])
            for compute in self.stack.computes
        )
        return two_hosts.Context(
            self.stack,
            self,
            first.host,
            supervisor=self,
            sides=(first, second),
        )

    # The processes.

    def kill(self, name):
        self.killed.add(name)

    def start(self, name, *_arguments, environment=None):
        """Start a nova-compute, or a server: both have this name."""
        if name in self.servers:
            self.servers[name]['status'] = 'ACTIVE'
            self.hosts[self.servers[name]['host']].lpars[name] = 'running'
            return
        self.killed.discard(name)
        (away,) = (
            compute.name
            for compute in self.stack.computes
            if compute.service == name
        )
        for server, record in self.servers.items():
            if record['host'] != away and server in self.hosts[away].lpars:
                self._remove(server, away)
                if 'disk is removed' in self.faults:
                    self.units[self.unit_of(server)] = b''

    def check(self):
        pass

    # Nova.

    def node_uuids(self):
        return {name: f'uuid of {name}' for name in self.hosts}

    def services(self):
        return {
            compute.name: compute_hosts.Service(
                'down' if compute.name in self.forced_down else 'up',
                compute.name in self.forced_down,
            )
            for compute in self.stack.computes
        }

    def force_down(self, name):
        self.forced_down.add(name)

    def end_force(self, name):
        self.forced_down.discard(name)

    def create_flavor(self, name, extra_specs):
        self.flavors[name] = extra_specs

    def extra_specs(self, name):
        return self.flavors[name]

    def create_server(
        self, name, flavor, image, network, user_data, host=None
    ):
        identifier = f'{len(self.servers):02x}-{name}'
        self.servers[identifier] = {
            'host': host,
            'status': 'ACTIVE',
            'flavor': flavor,
        }
        self._place(identifier, self._choose(flavor, host), 'running')
        self.units[self.unit_of(identifier)] = guest.make_image()
        self.has_image = True
        return self.server(identifier)

    def server(self, identifier):
        return cloud.Server(
            id=identifier,
            name=identifier[3:],
            instance_name=f'i-{identifier}',
            status=self.servers[identifier]['status'],
            fault='',
        )

    def host_of(self, identifier):
        return self.servers[identifier]['host']

    def evacuate(self, identifier):
        record = self.servers[identifier]
        record['status'] = 'SHUTOFF'
        chosen = self._choose(record['flavor'], 'powervm-demo-2')
        if 'device is shared' in self.faults:
            chosen = ('powervm-demo-2', '21010020')
        self._place(identifier, chosen, 'not activated')

    def delete_server(self, server):
        host_name = self.host_of(server.id)
        if 'LPAR is left' not in self.faults:
            self._remove(server.id, host_name)
        del self.units[self.unit_of(server.id)]
        self.allocated.pop(server.id, None)
        del self.servers[server.id]

    # Neutron and Glance.

    def ports(self, server):
        if server.id not in self.servers:
            return []
        return [cloud.Port('fa:16:3e:00:00:01', 'ACTIVE', 'pvm_sea')]

    def bindings(self, identifier):
        is_moved = self.servers[identifier]['status'] == 'SHUTOFF'
        is_lost = is_moved and 'address is lost' in self.faults
        return [
            compute_hosts.Binding(
                id=f'port of {identifier}',
                mac='fa:16:3e:00:00:01',
                addresses=['192.0.2.9' if is_lost else '192.0.2.5'],
                host=self.host_of(identifier),
                vif_type='pvm_sea',
                status='ACTIVE',
            )
        ]

    def create_image(self, data):
        return cloud.Image('image', len(data), 'sha256', guest.sha256(data))

    def create_network(self):
        return cloud.Network('network', 100)

    def create_key(self, public_key):
        pass

    # Placement.

    def allocations(self, identifier):
        return {
            expected_providers.NOVA.provider_name(name, index): {
                step_context.GPU: 1
            }
            for name, index in self.allocated.get(identifier, ())
        }

    def provider_tree(self, uuid):
        name = uuid.removeprefix('uuid of ')
        powered = FakeHost(name, self.hosts[name]._model, self)
        (side,) = (item for item in self.context().sides if item.name == name)
        children = expected_providers.providers(
            side.paragraphs, powered.slots(), name, uuid
        )
        return [
            cloud.Provider(uuid, name, None, uuid, {}, {}, []),
            *(
                cloud.Provider(
                    uuid=child,
                    name=child,
                    usages=dict.fromkeys(values['inventories'], 0),
                    **values,
                )
                for child, values in children.items()
            ),
        ]

    # What is behind it.

    def unit_of(self, identifier):
        uuid = step_context.partition_uuid(identifier).replace('-', '')
        return f'nv{uuid}-root'

    def _choose(self, flavor, name):
        """Return a host and a free slot, as the scheduler would."""
        wanted = set(self.flavors[flavor])
        if f'trait1:{two_host_steps.TRAIT}' in wanted:
            is_wrong = 'trait is ignored' in self.faults
            name = f'powervm-demo-{1 if is_wrong else 2}'
            return name, two_worlds.OTHER_GPU
        taken = {
            place for places in self.allocated.values() for place in places
        }
        (index, *_) = (index for index in _GPUS if (name, index) not in taken)
        return name, index

    def _place(self, identifier, place, state):
        name, index = place
        self.servers[identifier]['host'] = name
        self.allocated.setdefault(identifier, []).append(place)
        self.hosts[name].owners[index] = f'i-{identifier}'
        self.hosts[name].lpars[identifier] = state

    def _remove(self, identifier, name):
        whole = self.hosts[name]
        whole.lpars.pop(identifier, None)
        whole.owners = {
            index: owner
            for index, owner in whole.owners.items()
            if owner != f'i-{identifier}'
        }
        self.allocated[identifier] = [
            place
            for place in self.allocated.get(identifier, [])
            if place[0] != name
        ]
