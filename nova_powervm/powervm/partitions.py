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

"""Creates, starts, stops and deletes LPARs, and writes their settings."""

import contextlib
import json
import math
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging
from pypowervm import adapter as pvm_adapter
from pypowervm import const
from pypowervm import exceptions as pvm
from pypowervm.tasks import power
from pypowervm.tasks import power_opts
from pypowervm.utils import lpar_builder
from pypowervm.wrappers import base_partition
from pypowervm.wrappers import logical_partition

from nova_powervm import exception
from nova_powervm.devices import slots
from nova_powervm.lpar import partition
from nova_powervm.lpar import settings
from nova_powervm.ops import interfaces
from nova_powervm.powervm import rest_errors
from nova_powervm.powervm import system

LOG = logging.getLogger(__name__)

_MEMORY = {'memory_mb': 'desired', 'min_mem': 'min', 'max_mem': 'max'}
_DEDICATED = {'vcpus': 'desired', 'min_vcpu': 'min', 'max_vcpu': 'max'}
_SHARED = {
    'vcpus': 'desired_virtual',
    'min_vcpu': 'min_virtual',
    'max_vcpu': 'max_virtual',
    'proc_units': 'desired_units',
    'min_proc_units': 'min_units',
    'max_proc_units': 'max_units',
    'shared_weight': 'uncapped_weight',
}
_WEIGHT = 'UncappedWeight'
# Setting -> the attributes of the LPAR itself, to read it and to write it.
_OTHERS = {
    'processor_compatibility': (
        'pending_proc_compat_mode',
        'proc_compat_mode',
    ),
    'srr_capability': ('srr_enabled', 'srr_enabled'),
    'secure_boot': ('pending_secure_boot', 'pending_secure_boot'),
}

_LPAR = logical_partition.LPAR
_State = base_partition.LPARState
_STARTED = frozenset((_State.RUNNING, _State.OPEN_FIRMWARE))
_STOPPED = frozenset((_State.NOT_ACTIVATED,))


def read(lpar: Any) -> settings.Settings:
    """Return the settings of an LPAR.

    :param lpar: pypowervm's wrapper.
    """
    others = {
        name: getattr(lpar, attribute)
        for name, (attribute, _) in _OTHERS.items()
    }
    return settings.Settings(
        **_attributes(lpar.mem_config, _MEMORY),
        **_read_processors(lpar.proc_config),
        # A document without an element leaves the setting at its default.
        **{name: value for name, value in others.items() if value is not None},
    )


def _read_processors(config: Any) -> dict[str, Any]:
    if config.has_dedicated:
        return {
            **_attributes(config.dedicated_proc_cfg, _DEDICATED),
            'dedicated_proc': True,
            'dedicated_sharing_mode': config.sharing_mode
            or settings.DEFAULT_SHARING,
        }
    values = _attributes(config.shared_proc_cfg, _SHARED)
    values['uncapped'] = (
        config.sharing_mode == base_partition.SharingMode.UNCAPPED
    )
    if not values['uncapped']:
        values['shared_weight'] = None
    return values


def write(
    lpar: Any, wanted: settings.Settings, names: Collection[str]
) -> None:
    """Write some settings into the document of an LPAR.

    :param lpar: pypowervm's wrapper.
    :param wanted: All settings that the LPAR is to have.
    :param names: The names of those to write; the others stay.
    """
    _write(lpar.mem_config, _MEMORY, wanted, names)
    _write_processors(lpar, wanted, names)
    for name, (_, attribute) in _OTHERS.items():
        if name in names:
            setattr(lpar, attribute, getattr(wanted, name))


def _write_processors(
    lpar: Any, wanted: settings.Settings, names: Collection[str]
) -> None:
    config = lpar.proc_config
    if config.has_dedicated != wanted.dedicated_proc:
        if 'dedicated_proc' in names:
            lpar.proc_config = _new_processors(lpar.adapter, wanted)
        return
    if config.has_dedicated:
        _write(config.dedicated_proc_cfg, _DEDICATED, wanted, names)
        if 'dedicated_sharing_mode' in names:
            config.sharing_mode = wanted.dedicated_sharing_mode
        return
    _write(config.shared_proc_cfg, _SHARED, wanted, names)
    if 'uncapped' in names:
        config.sharing_mode = _sharing_mode(wanted)
        if not wanted.uncapped:
            _remove_weight(config.shared_proc_cfg.element)


def _remove_weight(shared: Any) -> None:
    """Remove the weight, which capped processors do not have."""
    weight = shared.find(_WEIGHT)
    if weight is not None:
        shared.remove(weight)


def _new_processors(adapter: Any, wanted: settings.Settings) -> Any:
    """Return a document of processors of the other kind."""
    build = base_partition.PartitionProcessorConfiguration
    if wanted.dedicated_proc:
        return build.bld_dedicated(
            adapter,
            wanted.vcpus,
            min_proc=wanted.min_vcpu,
            max_proc=wanted.max_vcpu,
            sharing_mode=wanted.dedicated_sharing_mode,
        )
    return build.bld_shared(
        adapter,
        wanted.proc_units,
        wanted.vcpus,
        sharing_mode=_sharing_mode(wanted),
        uncapped_weight=wanted.shared_weight,
        min_proc_unit=wanted.min_proc_units,
        max_proc_unit=wanted.max_proc_units,
        min_proc=wanted.min_vcpu,
        max_proc=wanted.max_vcpu,
    )


def _sharing_mode(wanted: settings.Settings) -> str:
    mode = base_partition.SharingMode
    return str(mode.UNCAPPED if wanted.uncapped else mode.CAPPED)


def _attributes(wrapper: Any, attributes: dict[str, str]) -> dict[str, Any]:
    return {
        name: getattr(wrapper, attribute)
        for name, attribute in attributes.items()
    }


def _write(
    wrapper: Any,
    attributes: dict[str, str],
    wanted: settings.Settings,
    names: Collection[str],
) -> None:
    for name, attribute in attributes.items():
        value = getattr(wanted, name)
        if name in names and value is not None:
            setattr(wrapper, attribute, value)


class RestPartitions(interfaces.Partitions):
    """The LPARs of one managed system.

    :param adapter: An adapter with a session that has logged on.
    :param managed: The managed system; new LPARs are checked against its
        rules.
    :param virtual_slots: ``[powervm]virtual_slots``, for new LPARs.
    :param clock: Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        adapter: pvm_adapter.Adapter,
        managed: system.RestSystem,
        virtual_slots: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._adapter = adapter
        self._managed = managed
        self.virtual_slots = virtual_slots

    def names(self) -> Mapping[str, str]:
        return {lpar.uuid.upper(): lpar.name for lpar in self._clients()}

    def states(self) -> Mapping[str, str]:
        return {lpar.uuid.upper(): lpar.state for lpar in self._clients()}

    @rest_errors.retried
    def _clients(self) -> list[Any]:
        with rest_errors.translated('reading the LPARs'):
            return [
                lpar
                for lpar in _LPAR.get(self._adapter)
                if not lpar.is_mgmt_partition
            ]

    @rest_errors.retried
    def find(self, uuid: str) -> partition.Partition | None:
        with rest_errors.translated(f'reading LPAR {uuid}'):
            try:
                return _partition(_LPAR.get(self._adapter, uuid=uuid))
            except pvm.HttpNotFound:
                return None

    @rest_errors.retried
    def state(self, uuid: str) -> str:
        """Read the quick property ``PartitionState``: one small request.

        :raises exception.RestError: The answer was an error, or had no state.
        """
        action = f'reading the state of LPAR {uuid}'
        with rest_errors.translated(action):
            try:
                response = self._adapter.read(
                    _LPAR.schema_type,
                    root_id=uuid,
                    suffix_type='quick',
                    suffix_parm='PartitionState',
                )
            except pvm.HttpNotFound as error:
                raise exception.PartitionNotFound(uuid=uuid) from error
        try:
            return str(json.loads(response.body))
        except ValueError as error:
            raise exception.RestError(action=action, reason=error) from error

    @rest_errors.retried
    def nvram(self, uuid: str) -> str | None:
        with rest_errors.translated(f'reading the NVRAM of LPAR {uuid}'):
            lpar = _LPAR.get(self._adapter, uuid=uuid, xag=[const.XAG.NVRAM])
        return None if lpar.nvram is None else str(lpar.nvram)

    @rest_errors.retried
    def obstacle(self, uuid: str) -> str | None:
        """Read an LPAR; if it runs, it needs an active RMC connection."""
        with rest_errors.translated(f'reading LPAR {uuid}'):
            try:
                _, reason = _LPAR.get(self._adapter, uuid=uuid).can_modify_io()
            except pvm.HttpNotFound:
                return None
        return None if reason is None else str(reason)

    def write(
        self,
        spec: partition.PartitionSpec,
        before_write: Callable[[], None],
        *,
        creates: bool,
    ) -> partition.Partition:
        """Write the document of an LPAR, in which all its slots are required.

        PowerVM does not start an LPAR without a required slot, and would
        silently leave out a desired one.
        """
        if not creates:
            return self._change(spec, before_write)
        with rest_errors.translated(f'creating LPAR {spec.name}'):
            document = self._build_checked(spec)
            before_write()
            if spec.nvram is None:
                return _partition(document.create())
            made = _create_with_nvram(document, spec.nvram)
            if made is None:
                document = self._build_checked(spec)
                before_write()
                made = document.create()
                LOG.warning(
                    'The host does not create LPAR %(name)s (%(uuid)s) with '
                    'the NVRAM of another host; it is created without.',
                    {'name': spec.name, 'uuid': spec.uuid},
                )
            return _partition(made)

    @rest_errors.retried_on_conflict
    def _change(
        self,
        spec: partition.PartitionSpec,
        before_write: Callable[[], None],
    ) -> partition.Partition:
        """Give a stopped LPAR the settings and slots of a spec.

        A setting that does not change stays. pypowervm's
        ``LPARBuilder.rebuild`` would replace all of them.
        """
        with rest_errors.translated(f'changing LPAR {spec.name}'):
            try:
                lpar = _LPAR.get(self._adapter, uuid=spec.uuid)
            except pvm.HttpNotFound as error:
                raise exception.PartitionNotFound(uuid=spec.uuid) from error
            if spec.settings is not None:
                write(lpar, spec.settings, spec.changed)
            self._set_slots(lpar, spec)
            before_write()
            return _partition(lpar.update())

    def _build_checked(self, spec: partition.PartitionSpec) -> Any:
        """Return the document of a new LPAR.

        :raises exception.PartitionConflict: pypowervm refuses the spec.
        """
        try:
            return self._build(spec)
        except ValueError as error:
            raise exception.PartitionConflict(
                name=spec.name, uuid=spec.uuid, reason=error
            ) from error

    def _build(self, spec: partition.PartitionSpec) -> Any:
        managed = self._managed.wrapper
        assert spec.settings is not None  # noqa: S101 - for the type checker
        attributes = {
            lpar_builder.NAME: spec.name,
            lpar_builder.UUID: spec.uuid,
            lpar_builder.ENV: base_partition.LPARType.AIXLINUX,
            lpar_builder.MEM: spec.settings.memory_mb,
            lpar_builder.VCPU: spec.settings.vcpus,
            lpar_builder.DED_PROCS: spec.settings.dedicated_proc,
            **_sharing(spec.settings),
            lpar_builder.MAX_IO_SLOTS: self.virtual_slots,
            lpar_builder.PHYS_IO_SLOTS: self._required(spec.slots),
        }
        defaults = lpar_builder.DefaultStandardize(managed)
        builder = lpar_builder.LPARBuilder(self._adapter, attributes, defaults)
        lpar = builder.build()
        write(lpar, spec.settings, read(lpar).changes(spec.settings))
        return lpar

    def _required(
        self, assignments: Iterable[partition.SlotAssignment]
    ) -> list[base_partition.IOSlot]:
        build = base_partition.IOSlot.bld
        return [
            build(
                self._adapter,
                slot.bus_group_required,
                slot.drc_index,
                required=True,
            )
            for slot in assignments
        ]

    def _set_slots(self, lpar: Any, spec: partition.PartitionSpec) -> None:
        """Leave an LPAR the slots of a spec only, all of them required."""
        owned = lpar.io_config.io_slots
        self._refuse_others(lpar, spec)
        kept = {
            slot.drc_index
            for slot in owned
            if slot.drc_index in spec.drc_indexes and slot.required
        }
        replaced = spec.freed | (spec.drc_indexes - kept)
        for slot in [s for s in owned if s.drc_index in replaced]:
            owned.remove(slot)
        owned.extend(
            self._required(s for s in spec.slots if s.drc_index not in kept)
        )

    def _refuse_others(self, lpar: Any, spec: partition.PartitionSpec) -> None:
        """Refuse an LPAR that has got a slot since the change was planned.

        Somebody has assigned the slot deliberately, and would lose it.
        """
        owned = {slot.drc_index for slot in lpar.io_config.io_slots}
        others = owned - spec.drc_indexes - spec.freed
        if others:
            raise exception.DocumentDiffers(
                name=lpar.name,
                wanted=slots.format_drc_indexes(spec.drc_indexes),
                found=slots.format_drc_indexes(owned),
                reason='somebody has assigned it '
                f'{slots.format_drc_indexes(others)} meanwhile, so nothing '
                'was changed',
            )

    @rest_errors.retried
    def delete(self, uuid: str) -> None:
        """Send no ETag: the LPAR must go even if it was just changed."""
        with (
            rest_errors.translated(f'deleting LPAR {uuid}'),
            contextlib.suppress(pvm.HttpNotFound),
        ):
            self._adapter.delete(_LPAR.schema_type, root_id=uuid)

    @rest_errors.retried
    def power_on(
        self, lpar: partition.Partition, *, to_sms: bool = False
    ) -> None:
        """Start an LPAR unless it is already running.

        :param to_sms: Whether to stop at the SMS menus of its firmware.
        """
        options = power_opts.PowerOnOpts()
        if to_sms:
            options.bootmode(power_opts.BootMode.SMS)
        with (
            rest_errors.translated(f'starting LPAR {lpar.name}'),
            self._unless_reached(lpar, _STARTED),
        ):
            power.PowerOp.start(lpar.handle, opts=options)

    @rest_errors.retried
    def power_off(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        options = _off_options(lpar.handle, hard)
        with (
            rest_errors.translated(f'stopping LPAR {lpar.name}'),
            self._unless_reached(lpar, _STOPPED),
        ):
            self._stop(lpar, options, timeout)

    def _stop(
        self,
        lpar: partition.Partition,
        options: power_opts.PowerOffOpts,
        timeout: int,
    ) -> None:
        """Run a job that stops an LPAR; ask its firmware if RMC fails.

        A connection that is reported as active can be broken. The firmware
        then tells the operating system of a power failure, which has the rest
        of the time.
        """
        limit = {'timeout': timeout} if timeout else {}
        began = self._clock()
        try:
            power.PowerOp.stop(lpar.handle, opts=options, **limit)
        except pvm.VMPowerOffFailure as error:
            left = math.ceil(timeout - (self._clock() - began))
            if not options.is_os or left <= 0:
                raise
            LOG.warning(
                'LPAR %(name)s could not be shut down by RMC (%(error)s), so '
                'its firmware is asked to.',
                {'name': lpar.name, 'error': error},
            )
            power.PowerOp.stop(
                lpar.handle, opts=options.vsp_normal(), timeout=left
            )

    @contextlib.contextmanager
    def _unless_reached(
        self, lpar: partition.Partition, states: frozenset[str]
    ) -> Iterator[None]:
        """Ignore a failed job if the LPAR is in the wanted state.

        The answer may have been lost after the job was done.
        """
        try:
            yield
        except pvm.Error as error:
            if self.state(lpar.uuid) not in states:
                raise
            LOG.warning(
                'LPAR %(name)s is in the wanted state although the job that '
                'brought it there failed: %(error)s',
                {'name': lpar.name, 'error': error},
            )

    def restart(
        self, lpar: partition.Partition, *, hard: bool, timeout: int = 0
    ) -> None:
        with rest_errors.translated(f'restarting LPAR {lpar.name}'):
            options = _off_options(lpar.handle, hard).restart()
            self._stop(lpar, options, timeout)

    def dump(self, lpar: partition.Partition) -> None:
        """Do not retry: a second dump would overwrite the first."""
        options = power_opts.PowerOffOpts().immediate()
        options.operation(power_opts.PowerOffOperation.DUMPRESTART)
        with rest_errors.translated(f'dumping LPAR {lpar.name}'):
            power.PowerOp.stop(lpar.handle, opts=options)


def _off_options(lpar: Any, hard: bool) -> power_opts.PowerOffOpts:
    options = power_opts.PowerOffOpts()
    return options.vsp_hard() if hard else options.soft_detect(lpar)


def _create_with_nvram(document: Any, nvram: str) -> Any:
    """Create an LPAR with an NVRAM; return None if the host refuses it.

    The refusal may quote the NVRAM, so nobody sees it. If its reason is
    another one, the host refuses the LPAR without the NVRAM, too.
    """
    document.nvram = nvram
    try:
        return document.create()
    except pvm.HttpError as error:
        if rest_errors.class_of_status(error).retryable:
            raise
    return None


def _sharing(wanted: settings.Settings) -> dict[str, str]:
    """Return pypowervm's attribute for capped processors, if they are."""
    if wanted.uncapped is not False:
        return {}
    return {lpar_builder.SHARING_MODE: base_partition.SharingMode.CAPPED}


def _partition(lpar: Any) -> partition.Partition:
    return partition.Partition(
        uuid=lpar.uuid.upper(),
        name=lpar.name,
        state=lpar.state,
        settings=read(lpar),
        slots={
            slot.drc_index: bool(slot.required)
            for slot in lpar.io_config.io_slots
        },
        handle=lpar,
        reference_code=_reference_code(lpar),
        virtual_slots=lpar.io_config.max_virtual_slots,
        obstacle=str(lpar.can_modify_io()[1] or ''),
        migration_state=str(lpar.migration_state),
    )


def _reference_code(lpar: Any) -> str:
    """Return an LPAR's reference code; zeros alone stand for none."""
    code = str(lpar.ref_code or '').strip()
    return code if code.strip('0') else ''
