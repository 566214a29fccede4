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

from nova import context as nova_context
from nova import exception as nova_exception

from nova_powervm.devices import accelerators
from nova_powervm.devices import names
from nova_powervm.lpar import image
from nova_powervm.lpar import operations
from nova_powervm.lpar import partition
from nova_powervm.lpar import spec
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import power
from nova_powervm.ops import survey
from nova_powervm.virt import descriptions
from nova_powervm.virt import instance_volumes
from nova_powervm.virt import system_metadata
from tests.property.simulation import compute
from tests.property.simulation import host
from tests.property.simulation import inventory
from tests.property.simulation import placement
from tests.property.simulation import process
from tests.property.simulation import records
from tests.property.simulation import volumes as sim_volumes

_BYTES = b'\x01boot sector' + bytes(1012)
_ROOT = spec.WantedImage(image.Image('image', 'raw', len(_BYTES)), flavor_gb=1)
_ASKERS = survey.Askers()
_ASKERS.image = lambda: (chunk for chunk in (_BYTES,))


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
    :param before_give: See :class:`.host.Host`; it gets the node first.
    """

    def __init__(self, name, number, directory, before_give):
        self.name = name
        self.root = placement.new_uuid(0xC0DE0000 + number)
        self.host = host.Host(name, functools.partial(before_give, self))
        self.additions = os.path.join(directory, f'{name}-providers')
        _write_additions(self.additions, name)
        self.file = inventory.File(os.path.join(directory, f'{name}.yaml'))
        self.compute = None
        # Seconds since the beginning.
        # Instances that were evacuated away and still have an LPAR here.
        self.evacuated = []

    def crash(self):
        """End the process, if there is one."""
        self.compute = None


@dataclasses.dataclass(eq=False)
class Instance:
    """What Nova knows of an instance.

    :param number: Its number in Nova's database.
    :param wish: What its flavor asks for.
    :param node: Where it is; None if nowhere.
    :param state: 'active', 'resized', 'error', 'offloaded', 'deleting' or
        'gone'.
    :param task: Its task state in a move.
    :param is_stopped: Whether a user has stopped it.
    :param resources: What Nova stored with it.
    :param requests: Its accelerator requests.
    :param old: What its flavor asked for before a move.
    :param new: What its flavor asks for after it.
    :param context: The migration context of its last move.
    :param metadata: Its system metadata.
    :param swap_mb: The size of the swap disk in Nova's block device mappings.
    :param volumes: The ids of the volumes in these.
    :param loose: Those that the host may still have after two failures.
    """

    uuid: str
    number: int
    wish: records.Wish
    node: Node | None = None
    state: str = 'error'
    task: str | None = None
    is_stopped: bool = False
    resources: object = None
    requests: tuple = ()
    old: records.Wish | None = None
    new: records.Wish | None = None
    context: object = None
    metadata: dict = dataclasses.field(default_factory=dict)
    swap_mb: int = 0
    volumes: set = dataclasses.field(default_factory=set)
    loose: set = dataclasses.field(default_factory=set)

    @property
    def lpar(self):
        return partition.lpar_uuid(self.uuid)

    @property
    def record(self):
        return records.record_of(self)

    def blank_disks(self):
        """Describe its disks as Nova passes them to the driver."""
        swap = {'device_name': None, 'swap_size': self.swap_mb}
        return {
            'ephemerals': [],
            'swap': swap if self.swap_mb else None,
            'block_device_mapping': sim_volumes.disks_of(self),
        }

    def specs_of(self, wish):
        """Return the extra specs of a flavor that it has or gets."""
        specs = {}
        for number, (resource_class, trait) in enumerate(wish.groups, 1):
            specs[f'resources{number}:{resource_class}'] = '1'
            specs[f'trait{number}:OWNER_NOVA'] = 'required'
            if trait:
                specs[f'trait{number}:{trait}'] = 'required'
        if self.requests:
            specs[accelerators.PROFILE] = 'fpga'
        return specs

    def build(self, node, allocations, resources, *, keeps_disks=False):
        """Describe it as spawn does."""
        record = self.record
        record.resources = resources
        return dataclasses.replace(
            node.compute.host.descriptions.allocated(
                record, allocations, self.requests
            ),
            root=None if keeps_disks else _ROOT,
            blanks=descriptions.blank_disks(self.blank_disks()),
            volumes=instance_volumes.parse_all(record, self.blank_disks()),
        )


class Nova:
    """The manager, the scheduler and Nova's records.

    :param directory: Where the hosts' files are.
    :param before_give: See :class:`.Node`.
    :param updated: Called with a node after each update that went well.
    """

    def __init__(self, directory, before_give, updated):
        self.placement = placement.Placement()
        self.database = records.Database(self)
        self.nodes = tuple(
            Node(f'host{number}', number, directory, before_give)
            for number in (1, 2)
        )
        self.instances = []
        # What failed last, to tell it with what it led to.
        self.failure = None
        # Whose LPAR is being made, or started.
        self.served = None
        self._updated = updated

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

    @contextlib.contextmanager
    def burning_nothing(self):
        """Check that the block, a check, writes nothing to Placement."""
        before = self.placement.writes
        try:
            yield
        finally:
            self.require(
                self.placement.writes == before, 'a check burns nothing'
            )

    def update(self, node):
        """Let a process update Placement, as claims and deletions do."""
        node.compute.update()
        self._updated(node)

    # The service

    def start(self, node, trouble=None):
        """Start a process; say whether it runs and has updated Placement."""
        node.crash()
        try:
            node.compute = compute.Compute(node, self.placement, trouble)
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
            elif instance.state in ('active', 'resized'):
                self._init_instance(node, instance)

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
            self.database.end_mismatched(node)
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
        """Return what instances and moves in progress have on a host."""
        return [
            i.resources
            for i in self.instances
            if i.node is node and i.state != 'gone'
        ] + [
            claimed
            for migration in self.database.migrations
            # Nova leaves out a revert that has yet to reach its source.
            if migration.status not in records.ENDED
            and migration.instance.state != 'gone'
            and migration.instance.context
            and migration.instance.context.migration_id == migration.number
            and (
                migration.instance.state == 'resized'
                or migration.instance.task
            )
            for end, claimed in (
                (migration.source, migration.instance.context.old_resources),
                (migration.target, migration.instance.context.new_resources),
            )
            if end is node
        ]

    def _remove_leftover_allocations(self, node):
        for instance in self.instances:
            if instance.state == 'gone':
                self._free(instance, node)

    # Instances

    def boot(self, node, wish, trouble=None, requests=()):
        """Boot an instance on a host; None if Placement has no room."""
        wanted = self.candidate(node, wish.groups)
        if wanted is None:
            return None
        number = len(self.instances) + 1
        instance = Instance(placement.new_uuid(number), number, wish)
        instance.swap_mb = wish.swap_mb
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
        # Nova reads them once, for its claim and for the driver.
        allocations = []

        def claim():
            allocations.append(node.compute.allocations_of(instance.uuid))
            instance.resources = node.compute.tracker.claim(*allocations)
            self.update(node)

        if self.attempt(node, claim):
            built = self.attempt(
                node, lambda: self._spawn(node, instance, *allocations)
            )
            if not built:
                self.attempt(node, lambda: self._destroy(node, instance))
                self.attempt(node, lambda: self._abort(node, instance))
        if built:
            instance.state = 'active'
        elif node.compute is not None:
            instance.node = None
            self.placement.free(instance.uuid)

    def _abort(self, node, instance):
        node.compute.tracker.release(instance.resources)
        self.update(node)

    def _spawn(
        self, node, instance, allocations, *, resources=None, keeps_disks=False
    ):
        with self.serving(instance):
            node.compute.host.lpars.run(
                operations.ARRIVAL if keeps_disks else operations.SPAWN,
                instance.build(
                    node,
                    allocations,
                    resources or instance.resources,
                    keeps_disks=keeps_disks,
                ),
                _ASKERS,
            )
        if node.host.store.is_shared:
            identity = node.compute.server.pool.identity()
            system_metadata.POOL.write(instance.metadata, identity)

    def _destroy(self, node, instance):
        node.compute.driver.destroy(
            nova_context.get_admin_context(), instance.record, None
        )

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

    def offload(self, instance, trouble=None):
        """Shelve an instance, whose image Nova has then; say whether."""
        node = instance.node
        partitions = node.compute.host.partitions
        with self.troubled(node, trouble):
            done = self.attempt(
                node, lambda: power.power_off(partitions, instance.lpar)
            ) and self.attempt(node, lambda: self._destroy(node, instance))
            if not done:
                return False
            self.placement.free(instance.uuid)
            instance.state, instance.node = 'offloaded', None
            self.attempt(node, lambda: self._abort(node, instance))
        return True

    def unshelve(self, instance, node, trouble=None):
        """Build an offloaded instance; None if Placement has no room."""
        wanted = self.candidate(node, instance.wish.groups)
        if wanted is None:
            return None
        self.placement.allocate(instance.uuid, wanted)
        # As Nova leaves one whose process dies.
        instance.state, instance.swap_mb = 'error', instance.wish.swap_mb
        with self.troubled(node, trouble):
            self._boot(node, instance)
        if instance.state != 'active' and instance.node is None:
            instance.state = 'offloaded'
        return instance.state == 'active'

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
        build = instance.build(node, allocations, instance.resources)
        running = node.compute.host
        with self.burning_nothing():
            running.lpars.check(operations.SPAWN, build, _ASKERS)
            if build.volumes:
                running.volumes.check_rebuild(
                    instance.lpar,
                    build.volumes,
                    running.partitions.virtual_slots,
                )
        power.power_off(running.partitions, instance.lpar)
        running.removal.destroy(instance.uuid)
        with self.serving(instance):
            running.lpars.run(operations.SPAWN, build, _ASKERS)

    def power(self, instance, method, trouble=None):
        """Do something that starts or stops an instance.

        :param method: 'on', 'off', 'reboot', 'reboot hard', 'rescue' or
            'unrescue'.
        """
        running = instance.node.compute.host
        work = {
            'on': lambda: self._start(operations.START, instance),
            'off': lambda: power.power_off(running.partitions, instance.lpar),
            'reboot': lambda: self._start(operations.SOFT_REBOOT, instance),
            'reboot hard': lambda: self._reboot_hard(instance),
            'rescue': lambda: self._reorder(operations.RESCUE, instance),
            'unrescue': lambda: self._reorder(operations.UNRESCUE, instance),
        }[method]
        with self.troubled(instance.node, trouble), self.serving(instance):
            return self.attempt(instance.node, work)

    def attach(self, instance, volume, trouble=None):
        """Attach a volume, which Nova records first; say whether it is."""
        node = instance.node
        instance.volumes.add(volume)
        with self.troubled(node, trouble):
            done = self.attempt(
                node,
                lambda: self._change_volume(
                    operations.ATTACH_VOLUME, node, instance, volume
                ),
            )
        if not done and node.compute is not None:
            instance.volumes.discard(volume)
            if trouble and trouble.times > 1:
                instance.loose.add(volume)
        return done

    def detach(self, instance, volume, trouble=None):
        """Detach a volume; say whether Nova has it no more."""
        node = instance.node
        with self.troubled(node, trouble):
            done = self.attempt(
                node,
                lambda: self._change_volume(
                    operations.DETACH_VOLUME, node, instance, volume
                ),
            )
        if done:
            instance.volumes.discard(volume)
        return done

    def _change_volume(self, operation, node, instance, volume):
        node.compute.host.lpars.run(
            operation,
            spec.Wanted(
                instance.uuid,
                volumes=(lpar_volumes.Volume(volume, sim_volumes.KIND),),
            ),
        )

    def _start(self, operation, instance):
        instance.node.compute.driver.services.power.run(
            operation, instance.record, None, instance.requests, timeout=60
        )

    def _reorder(self, operation, instance):
        running = instance.node.compute.host
        running.lpars.run(
            operation,
            dataclasses.replace(
                running.descriptions.recorded(
                    instance.record, requests=instance.requests
                ),
                root=_ROOT,
                timeout=60,
            ),
            _ASKERS,
        )

    def _reboot_hard(self, instance):
        record = instance.record
        instance.node.compute.driver.services.hard_reboots.hard_reboot(
            None, record, None, instance.blank_disks(), instance.requests
        )
        record.save()

    def evacuate(self, instance, node, trouble=None):
        """Build an instance of a host that is down on another one."""
        wanted = self.candidate(node, instance.wish.groups)
        if wanted is None:
            return None
        self.placement.allocate(instance.uuid, wanted)
        migration = self.database.add_migration(
            instance, node, records.EVACUATION, instance.wish
        )
        with self.troubled(node, trouble):
            done = self._evacuate(instance, node, migration)
        if done:
            instance.node.evacuated.append(instance)
            instance.node = node
            instance.resources = instance.context.new_resources
            instance.state, instance.context = 'active', None
            migration.status = 'done'
        else:
            instance.state, migration.status = 'error', 'failed'
            if node.compute is not None:
                self._free(instance, node)
        return done

    def _evacuate(self, instance, node, migration):
        allocations = []

        def claim():
            allocations.append(node.compute.allocations_of(instance.uuid))
            instance.context = records.context_of(
                migration, node.compute.tracker.claim(*allocations)
            )
            self.update(node)

        def drop():
            node.compute.tracker.release(instance.context.new_resources)
            self.update(node)

        def spawn():
            self._spawn(
                node,
                instance,
                *allocations,
                resources=instance.context.new_resources,
                keeps_disks=node.host.store.is_shared,
            )

        if not self.attempt(node, claim):
            return False
        if self.attempt(node, spawn):
            return True
        self.attempt(node, drop)
        return False

    def _free(self, consumer, node):
        """Take a consumer's allocations on one host away."""
        mine = {node.root} | {r.uuid for r in self.placement.below(node.root)}
        held = self.placement.allocations.get(consumer.uuid, {})
        self.placement.free(consumer.uuid, mine & held.keys())
