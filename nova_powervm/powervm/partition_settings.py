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

"""Reads and writes the settings of an LPAR in its document."""

from collections.abc import Collection
from typing import Any

from pypowervm.wrappers import base_partition

from nova_powervm.lpar import settings

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
# Those with an attribute of the LPAR itself, to read and to write.
_OTHERS = {
    'processor_compatibility': (
        'pending_proc_compat_mode',
        'proc_compat_mode',
    ),
    'srr_capability': ('srr_enabled', 'srr_enabled'),
    'secure_boot': ('pending_secure_boot', 'pending_secure_boot'),
}


def read(lpar: Any) -> settings.Settings:
    """Return the settings of an LPAR.

    :param lpar: pypowervm's wrapper.
    """
    others = {name: getattr(lpar, how[0]) for name, how in _OTHERS.items()}
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
    found = _attributes(config.shared_proc_cfg, _SHARED)
    found['uncapped'] = (
        config.sharing_mode == base_partition.SharingMode.UNCAPPED
    )
    if not found['uncapped']:
        found['shared_weight'] = None
    return found


def write(
    lpar: Any, wanted: settings.Settings, names: Collection[str]
) -> None:
    """Write some settings into the document of an LPAR.

    :param lpar: pypowervm's wrapper.
    :param wanted: All settings that it is to have.
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
    """Remove what capped processors have not."""
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
