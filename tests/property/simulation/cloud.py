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

"""Two hosts, Placement, and what Nova's manager does with instances."""

import contextlib
import dataclasses
import functools
import os

from nova import exception as nova_exception

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.instance import image
from nova_powervm.instance import partition
from nova_powervm.ops import instance_spec
from nova_powervm.virt import instance_records
from tests.property.simulation import compute
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import placement
from tests.property.simulation import process

_BYTES = b'\x01boot sector' + bytes(1012)
_ROOT = instance_spec.RootDisk(
    image=image.Image('image', 'raw', len(_BYTES)),
    source=lambda: (chunk for chunk in (_BYTES,)),
    flavor_gb=1,
)


#: What Nova's provider.yaml adds to the provider of one slot of each host.
ADDED_TRAIT = 'CUSTOM_HELD_BY_NOVA'
ADDED_TO = host.SLOTS[0]
_ADDITIONS = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      name: {name}
    inventories:
      additional:
        - {resource_class}:
            total: 3
            reserved: 0
            min_unit: 1
            max_unit: 3
            step_size: 1
            allocation_ratio: 1.0
    traits:
      additional: [{trait}]
"""


def _write_additions(directory, node):
    os.mkdir(directory)
    with open(os.path.join(directory, 'provider.yaml'), 'w') as file:
        file.write(
            _ADDITIONS.format(
                name=names.provider_name(node, ADDED_TO),
                resource_class=placement.ADDED_CLASS,
                trait=ADDED_TRAIT,
            )
        )


class Node:
    """A host with its files, and the process that may run there.

    :param name: Its name.
    :param number: Makes its uuids.
    :param directory: Where its files are.
    :param before_create: See :class:`.host.Host`.
    """

    def __init__(self, name, number, directory, before_create):
        self.name = name
        self.root = placement.new_uuid(0xC0DE0000 + number)
        self.host = host.Host(name, functools.partial(before_create, self))
        self.additions = os.path.join(directory, f'{name}-providers')
        _write_additions(self.additions, name)
        self.file = inventory.File(os.path.join(directory, f'{name}.yaml'))
        self.compute = None
        # Instances that were evacuated away and still have an LPAR here.
        self.evacuated = []

    def crash(self):
        """End the process, if there is one."""
        self.compute = None


@dataclasses.dataclass(eq=False)
class Instance:
    """What Nova knows of an instance.

    :param groups: Resource class and trait, or None, of each device.
    :param node: Where it is; None if nowhere.
    :param state: 'active', 'error', 'deleting' or 'gone'.
    :param resources: What Nova stored with it.
    :param moving: What it gets where it is being evacuated to.
    :param requests: Its accelerator requests.
    """

    uuid: str
    name: str
    groups: tuple
    node: Node | None = None
    state: str = 'error'
    resources: object = None
    moving: object = None
    requests: tuple = ()

    @property
    def lpar(self):
        return partition.lpar_uuid(self.uuid)

    @property
    def extra_specs(self):
        specs = {}
        for number, (resource_class, trait) in enumerate(self.groups, 1):
            specs[f'resources{number}:{resource_class}'] = '1'
            specs[f'trait{number}:OWNER_NOVA'] = 'required'
            if trait:
                specs[f'trait{number}:{trait}'] = 'required'
        if self.requests:
            specs[accelerators.PROFILE] = 'fpga'
        return specs

    def describe(self, resources=None, **rest):
        """Describe it as an operation takes it."""
        return instance_spec.InstanceSpec(
            uuid=self.uuid,
            name=self.name,
            memory_mb=512,
            vcpus=1,
            extra_specs=self.extra_specs,
            stored_slots=instance_records.stored_slots(
                resources or self.resources
            ),
            requests=self.requests,
            **rest,
        )

    def build(self, allocations, resources):
        """Describe it as spawn takes it."""
        return self.describe(resources, allocations=allocations, root=_ROOT)


class Nova:
    """The manager, the scheduler and Nova's records.

    :param directory: Where the hosts' files are.
    :param before_create: See :class:`.host.Host`; it gets the node first.
    :param updated: Called with a node after each update that went well.
    """

    def __init__(self, directory, before_create, updated):
        self.placement = placement.Placement()
        self.nodes = tuple(
            Node(f'host{number}', number, directory, before_create)
            for number in (1, 2)
        )
        self.instances = []
        # What failed last, to tell it with what it led to.
        self.failure = None
        # Whose LPAR is being made, or started.
        self.served = None
        self._updated = updated

    # Records, a port of the operations

    def instances_of(self, lpars):
        known = {i.lpar: i.uuid for i in self.instances}
        return {lpar: known[lpar] for lpar in lpars if lpar in known}

    def hosted(self, host):
        return {
            i.uuid
            for i in self.instances
            if i.node and i.node.name == host and i.state != 'gone'
        }

    def abandoned(self, lpars, host):
        # The simulation has no records of migrations, so LPARs that
        # interrupted evacuations left stay until somebody removes them.
        return set()

    def misplaced(self, lpars, host):
        return {}

    def holdings(self, lpars):
        known = {i.lpar: i for i in self.instances}
        return {
            lpar: _providers(known[lpar]) for lpar in lpars if lpar in known
        }

    # One step after the other

    @contextlib.contextmanager
    def troubled(self, node, trouble):
        """Let trouble come to a process until the end of the block."""
        if node.compute is not None:
            node.compute.process.expect(trouble)
        yield
        self.placement.strict = node.host.strict = True
        if node.compute is not None:
            node.compute.process.expect(None)

    def attempt(self, node, work):
        """Let a process do something; say whether it went well."""
        if node.compute is None:
            return False
        try:
            work()
        except process.Killed:
            node.crash()
            return False
        except Exception as error:
            if not compute.is_expected(error):
                raise
            self.failure = error
            return False
        return True

    @contextlib.contextmanager
    def serving(self, instance):
        """Let an LPAR be made or started: only then may a device burn."""
        self.served = instance
        try:
            yield
        finally:
            self.served = None

    def update(self, node):
        """Let a process update Placement, as claims and deletions do."""
        node.compute.update()
        self._updated(node)

    # The service

    def start(self, node, trouble=None):
        """Start a process; say whether it runs and has updated Placement."""
        node.crash()
        try:
            node.compute = compute.Compute(node, self.placement, self, trouble)
        except (process.Killed, *compute.EXPECTED):
            return False
        with self.troubled(node, node.compute.process.trouble):
            self._init(node)
            return self._first_cycle(node)

    def _init(self, node):
        """Do what init_host of the manager does before the first update."""
        for instance in list(node.evacuated):
            if self.attempt(node, lambda i=instance: self._destroy(node, i)):
                node.evacuated.remove(instance)
                self._free(instance, node)
        for instance in self.instances:
            if instance.node is not node:
                continue
            if instance.state == 'deleting':
                self._delete(instance)
            elif instance.state == 'active':
                with self.serving(instance):
                    self.attempt(
                        node,
                        lambda i=instance: (
                            node.compute.services.power.power_on(i.describe())
                        ),
                    )

    def _first_cycle(self, node):
        if node.compute is None:
            return False
        try:
            return self.cycle(node, startup=True)
        except compute.FATAL:
            node.crash()
            return False

    def cycle(self, node, *, startup=False):
        """Let the periodic task run; say whether it went well."""
        fatal = []

        def work():
            # As the resource tracker does before it updates Placement.
            self._remove_leftover_allocations(node)
            try:
                node.compute.cycle(self._resources(node), startup=startup)
            except nova_exception.AssignedResourceNotFound:
                # Logged at the end of the first update.
                pass
            except compute.FATAL as error:
                fatal.append(error)
                raise
            self._updated(node)

        done = self.attempt(node, work)
        if fatal and startup:
            raise fatal[0]
        return done

    def _resources(self, node):
        return [
            i.resources
            for i in self.instances
            if i.node is node and i.state != 'gone'
        ]

    def _remove_leftover_allocations(self, node):
        for instance in self.instances:
            if instance.state == 'gone':
                self._free(instance, node)

    # Instances

    def boot(self, node, groups, trouble=None, requests=()):
        """Boot an instance on a host; None if Placement has no room."""
        wanted = self.candidate(node, groups)
        if wanted is None:
            return None
        number = len(self.instances) + 1
        instance = Instance(
            placement.new_uuid(number), f'instance-{number:08x}', groups
        )
        instance.requests = requests
        self.instances.append(instance)
        self.placement.allocate(instance.uuid, wanted)
        for request in requests:
            self.placement.allocate(
                instance.uuid, {request.provider_uuid: {'CUSTOM_GPU': 1}}
            )
        with self.troubled(node, trouble):
            self._boot(node, instance)
        return instance

    def _boot(self, node, instance):
        instance.node = node
        built = False
        if self.attempt(node, lambda: self._claim(node, instance)):
            built = self.attempt(
                node, lambda: self._spawn(node, instance, instance.resources)
            )
            if not built:
                self.attempt(node, lambda: self._destroy(node, instance))
                self.attempt(node, lambda: self._abort(node, instance))
        if built:
            instance.state = 'active'
        elif node.compute is not None:
            instance.node = None
            self.placement.free(instance.uuid)

    def _claim(self, node, instance):
        allocations = node.compute.allocations_of(instance.uuid)
        instance.resources = node.compute.tracker.claim(allocations)
        self.update(node)

    def _abort(self, node, instance):
        node.compute.tracker.release(instance.resources)
        self.update(node)

    def _spawn(self, node, instance, resources):
        allocations = node.compute.allocations_of(instance.uuid)
        with self.serving(instance):
            node.compute.services.lifecycle.spawn(
                instance.build(allocations, resources)
            )

    def _destroy(self, node, instance):
        node.compute.services.lifecycle.destroy(instance.uuid)

    def candidate(self, node, groups):
        """Find what Placement would allocate on a host; None for nothing."""
        root = self.placement.rows.get(node.root)
        if root is None or not self.placement.has_room(root, 'VCPU'):
            return None
        found = {}
        for resource_class, trait in groups:
            needed = {names.OWNER_TRAIT, *filter(None, [trait])}
            row = next(
                (
                    row
                    for row in self.placement.below(node.root)
                    if needed <= row.traits
                    and self.placement.has_room(row, resource_class)
                    and row.uuid not in found
                ),
                None,
            )
            if row is None:
                return None
            found[row.uuid] = {resource_class: 1}
        return {node.root: {'VCPU': 1, 'MEMORY_MB': 512}} | found

    def delete(self, instance, trouble=None):
        """Delete an instance, as the API does if its host is down."""
        if instance.node is None or instance.node.compute is None:
            instance.state = 'gone'
            self.placement.free(instance.uuid)
            return
        instance.state = 'deleting'
        with self.troubled(instance.node, trouble):
            self._delete(instance)

    def _delete(self, instance):
        node = instance.node
        if not self.attempt(node, lambda: self._destroy(node, instance)):
            if node.compute is not None:
                instance.state = 'error'
            return
        instance.state = 'gone'

        def update():
            node.compute.tracker.release(instance.resources)
            self.update(node)

        if self.attempt(node, update):
            self.placement.free(instance.uuid)

    def reap(self, node, trouble=None):
        """Remove LPARs of instances that Nova has deleted."""
        with self.troubled(node, trouble):
            for instance in self.instances:
                if instance.state == 'gone' and instance.lpar in (
                    node.host.lpars
                ):
                    self.attempt(
                        node, lambda i=instance: self._destroy(node, i)
                    )

    def rebuild(self, instance, trouble=None):
        """Build an instance anew in its place, by Nova's default way."""
        node = instance.node
        with self.troubled(node, trouble):
            done = self.attempt(node, lambda: self._rebuild(node, instance))
        instance.state = 'active' if done else 'error'
        return done

    def _rebuild(self, node, instance):
        allocations = node.compute.allocations_of(instance.uuid)
        build = instance.build(allocations, instance.resources)
        services = node.compute.services
        with self.serving(instance):
            services.lifecycle.check_rebuild(build)
        services.power.power_off(instance.lpar)
        services.lifecycle.destroy(instance.uuid)
        with self.serving(instance):
            services.lifecycle.spawn(build)

    def power(self, instance, method, trouble=None):
        """Call 'on', 'off' or 'reboot' for an instance."""
        services = instance.node.compute.services
        work = {
            'on': lambda: services.power.power_on(instance.describe()),
            'off': lambda: services.power.power_off(instance.lpar),
            'reboot': lambda: services.power.reboot(
                instance.describe(), hard=True, timeout=60
            ),
        }[method]
        with self.troubled(instance.node, trouble), self.serving(instance):
            return self.attempt(instance.node, work)

    def resize(self, instance, node, trouble=None):
        """Try to move an instance, or to resize it; the driver refuses.

        What the target has claimed stays with it until its next cycle.

        :returns: Whether Placement had room.
        """
        wanted = self.candidate(node, instance.groups)
        if wanted is None:
            return False
        migration = placement.new_uuid(0x4D16 << 16 | len(self.instances))
        self.placement.move(instance.uuid, migration)
        self.placement.allocate(instance.uuid, wanted)

        def claim():
            allocations = node.compute.allocations_of(instance.uuid)
            node.compute.tracker.claim(allocations)
            self.update(node)

        with self.troubled(node, trouble):
            self.attempt(node, claim)
        self.placement.free(instance.uuid)
        self.placement.move(migration, instance.uuid)
        return True

    def evacuate(self, instance, node, trouble=None):
        """Build an instance of a host that is down on another one."""
        wanted = self.candidate(node, instance.groups)
        if wanted is None:
            return None
        self.placement.allocate(instance.uuid, wanted)
        with self.troubled(node, trouble):
            done = self._evacuate(instance, node)
        if done:
            instance.node.evacuated.append(instance)
            instance.node, instance.resources = node, instance.moving
            instance.state = 'active'
        else:
            instance.state = 'error'
            if node.compute is not None:
                self._free(instance, node)
        instance.moving = None
        return done

    def _evacuate(self, instance, node):
        def claim():
            allocations = node.compute.allocations_of(instance.uuid)
            instance.moving = node.compute.tracker.claim(allocations)
            self.update(node)

        def drop():
            node.compute.tracker.release(instance.moving)
            self.update(node)

        if not self.attempt(node, claim):
            return False
        if self.attempt(
            node, lambda: self._spawn(node, instance, instance.moving)
        ):
            return True
        self.attempt(node, drop)
        return False

    def _free(self, instance, node):
        """Take an instance's allocations on one host away."""
        mine = {node.root} | {r.uuid for r in self.placement.below(node.root)}
        held = self.placement.allocations.get(instance.uuid, {})
        self.placement.free(instance.uuid, mine & held.keys())


def _providers(instance):
    if instance.state == 'gone' or instance.node is None:
        return {}
    return {
        uuid: provider
        for resources in (instance.resources, instance.moving)
        for uuid, provider in instance_records.stored_slots(resources).items()
    }
