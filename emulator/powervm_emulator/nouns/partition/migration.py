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

"""Live migration of a partition from one system of a site to another.

While it runs both systems show the partition. One of them is a shell, which
has no guest: the new one, until the guest has come, and the old one then.
"""

from powervm_emulator.core import content
from powervm_emulator.core import errors
from powervm_emulator.core import host as host_module
from powervm_emulator.core import jobs
from powervm_emulator.nouns.client_network_adapter import model as net_adapter
from powervm_emulator.nouns.client_network_adapter import (
    update as net_adapter_update,
)
from powervm_emulator.nouns.partition import document
from powervm_emulator.nouns.partition import lifecycle
from powervm_emulator.nouns.partition import migration_checks
from powervm_emulator.nouns.partition import model as partition_module
from powervm_emulator.nouns.partition import power
from powervm_emulator.nouns.partition import virtual_slots
from powervm_emulator.nouns.virtual_scsi_mapping import model as scsi_mapping
from powervm_emulator.nouns.virtual_scsi_mapping import update as scsi_update
from powervm_emulator.nouns.volume_group import physical_volume

Element = content.Element
Host = host_module.Host
JobError = jobs.JobError
Mapping = scsi_mapping.Mapping
Partition = partition_module.Partition
Plan = migration_checks.Plan
_STARTS = partition_module.MIGRATION_STARTS
_RUNS = partition_module.MIGRATION_RUNS
_FAILED = partition_module.MIGRATION_FAILED
_NOT = partition_module.NOT_MIGRATING
_UNDER_WAY = (_STARTS, _RUNS)
_POOL_ID = f'{partition_module.SHARED}/SharedProcessorPoolID'
_DONE = {'returnCode': '0'}


class MigrateValidate(jobs.Operation):
    """Say whether a partition can migrate, with the parameters of Migrate."""

    target: Partition

    def finish(self) -> dict[str, str]:
        """See the base class."""
        migration_checks.plan(self.host, self.target, self.parameters)
        return _DONE


class Migrate(jobs.Operation):
    """Move a running partition to another system.

    The first stage makes the shell, the second its adapters, and the last
    one lets the guest go on there.
    """

    target: Partition
    _has_started = False

    def start(self) -> None:
        """See the base class."""
        plan = migration_checks.plan(self.host, self.target, self.parameters)
        self._plan = plan
        with plan.host.changing():
            self._shell = _make_shell(plan, self.target)
            self._has_started = True
            _set(self.host, self.target, partition_module.MIGRATING, _STARTS)
            _count(plan.host, self._shell)

    def proceed(self) -> bool:
        """See the base class."""
        if self.target.migration_state == _RUNS:
            return True
        try:
            with self._plan.host.changing():
                _connect(self._plan, self._shell)
                _map(self._plan, self.host, self.target, self._shell)
        except errors.RestError as error:
            raise JobError(error.message) from error
        migrating = partition_module.MIGRATING
        _set(self._plan.host, self._shell, migrating, _RUNS)
        _set(self.host, self.target, migrating, _RUNS)
        return False

    def finish(self) -> dict[str, str]:
        """See the base class."""
        self._go_on()
        running = partition_module.RUNNING
        with self._plan.host.changing():
            _set(self._plan.host, self._shell, running, _NOT)
            _remove(self.host, self.target)
        return _DONE

    def abort(self) -> None:
        """See the base class."""
        if self._has_started and not self.stopped():
            _settle(self.host, self.target)

    def leave(self, state: str) -> None:
        """Leave two partitions, and the old one in a state.

        :param state: if it is not activated, the guest has gone on at the
            destination.
        """
        if state == partition_module.NOT_ACTIVATED:
            self.proceed()
            self._go_on()
        _fail(self.host, self.target)
        power.set_state(self.host, self.target, state, self.target.rmc_state)

    def stopped(self) -> str:
        """See the base class: an abort, or a system without power."""
        there, shell = self._plan.host, self._shell
        is_there = there.find(shell.kind, shell.uuid) is shell
        if is_there and self.target.migration_state in _UNDER_WAY:
            return ''
        return (
            f'The migration of {self.target.name} has been stopped: its '
            f'state is {self.target.migration_state}.'
        )

    def _go_on(self) -> None:
        """Let the guest go on at the destination."""
        self._shell.is_shell, self.target.is_shell = False, True
        self._shell.count = self.target.count


class MigrateAbort(jobs.Operation):
    """Stop a migration and undo it, at the system where the guest is."""

    target: Partition

    def finish(self) -> dict[str, str]:
        """See the base class."""
        name = self.target.name
        if self.target.migration_state not in _UNDER_WAY:
            raise JobError(f'There is no migration of {name} to stop.')
        if self.target.is_shell:
            raise JobError(
                f'The migration of {name} is stopped at the other system.'
            )
        _settle(self.host, self.target)
        return _DONE


class MigrateRecover(jobs.Operation):
    """Leave a partition where its guest is, after a migration has failed.

    Parameters: ``Force`` true does here what can be done without the other
    system.
    """

    target: Partition

    def finish(self) -> dict[str, str]:
        """See the base class."""
        name = self.target.name
        if self.target.migration_state != _FAILED:
            raise JobError(
                f'There is no failed migration of {name}: its state is '
                f'{self.target.migration_state}.'
            )
        forced = self.parameters.get('Force', '').lower() == 'true'
        for other, found in _pair(self.host, self.target):
            if other.is_off and not forced:
                raise JobError(
                    f'{found.system.name} does not answer, which has a part '
                    f'in the migration of {name}.'
                )
        _settle(self.host, self.target)
        return _DONE


def interrupt(host: Host) -> None:
    """Let the migrations of a host that has lost its power fail."""
    for partition in under_way(host):
        _fail(host, partition)


def under_way(host: Host) -> list[Partition]:
    """Return the partitions that migrate to or from a host."""
    return [
        partition
        for partition in host.of_type(Partition)
        if partition.migration_state in _UNDER_WAY
    ]


def _make_shell(plan: Plan, partition: Partition) -> Partition:
    """Make the shell of a partition, with its memory and processors."""
    there, system = plan.host, plan.system
    element = content.copy(partition.element)
    content.remove(element, ['Metadata', 'ClientNetworkAdapters'])
    shell = Partition(partition.kind, partition.uuid, element, system)
    shell.address, shell.is_shell = partition.address, True
    prefix = partition.integer('MACAddressPrefix')
    document.set_identity(shell, lifecycle.next_id(there, system), prefix)
    shell.put('PartitionState', partition_module.MIGRATING)
    shell.put('MigrationState', _STARTS)
    for path, name, value in (
        (partition_module.SHARED, _POOL_ID, plan.pool_id),
        # Of hosts that are newer than pypowervm's captures.
        ('SystemName', 'SystemName', system.name),
    ):
        if content.find(element, path) is not None:
            shell.put(name, value)
    document.sort(element)
    there.add(shell)
    system.link(shell)
    system.take(shell.held)
    there.touch(system)
    return shell


def _connect(plan: Plan, shell: Partition) -> None:
    """Give a shell the network adapters of its partition.

    :raises errors.RestError: the destination cannot have one any more.
    """
    for port in plan.ports:
        body = content.copy(port.source.element)
        content.remove(body, ['Metadata', 'VirtualNetworks'])
        link = content.leaf('AssociatedVirtualSwitch')
        link.append(content.link(port.switch.event_path))
        content.replace(body, link)
        pvid, *tagged = port.vlans
        content.put(body, 'PortVLANID', pvid)
        content.put(body, 'TaggedVLANIDs', ' '.join(map(str, tagged)))
        net_adapter_update.build(plan.host, shell, body)


def _map(
    plan: Plan, host: Host, partition: Partition, shell: Partition
) -> None:
    """Give a shell the storage of its partition.

    :raises errors.RestError: a server cannot have some any more.
    """
    by_vios: dict[Partition, list[Element]] = {}
    used: dict[Partition, set[int]] = {}
    at: dict[int, int] = {}
    for mapping in migration_checks.mappings(host, partition):
        slot = mapping.client_slot or 0
        server = plan.servers[slot]
        vios = server.vios
        taken = used.setdefault(vios, virtual_slots.taken(plan.host, vios))
        if slot not in at:
            at[slot] = server.slot or virtual_slots.pick(
                vios, content.new('ServerAdapter'), taken
            )
            taken.add(at[slot])
        posted = _posted(mapping, shell, at[slot])
        by_vios.setdefault(vios, []).append(posted)
    for vios, posted in by_vios.items():
        body = content.copy(vios.element)
        content.section(body, scsi_mapping.SECTION).extend(posted)
        scsi_update.settle(plan.host, vios, body)
        vios.element = body
        plan.host.touch(vios, scsi_mapping.DETAIL)


def _posted(mapping: Mapping, shell: Partition, server_slot: int) -> Element:
    """Return what a client would post for the same mapping elsewhere."""
    slot = scsi_mapping.SLOT
    posted = content.new(
        scsi_mapping.MAPPING,
        content.link(shell.event_path, scsi_mapping.LPAR_LINK),
        content.new(
            scsi_mapping.CLIENT, content.leaf(slot, mapping.client_slot or 0)
        ),
        content.new(scsi_mapping.SERVER, content.leaf(slot, server_slot)),
    )
    for name in ('Storage', 'TargetDevice'):
        part = content.find(mapping.element, name)
        if part is not None:
            posted.append(content.copy(part))
    target = Mapping(posted).target
    if target is not None:
        content.remove(target, ['TargetName', 'UniqueDeviceID'])
    return posted


def _pair(host: Host, partition: Partition) -> list[tuple[Host, Partition]]:
    """Return a partition that migrates, and the other one of its migration."""
    return [
        (host, partition),
        *(
            (other, found)
            for other in host.site.hosts
            for found in other.of_type(Partition)
            if found is not partition
            and found.uuid == partition.uuid
            and found.migration_state != _NOT
        ),
    ]


def _settle(host: Host, partition: Partition) -> None:
    """Leave a partition where its guest is, and no shell.

    A system without power keeps what it has.
    """
    for other, found in _pair(host, partition):
        if other.is_off:
            continue
        with other.changing():
            if found.is_shell:
                _remove(other, found)
                continue
            state = found.state
            if state == partition_module.MIGRATING:
                state = partition_module.RUNNING
            _set(other, found, state, _NOT)


def _fail(host: Host, partition: Partition) -> None:
    """Leave a partition where its guest is, if that lives, and its shell."""
    for other, found in _pair(host, partition):
        with other.changing():
            fail(other, found)


def fail(host: Host, partition: Partition) -> None:
    """Let a migration fail for one of its systems."""
    state = partition_module.RUNNING
    if partition.is_shell or host.is_off:
        state = partition_module.NOT_ACTIVATED
    if state == partition_module.NOT_ACTIVATED:
        partition.put('ResourceMonitoringControlState', 'inactive')
    _set(host, partition, state, _FAILED)


def _remove(host: Host, shell: Partition) -> None:
    """Remove a shell with its adapters and mappings."""
    for vios in scsi_mapping.servers(shell, host):
        _unmap(host, vios, shell)
    for adapter in list(host.of_type(net_adapter.Adapter, shell)):
        net_adapter_update.drop(host, adapter)
    shell.system.take(-shell.held)
    shell.put('PartitionState', partition_module.NOT_ACTIVATED)
    shell.put('MigrationState', _NOT)
    _count(host, shell)
    host.touch(shell.system)
    lifecycle.delete(host, shell)


def _unmap(host: Host, vios: Partition, client: Partition) -> None:
    """Remove all mappings of a partition, whatever its server does."""
    gone = [
        mapping
        for mapping in scsi_mapping.of(vios)
        if mapping.client_uuid == client.uuid.upper()
    ]
    for mapping in gone:
        mapping.element.getparent().remove(mapping.element)
    left = {mapping.name for mapping in scsi_mapping.of(vios)}
    free = {
        mapping.name
        for mapping in gone
        if mapping.kind == scsi_mapping.VOLUME and mapping.name not in left
    }
    physical_volume.mark(vios.element, free, free=True)
    if gone:
        host.touch(vios, scsi_mapping.DETAIL)


def _set(
    host: Host, partition: Partition, state: str, migration_state: str
) -> None:
    partition.put('MigrationState', migration_state)
    power.set_state(host, partition, state, partition.rmc_state)
    _count(host, partition)


def _count(host: Host, partition: Partition) -> None:
    """Write how many migrations of its system are in progress."""
    system = partition.system
    number = [one.system for one in under_way(host)].count(system)
    if system.count_migrations(number):
        host.touch(system)


class RemoteRestart(jobs.Operation):
    """Restart elsewhere what ran on a lost system; this is not emulated."""

    of_hmc = True

    def start(self) -> None:
        """See the base class."""
        raise jobs.JobError('The emulator restarts nothing remotely.')


BY_NAME: dict[str, type[jobs.Operation]] = {
    'Migrate': Migrate,
    'MigrateValidate': MigrateValidate,
    'MigrateAbort': MigrateAbort,
    'MigrateRecover': MigrateRecover,
    'RemoteRestart': RemoteRestart,
}
