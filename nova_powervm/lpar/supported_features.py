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

"""Rules that refuse extra specs, image properties and kinds of volumes.

Nova passes every extra spec and image property to every driver, although most
are for libvirt, and does not report those that have no effect. A request that
the driver cannot fulfill is refused. The same holds for what Cinder says about
a volume. What is not refused, and why, is on the pages for administrators.
"""

import dataclasses
import fnmatch
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm.devices import accelerators

FALSE = frozenset({'false', '0', 'no', 'off', 'n', 'f'})
_POWER = frozenset({'ppc64', 'ppc64le'})
_SHARED = (
    "LPARs share the host's processors; a flavor for PowerVM has "
    'powervm:dedicated_proc=true'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """The refusal of a set of related keys.

    :param reason: The reason, as it follows "but".
    :param extra_specs: Extra specs of flavors; ``*`` and ``?`` are wildcards.
    :param spared: Those that the wildcards do not mean.
    :param properties: Image properties, under Nova's current names.
    :param connection: Keys of the connection information of volumes.
    :param nothing: Values, in lower case, that ask for nothing or for what
        every LPAR has anyway.
    :param only: The values, in lower case, that are refused; empty for all
        values but ``nothing``.
    """

    reason: str
    extra_specs: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    connection: tuple[str, ...] = ()
    nothing: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()

    def refuses(self, value: str) -> bool:
        """Return whether a value of one of the keys is refused."""
        value = value.strip().lower()
        return value in self.only if self.only else value not in self.nothing


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
    *,
    spared: str = '',
    connection: str = '',
    only: frozenset[str] = frozenset(),
) -> Rule:
    return Rule(
        reason,
        tuple(extra_specs.split()),
        tuple(spared.split()),
        tuple(properties.split()),
        tuple(connection.split()),
        nothing,
        only,
    )


#: A key has one rule at most.
RULES: tuple[Rule, ...] = (
    _refused(
        f'Nova knows only {accelerators.PROFILE}, so no accelerator is '
        'attached',
        'accel:*',
        spared=accelerators.PROFILE,
    ),
    _refused(
        'devices are requested by resource groups', 'pci_passthrough:alias'
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
    _refused(
        'memory is not encrypted',
        'hw:mem_encryption',
        'hw_mem_encryption',
        FALSE,
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
    _refused(
        'disks are not encrypted',
        'hw:ephemeral_encryption',
        'hw_ephemeral_encryption',
        FALSE,
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
    _refused(
        'a flavor for PowerVM has powervm:proc_units and '
        'powervm:shared_weight',
        'quota:*',
        spared='quota:cpu_period quota:*_shares_share',
        nothing=frozenset({'0', '-1', 'normal'}),
    ),
    _refused(
        'LPARs are made for AIX and Linux, and IBM i would not start',
        properties='os_distro',
        only=frozenset({'ibmi'}),
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
)


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


def refused_connection(
    promises: Mapping[str, object],
) -> Iterator[RefusedRequest]:
    """Yield what keeps a volume from being connected.

    :param promises: What Nova and Cinder say about the volume.
    """
    for key, value in promises.items():
        if value:
            text = '' if isinstance(value, Mapping) else str(value)
            yield from _refused_requests(rule_of_connection(key), key, text)


def rule_of_extra_spec(key: str) -> Rule | None:
    """Return the rule that can refuse an extra spec."""
    for rule in RULES:
        if _matches(key, rule.extra_specs) and not _matches(key, rule.spared):
            return rule
    return None


def rule_of_property(name: str) -> Rule | None:
    """Return the rule that can refuse an image property."""
    return next((rule for rule in RULES if name in rule.properties), None)


def rule_of_connection(key: str) -> Rule | None:
    """Return the rule that can refuse what Cinder says."""
    return next((rule for rule in RULES if key in rule.connection), None)


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)


def _refused_requests(
    rule: Rule | None, key: str, value: str
) -> Iterator[RefusedRequest]:
    if rule is not None and rule.refuses(value):
        yield RefusedRequest(key, value, rule.reason)
