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

from demo import cloud
from demo import compute_hosts
from demo import expected_providers
from demo import guest
from demo import host as host_lib
from demo import launcher
from demo import operator_commands
from demo import step_context
from demo import two_host_steps
from demo import two_hosts
from demo import two_worlds
from tests.unit.demo import fake_host
from tests.unit.demo import samples


class TwoHostCloud:
    """The APIs of the cloud, its processes and its two hosts."""

    def __init__(self, directory: pathlib.Path):
        self.faults = set()
        self.units = {}
        self.sizes = {}
        self.has_image = False
        self.image = None
        self.shelved = b''
        self.servers = {}
        self.before = {}
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
            compute.name: fake_host.FakeHost(compute.name, model, self)
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

    def create_flavor(self, name, extra_specs, sizes):
        self.flavors[name] = extra_specs, sizes

    def extra_specs(self, name):
        return self.flavors[name][0]

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
        self.sizes[self.unit_of(identifier)] = cloud.DISK_GB
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
            chosen = ('powervm-demo-2', fake_host.GPUS[:2])
        self._place(identifier, chosen, 'not activated')

    def migrate(self, identifier):
        self._move(identifier, self.servers[identifier]['flavor'])

    def resize(self, identifier, flavor):
        self._move(identifier, flavor)
        if 'disk grows at once' in self.faults:
            self._grow(identifier)

    def _move(self, identifier, flavor):
        record = self.servers[identifier]
        source = record['host']
        self.before[identifier] = dict(record)
        held = self.allocated.pop(identifier)
        self.allocated[self.last_migration(identifier)] = held
        self.hosts[source].lpars[identifier] = 'not activated'
        if 'source goes at once' in self.faults:
            self._remove(identifier, source)
        (target,) = {*self.hosts} - {source}
        record |= {'status': 'VERIFY_RESIZE', 'flavor': flavor}
        self._place(identifier, self._choose(flavor, target), 'running')

    def last_migration(self, identifier):
        return f'migration of {identifier}'

    def confirm(self, identifier):
        self.servers[identifier]['status'] = 'ACTIVE'
        self.allocated.pop(self.last_migration(identifier))
        if 'slots stay' not in self.faults:
            self._remove(identifier, self.before[identifier]['host'])
        self._grow(identifier)

    def _grow(self, identifier):
        _, sizes = self.flavors[self.servers[identifier]['flavor']]
        self.sizes[self.unit_of(identifier)] = sizes.disk_gb

    def revert(self, identifier):
        self._remove(identifier, self.host_of(identifier))
        record = self.before[identifier]
        self.servers[identifier] = record
        held = self.allocated.pop(self.last_migration(identifier))
        self.allocated[identifier] = held
        self.hosts[record['host']].lpars[identifier] = 'running'
        if 'sizes stay' in self.faults:
            size = self.hosts[record['host']].sizes
            size[identifier] = host_lib.PartitionSize(4096, 2)
        if 'old bytes return' in self.faults:
            self.units[self.unit_of(identifier)] = guest.make_image()

    def delete_server(self, server):
        host_name = self.host_of(server.id)
        if 'LPAR is left' not in self.faults:
            self._remove(server.id, host_name)
        del self.units[self.unit_of(server.id)]
        self.allocated.pop(server.id, None)
        del self.servers[server.id]

    def await_task(self, identifier):
        pass

    def run_openstack(self, _stack, *arguments):
        """Do what a command says; its last word is the name of a server."""
        (identifier,) = (i for i in self.servers if i[3:] == arguments[-1])
        if 'image' in arguments:
            self._create_image(identifier)
        elif 'rescue' in arguments:
            self._rescue(identifier)
        elif 'unrescue' in arguments:
            self._unrescue(identifier)
        elif 'shelve' in arguments:
            self._shelve(identifier)
        else:
            host = arguments[arguments.index('--host') + 1]
            self._unshelve(identifier, host)
        return operator_commands.Result(' '.join(arguments), 0, '')

    def _create_image(self, identifier):
        written = self.units[self.unit_of(identifier)]
        size = self.sizes[self.unit_of(identifier)] * 1024**3
        if 'image lacks what the guest wrote' in self.faults:
            written = guest.make_image()
        self.image = cloud.Image(
            'copy', size, 'sha256', guest.hash_of_disk('sha256', written, size)
        )

    def _rescue(self, identifier):
        self.servers[identifier]['status'] = 'RESCUE'
        if 'rescue system is not first' not in self.faults:
            name = self.unit_of(identifier).replace('-root', '-rescue')
            self.units[name] = guest.make_image()
        if 'rescue system writes to the disk' in self.faults:
            self.units[self.unit_of(identifier)] = b''

    def _unrescue(self, identifier):
        self.servers[identifier]['status'] = 'ACTIVE'
        if 'rescue system stays first' not in self.faults:
            name = self.unit_of(identifier).replace('-root', '-rescue')
            self.units.pop(name, None)

    def find_image(self, _name):
        return self.image

    def _shelve(self, identifier):
        record = self.servers[identifier]
        if 'slots stay while shelved' not in self.faults:
            self._remove(identifier, record['host'])
        self.shelved = self.units.pop(self.unit_of(identifier))
        record |= {'host': None, 'status': 'SHELVED_OFFLOADED'}

    def _unshelve(self, identifier, host):
        if 'unshelved on the same host' in self.faults:
            (host,) = {*self.hosts} - {host}
        record = self.servers[identifier]
        record['status'] = 'ACTIVE'
        self._place(
            identifier, self._choose(record['flavor'], host), 'running'
        )
        unit = self.unit_of(identifier)
        self.units[unit] = self.shelved
        if 'old bytes are unshelved' in self.faults:
            self.units[unit] = guest.make_image()

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
        powered = fake_host.FakeHost(name, self.hosts[name]._model, self)
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
        """Return a host and free slots, as the scheduler would."""
        wanted, _ = self.flavors[flavor]
        if f'trait1:{two_host_steps.TRAIT}' in wanted:
            is_wrong = 'trait is ignored' in self.faults
            name = f'powervm-demo-{1 if is_wrong else 2}'
            return name, (two_worlds.OTHER_GPU,)
        taken = {
            place for places in self.allocated.values() for place in places
        }
        free = [i for i in fake_host.GPUS if (name, i) not in taken]
        return name, free[: sum(key.startswith('resources') for key in wanted)]

    def _place(self, identifier, place, state):
        name, indexes = place
        self.servers[identifier]['host'] = name
        allocated = self.allocated.setdefault(identifier, [])
        allocated += [(name, index) for index in indexes]
        whole = self.hosts[name]
        whole.owners |= dict.fromkeys(indexes, f'i-{identifier}')
        whole.lpars[identifier] = state
        _, sizes = self.flavors[self.servers[identifier]['flavor']]
        whole.sizes[identifier] = host_lib.PartitionSize(
            sizes.memory_mb, sizes.processors
        )

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
