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

"""Finds mistakes in extra specs that begin with ``powervm:``."""

import math
from collections.abc import Iterator
from collections.abc import Mapping

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.lpar import extra_specs
from nova_powervm.lpar import settings
from nova_powervm.tool.rules import flavor_lint
from nova_powervm.tool.rules import flavors

#: Overrides how many VCPU a server takes in Placement.
CHARGE = 'resources:VCPU'
_UNITS = frozenset({'proc_units', 'min_proc_units', 'max_proc_units'})


def lint_settings(
    flavor: flavors.Flavor, units_per_vcpu: float, ratio: float
) -> Iterator[flavor_lint.Finding]:
    """Find mistakes in the settings that a flavor names.

    :param flavor: The flavor.
    :param units_per_vcpu: ``[powervm]proc_units_factor``.
    :param ratio: ``[DEFAULT]cpu_allocation_ratio``.
    """
    described = _describe(flavor, units_per_vcpu)
    if described is None:
        yield from map(_refused, extra_specs.parse(flavor.extra_specs)[1])
        return
    yield from map(
        _refused,
        extra_specs.objections_in_flavor(
            described, has_slots=_has_devices(flavor.extra_specs)
        ),
    )
    charge = find_charge(flavor, units_per_vcpu, ratio)
    present = flavor.extra_specs.get(CHARGE, str(flavor.vcpus))
    if charge is not None and str(charge) != present:
        yield flavor_lint.warning(
            CHARGE,
            f'with an allocation ratio of {ratio:g}, the processors of a '
            f'server are {charge} VCPU, but Placement counts {present}',
            f'write {CHARGE}={charge}',
        )


def _describe(
    flavor: flavors.Flavor, units_per_vcpu: float
) -> settings.FlavorSettings | None:
    if flavor.vcpus is None or flavor.memory_mb is None:
        return None
    return settings.FlavorSettings(
        flavor.memory_mb, flavor.vcpus, units_per_vcpu, flavor.extra_specs
    )


def find_charge(
    flavor: flavors.Flavor, units_per_vcpu: float, ratio: float
) -> int | None:
    """Return how many VCPU a server of a flavor takes from its host.

    Placement offers as many VCPU (``ratio``) for each processor, and counts
    one for each vCPU. That is wrong where the flavor says how much of a
    processor they get.

    :returns: None if the flavor does not say it.
    :raises exception.ConfigurationError: It is not known how many vCPUs it
        has.
    """
    named, wrong = extra_specs.parse(flavor.extra_specs)
    if wrong or not (named.keys() & _UNITS or named.get('dedicated_proc')):
        return None
    if flavor.vcpus is None:
        raise exception.ConfigurationError(
            reason='say how many vCPUs the flavor has with --vcpus'
        )
    decided = settings.decide_settings(
        settings.FlavorSettings(0, flavor.vcpus, units_per_vcpu), named
    )
    return max(1, math.ceil(round(decided.processors * ratio, 2)))


def _refused(objection: extra_specs.Objection) -> flavor_lint.Finding:
    return flavor_lint.error(
        objection.key, f"'{objection.value}' is refused", objection.reason
    )


def _has_devices(specs: Mapping[str, str]) -> bool:
    return accelerators.PROFILE in specs or any(
        group.suffix and group.resources
        for group in flavors.read_groups(specs)
    )
