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

"""Rules for the extra specs and image properties that Nova knows.

Nova passes every extra spec and image property to every driver, although most
are for libvirt, and does not report those that have no effect. The rules here
decide about each: a request that the driver cannot fulfill is refused. The
same holds for what Cinder says about a volume.
"""

import dataclasses
import enum
import fnmatch
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.devices import accelerators

FALSE = frozenset({'false', '0', 'no', 'off', 'n', 'f'})
_POWER = frozenset({'ppc64', 'ppc64le'})
_SHARED = (
    "LPARs share the host's processors; a flavor for PowerVM has "
    'powervm:dedicated_proc=true'
)


class Decision(enum.StrEnum):
    """What happens to a request, or to what Cinder says about a volume."""

    #: Nova, Placement, PowerVM or this driver acts on it.
    HEEDED = 'heeded'
    #: It has no effect, and the user loses nothing.
    PASSED_OVER = 'passed over'
    #: The guest would not be what the user asked for.
    REFUSED = 'refused'


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """The decision about a set of related keys.

    :param decision: What happens to the keys.
    :param reason: The reason; for refused keys it follows "but".
    :param extra_specs: Extra specs of flavors; ``*`` and ``?`` are wildcards.
    :param properties: Image properties, under Nova's current names.
    :param connection: Keys of the connection information of volumes.
    :param nothing: Values, in lower case, that ask for nothing or for what
        every LPAR has anyway.
    :param only: The values, in lower case, that the decision is about; empty
        for all others.
    """

    decision: Decision
    reason: str
    extra_specs: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    connection: tuple[str, ...] = ()
    nothing: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()

    def refuses(self, value: str) -> bool:
        """Return whether a value of one of the keys is refused."""
        if self.decision is not Decision.REFUSED:
            return False
        asked = value.strip().lower()
        return asked in self.only if self.only else asked not in self.nothing


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that the driver cannot fulfill.

    :param key: The extra spec, image property or key of a volume.
    :param value: Its value; empty for a long one.
    :param reason: Why it cannot be fulfilled.
    """

    key: str
    value: str
    reason: str

    def __str__(self) -> str:
        value = f'={self.value}' * bool(self.value)
        return f'{self.key}{value}, but {self.reason}'


def _refused(
    reason: str,
    extra_specs: str = '',
    properties: str = '',
    nothing: frozenset[str] = frozenset(),
    connection: str = '',
    only: frozenset[str] = frozenset(),
) -> Rule:
    return Rule(
        Decision.REFUSED,
        reason,
        tuple(extra_specs.split()),
        tuple(properties.split()),
        tuple(connection.split()),
        nothing,
        only,
    )


def _passed_over(
    reason: str,
    extra_specs: str = '',
    properties: str = '',
    connection: str = '',
) -> Rule:
    return dataclasses.replace(
        _refused(reason, extra_specs, properties, connection=connection),
        decision=Decision.PASSED_OVER,
    )


def _supported(
    reason: str,
    extra_specs: str = '',
    properties: str = '',
    connection: str = '',
) -> Rule:
    return dataclasses.replace(
        _passed_over(reason, extra_specs, properties, connection),
        decision=Decision.HEEDED,
    )


#: The first rule with a key decides.
RULES: tuple[Rule, ...] = (
    _supported(
        'Placement and the driver act on it: it requests devices',
        'resources*:* trait*:* group_policy',
        'traits_required',
    ),
    _supported(
        'Cyborg and the driver act on it: it requests accelerators',
        accelerators.PROFILE,
    ),
    _refused(
        f'Nova knows only {accelerators.PROFILE}, so no accelerator is '
        'attached',
        'accel:*',
    ),
    _refused(
        'devices are requested by resource groups', 'pci_passthrough:alias'
    ),
    _supported(
        "filters of Nova's scheduler act on it, if they are enabled",
        'capabilities:* aggregate_instance_extra_specs:*',
        'img_hv_type img_hv_requested_version hw_vm_mode',
    ),
    _refused(
        'the host has POWER processors',
        properties='hw_architecture hw_emulation_architecture',
        nothing=_POWER,
    ),
    _refused(
        _SHARED,
        'hw:cpu_policy hw:cpu_thread_policy hw:emulator_threads_policy',
        'hw_cpu_policy hw_cpu_thread_policy',
        frozenset({'shared', 'prefer', 'share'}),
    ),
    _refused(
        _SHARED,
        'hw:cpu_dedicated_mask hw:cpu_realtime_mask',
        'hw_cpu_realtime_mask',
    ),
    _refused(_SHARED, 'hw:cpu_realtime', nothing=FALSE),
    _refused(
        'the guest sees each vCPU as a core with the number of threads of '
        'its POWER generation',
        'hw:cpu_max_sockets hw:cpu_max_cores hw:cpu_max_threads',
        'hw_cpu_max_sockets hw_cpu_max_cores hw_cpu_max_threads',
    ),
    _passed_over(
        'a preference; the guest sees each vCPU as a core',
        'hw:cpu_sockets hw:cpu_cores hw:cpu_threads',
        'hw_cpu_sockets hw_cpu_cores hw_cpu_threads',
    ),
    _refused(
        "the hypervisor places an LPAR's processors and memory",
        'hw:numa_nodes hw:numa_cpus.* hw:numa_mem.*',
        'hw_numa_nodes hw_numa_cpus hw_numa_mem',
    ),
    _refused(
        "the hypervisor places an LPAR's processors and memory",
        'hw:pci_numa_affinity_policy',
        'hw_pci_numa_affinity_policy',
        frozenset({'preferred', 'legacy'}),
    ),
    _refused(
        "the page size of an LPAR's memory cannot be set",
        'hw:mem_page_size',
        'hw_mem_page_size',
        frozenset({'small', 'any'}),
    ),
    _supported(
        "PowerVM never pages out an LPAR's memory",
        'hw:locked_memory',
        'hw_locked_memory',
    ),
    _refused(
        'memory is not encrypted',
        'hw:mem_encryption',
        'hw_mem_encryption',
        FALSE,
    ),
    _passed_over(
        'takes effect only with hw:mem_encryption, which is refused',
        'hw:mem_encryption_model',
        'hw_mem_encryption_model',
    ),
    _refused('LPARs get no persistent memory', 'hw:pmem'),
    _refused(
        'performance counters are not enabled for LPARs',
        'hw:pmu',
        'hw_pmu',
        FALSE,
    ),
    _refused(
        'PowerVM has its own firmware, neither BIOS nor UEFI',
        properties='hw_firmware_type',
    ),
    _refused(
        'PowerVM has its own firmware',
        properties='hw_firmware_stateless',
        nothing=FALSE,
    ),
    _refused(
        'a flavor for PowerVM has powervm:secure_boot',
        'os:secure_boot',
        'os_secure_boot',
        frozenset({'disabled', 'optional'}),
    ),
    _refused(
        'LPARs get no trusted platform module',
        'hw:tpm_version hw:tpm_model',
        'hw_tpm_version hw_tpm_model',
    ),
    _passed_over(
        'takes effect only with hw:tpm_version, which is refused',
        'hw:tpm_secret_security',
    ),
    _refused(
        'disks are not encrypted',
        'hw:ephemeral_encryption',
        'hw_ephemeral_encryption',
        FALSE,
    ),
    _passed_over(
        'takes effect only with hw:ephemeral_encryption, which is refused',
        'hw:ephemeral_encryption_format',
        'hw_ephemeral_encryption_format hw_ephemeral_encryption_secret_uuid',
    ),
    _refused('LPARs get no IOMMU', 'hw:viommu_model', 'hw_viommu_model'),
    _refused(
        'LPARs get no watchdog',
        'hw:watchdog_action',
        'hw_watchdog_action',
        frozenset({'disabled', 'none'}),
    ),
    _refused('LPARs get no sound card', 'hw:sound_model', 'hw_sound_model'),
    _refused(
        'LPARs get no emulated USB controller',
        'hw:usb_model hw:redirected_usb_ports',
        'hw_usb_model hw_redirected_usb_ports',
        frozenset({'none', '0'}),
    ),
    _refused(
        'an LPAR has a single console',
        'hw:serial_port_count',
        'hw_serial_port_count',
        frozenset({'0', '1'}),
    ),
    _passed_over('takes effect only with quota:cpu_quota', 'quota:cpu_period'),
    _passed_over(
        'takes effect only with a shares_level of custom, which is refused',
        'quota:*_shares_share',
    ),
    _refused(
        'a flavor for PowerVM has powervm:proc_units and '
        'powervm:shared_weight',
        'quota:*',
        nothing=frozenset({'0', '-1', 'normal'}),
    ),
    _supported('the driver acts on them: see below', 'powervm:*'),
    _passed_over(
        "for VMware's driver only",
        'vmware:*',
        'hw_disk_type img_linked_clone',
    ),
    _passed_over(
        'selects emulated hardware; an LPAR has virtual SCSI and virtual '
        'Ethernet adapters',
        'hw:boot_menu hw:vif_multiqueue_enabled hw:virtio_packed_ring '
        'hw_video:ram_max_mb',
        'hw_boot_menu hw_cdrom_bus hw_disk_bus hw_floppy_bus hw_input_bus '
        'hw_ipxe_boot hw_machine_type hw_maxphysaddr_bits '
        'hw_maxphysaddr_mode hw_pointer_model hw_rescue_bus hw_scsi_model '
        'hw_time_hpet '
        'hw_video_model hw_video_ram hw_vif_model hw_vif_multiqueue_enabled '
        'hw_virtio_packed_ring',
    ),
    _passed_over(
        'guests see no hypervisor signature to hide',
        'hide_hypervisor_id hw:hide_hypervisor_id',
        'img_hide_hypervisor_id',
    ),
    _passed_over(
        'the processor gives every guest a random number generator',
        'hw_rng:allowed hw_rng:rate_bytes hw_rng:rate_period',
        'hw_rng_model',
    ),
    _passed_over(
        'for quiesced snapshots, which are not supported yet',
        properties='hw_qemu_guest_agent os_require_quiesce',
    ),
    _supported(
        'for the image of a rescue system: it must be disk, or missing',
        properties='hw_rescue_device',
    ),
    _supported(
        'Nova acts on it, before it calls the driver or while it reads the '
        'image',
        properties='img_bdm_v2 img_block_device_mapping img_mappings '
        'img_root_device_name img_config_drive img_owner_id img_signature '
        'img_signature_hash_method img_signature_certificate_uuid '
        'img_signature_key_type',
    ),
    _refused(
        'LPARs are made for AIX and Linux, and IBM i would not start',
        properties='os_distro',
        only=frozenset({'ibmi'}),
    ),
    _passed_over(
        'describes the image, or was for drivers that Nova has removed',
        properties='os_type os_admin_user os_command_line '
        'os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh '
        'hw_auto_disk_config hw_device_id img_bittorrent img_cache_in_nova '
        'img_compression_level img_use_agent img_version',
    ),
    _refused(
        'the host does not limit the requests to a volume; a back end can '
        '(consumer=back-end)',
        connection='qos_specs',
    ),
    _refused(
        'the guest could write to the volume',
        nothing=frozenset({'rw'}),
        connection='access_mode',
    ),
    _refused(
        'the host does not decrypt volumes',
        nothing=FALSE,
        connection='encrypted',
    ),
    _refused(
        'the driver does not attach a volume to several servers',
        nothing=FALSE,
        connection='multiattach',
    ),
    _refused(
        'only the modes of os-brick are known',
        nothing=frozenset({'transparent', 'sam', 'sam2', 'sam3-flat'}),
        connection='addressing_mode',
    ),
    _supported(
        'the Virtual I/O Servers look for the volume there: at one port of '
        'the array or several',
        connection='target_wwn target_wwns target_lun target_luns '
        'initiator_target_map',
    ),
    _passed_over(
        'the Virtual I/O Servers always use all paths that they find',
        connection='enforce_multipath',
    ),
    _passed_over(
        'the guest sees what the Virtual I/O Servers make of the disk',
        connection='discard logical_block_size physical_block_size',
    ),
    _passed_over('PowerVM hosts do not cache volumes', connection='cacheable'),
    _passed_over(
        'the volume is identified by its id and the UDID of its disk, and '
        'looked for in any case',
        connection='target_discovered volume_id wwn map_info',
    ),
)


def rule_of_extra_spec(key: str) -> Rule | None:
    """Return the rule for an extra spec, or None if the key is unknown."""
    for rule in RULES:
        for pattern in rule.extra_specs:
            if fnmatch.fnmatchcase(key, pattern):
                return rule
    return None


def rule_of_property(name: str) -> Rule | None:
    """Return the rule for an image property, or None if it is unknown."""
    return next((rule for rule in RULES if name in rule.properties), None)


def refused_extra_specs(
    extra_specs: Mapping[str, str],
) -> Iterator[RefusedRequest]:
    """Yield the extra specs of a flavor that must be refused.

    :param extra_specs: The flavor's extra specs.
    :returns: The refused ones, in the order of the extra specs.
    """
    for key, value in extra_specs.items():
        yield from _refused_requests(rule_of_extra_spec(key), key, value)


def refused_properties(
    properties: Mapping[str, object],
) -> Iterator[RefusedRequest]:
    """Yield the properties of an image that must be refused.

    :param properties: The properties that are set, by Nova's names.
    """
    for name, value in properties.items():
        yield from _refused_requests(rule_of_property(name), name, str(value))


def rule_of_connection(key: str) -> Rule | None:
    """Return the rule for what Cinder says, or None if it is unknown."""
    return next((rule for rule in RULES if key in rule.connection), None)


def refused_connection(
    promises: Mapping[str, object],
) -> Iterator[RefusedRequest]:
    """Yield what keeps a volume from being connected.

    :param promises: What Nova and Cinder say about the volume.
    """
    for key, value in promises.items():
        if value:
            shown = '' if isinstance(value, Mapping) else str(value)
            yield from _refused_requests(rule_of_connection(key), key, shown)


def _refused_requests(
    rule: Rule | None, key: str, value: str
) -> Iterator[RefusedRequest]:
    if rule is not None and rule.refuses(value):
        yield RefusedRequest(key, value, rule.reason)
