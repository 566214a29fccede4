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

"""Describes instances for the operations on their LPARs."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova.virt import configdrive
from nova.virt import driver
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import claims
from nova_powervm.devices import slots
from nova_powervm.lpar import management_adapter
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes as lpar_volumes
from nova_powervm.ops import claiming
from nova_powervm.ops import drivers
from nova_powervm.ops import survey
from nova_powervm.virt import config_drives
from nova_powervm.virt import glance_images
from nova_powervm.virt import instance_allocations
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import port_records
from nova_powervm.virt import slot_records
from nova_powervm.virt import translation

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class Descriptions:
    """Describes LPARs as Nova and Placement want them.

    An operation adds what only it wants, such as disks to make.

    :param slot_claims: Finds the slots of instances.
    :param units_per_vcpu: ``[powervm]proc_units_factor``.
    :param management: ``[powervm]rmc_adapter``.
    :param virtapi: Nova's VirtAPI.
    :param nodename: Nova's name of this host.
    """

    def __init__(
        self,
        slot_claims: claiming.ClaimOps,
        units_per_vcpu: float,
        management: management_adapter.Choice,
        virtapi: Any,
        nodename: str,
    ) -> None:
        self._claims = slot_claims
        self._units = units_per_vcpu
        self._management = management
        self._virtapi = virtapi
        self._nodename = nodename

    def askers(
        self,
        instance: Any,
        network_info: Any,
        files: Any = (),
        password: str | None = None,
    ) -> 'NovaAskers':
        """Return the askers of Nova and Neutron for an operation."""
        return NovaAskers(
            self._virtapi,
            instance,
            self._nodename,
            network_info,
            files=files,
            password=password,
        )

    def allocated(
        self,
        instance: Any,
        allocations: Any,
        requests: Sequence[accelerators.Request] = (),
    ) -> spec.Wanted:
        """Describe an instance with the slots of the allocations passed.

        :param instance: nova.objects.Instance.
        :param allocations: As Nova passes them to the driver.
        :param requests: Its accelerator requests.
        :raises exception.ClaimFailed: The allocations do not cover what the
            flavor requests.
        """
        claimed = self._claims.claim(
            instance.uuid,
            allocations,
            dict(instance.flavor.extra_specs or {}),
            instance_records.stored_slots(instance.resources),
            requests,
        )
        return self._describe(instance, instance.flavor, claimed, requests)

    def recorded(
        self,
        instance: Any,
        allocations: instance_allocations.LocalAllocations | None = None,
        requests: Sequence[accelerators.Request] = (),
    ) -> spec.Wanted:
        """Describe an existing instance with the slots that it should have.

        After a move that failed, Nova may record the flavor of one side with
        the allocations of the other. Then the allocations decide.

        :param instance: nova.objects.Instance; its resources are loaded if
            necessary.
        :param allocations: What Placement has allocated; None if Nova's record
            decides.
        :param requests: Its accelerator requests.
        :raises exception.ClaimFailed: There are fewer or more slots than its
            flavors ask for.
        """
        refusals = []
        for flavor in instance_records.flavors(instance):
            try:
                claimed = self._claim(instance, flavor, requests, allocations)
            except exception.ClaimFailed as error:
                refusals.append(error)
                continue
            if refusals:
                LOG.warning(
                    'The devices of the server are those of flavor %s after a '
                    'move that failed, and not those of its own. Resize the '
                    'server again.',
                    flavor.name,
                    instance=instance,
                )
            wanted = self._describe(
                instance, instance.flavor, claimed, requests
            )
            if allocations is None:
                return wanted
            return dataclasses.replace(
                wanted, allocated=frozenset(allocations.by_provider)
            )
        raise refusals[0]

    def _claim(
        self,
        instance: Any,
        flavor: Any,
        requests: Sequence[accelerators.Request],
        allocations: instance_allocations.LocalAllocations | None,
    ) -> Sequence[claims.Claim]:
        specs = dict(flavor.extra_specs or {})
        stored = instance_records.stored_slots(instance.resources)
        if allocations is not None and allocations.by_provider:
            return self._claims.claim(
                instance.uuid, allocations.by_provider, specs, stored, requests
            )
        return self._claims.stored_claims(
            instance.uuid, specs, {} if allocations else stored, requests
        )

    def moving(self, instance: Any, flavor: Any) -> spec.Wanted:
        """Describe an instance as after its move to this host, but not on.

        :param instance: nova.objects.Instance.
        :param flavor: nova.objects.Flavor, the new one.
        :raises exception.ClaimFailed: Nova has claimed fewer or more slots
            than the flavor asks for.
        """
        claimed = self._claims.stored_claims(
            instance.uuid,
            dict(flavor.extra_specs or {}),
            instance_records.new_slots(instance),
        )
        return dataclasses.replace(
            self._describe(instance, flavor, claimed, ()),
            moved_slots=instance_records.moved_slots(instance, self._nodename),
            power_on=False,
            runs_later=instance_records.is_running(instance),
        )

    def live(
        self,
        instance: Any,
        ports: Sequence[network_ports.Port],
        volumes: Sequence[lpar_volumes.Volume],
    ) -> spec.Wanted:
        """Describe an instance that is to arrive here while it runs.

        Its LPAR keeps what it has, so only the room for it counts.

        :param instance: nova.objects.Instance.
        :param ports: Its ports.
        :param volumes: Its volumes.
        """
        return dataclasses.replace(
            self._describe(instance, instance.flavor, (), ()),
            ports=tuple(ports),
            volumes=tuple(volumes),
            management=management_adapter.Choice.NONE,
            virtual_slots={},
        )

    def _describe(
        self,
        instance: Any,
        flavor: Any,
        claimed: Sequence[claims.Claim],
        requests: Sequence[accelerators.Request],
    ) -> spec.Wanted:
        providers = self._claims.published.providers
        return spec.Wanted(
            instance.uuid,
            name=instance.name,
            settings=self._settings(flavor),
            os_distro=translation.os_distro(instance),
            other_settings=tuple(
                self._settings(other)
                for other in instance_records.flavors(instance)
                if other.id != flavor.id
            ),
            slots=self._claims.wanted_slots(claimed, requests),
            config_drive=configdrive.required_by(instance),
            management=translation.management_choice(
                instance, flavor, self._management
            ),
            virtual_slots=slot_records.recorded(instance),
            providers={
                uuid: slot.drc_index for uuid, slot in providers.items()
            },
        )

    def _settings(self, flavor: Any) -> settings.FlavorSettings:
        return settings.FlavorSettings(
            flavor.memory_mb,
            flavor.vcpus,
            self._units,
            dict(flavor.extra_specs or {}),
        )


def image(
    instance: Any, glance: glance_images.GlanceImage
) -> spec.WantedImage:
    """Describe the image that a root or rescue disk is made from.

    :raises exception.ImageRefused: Glance does not show the image.
    """
    return spec.WantedImage(
        glance.describe(),
        flavor_gb=instance.flavor.root_gb,
        inspect=not CONF.workarounds.disable_deep_image_inspection,
    )


def blank_disks(block_device_info: Any) -> tuple[storage.Disk, ...]:
    """Describe the ephemeral disks and the swap disk of an instance.

    :param block_device_info: As Nova passes it to the driver.
    """
    # Nova's swap_is_usable would ignore the swap disk that a resize adds: it
    # has no device name.
    swap = driver.block_device_info_get_swap(block_device_info) or {}
    ephemerals = driver.block_device_info_get_ephemerals(block_device_info)
    return storage.blank_disks(
        [disk['size'] for disk in ephemerals], swap.get('swap_size') or 0
    )


@dataclasses.dataclass(slots=True)
class NovaAskers(survey.Askers):
    """Asks Nova and Neutron for an operation on an instance's LPAR.

    :param virtapi: Nova's VirtAPI.
    :param instance: nova.objects.Instance.
    :param nodename: Nova's name of this host.
    :param network_info: As Nova passes it; replaced when ports are bound.
    :param image: Returns the bytes of the image of a new root disk.
    :param files: Files that the user wants on the config drive.
    :param password: The administrator's password, for the config drive.
    :param present_ports: The ports that Neutron has, if it was asked before.
    :param waits: Whether Neutron reports when ports are plugged.
    """

    virtapi: Any
    instance: Any
    nodename: str
    network_info: Any = None
    image: Any = None
    files: Any = ()
    password: str | None = dataclasses.field(default=None, repr=False)
    present_ports: Sequence[network_ports.Port] | None = None
    waits: bool = True

    def metadata(self) -> drivers.InstanceMetadata:
        """Return the keys of VIF drivers in Nova's record of the instance."""
        return port_records.NovaInstanceMetadata(self.instance, self.nodename)

    @property
    def passed_ports(self) -> tuple[network_ports.Port, ...] | None:
        """The ports as Nova passed them; None if it did not."""
        if self.network_info is None:
            return None
        return instance_ports.ports(self.network_info)

    def make_config_drive(
        self, owned: Sequence[slots.Slot], management_mac: str | None
    ) -> bytes:
        """Make the contents of the config drive."""
        files = config_drives.collect_files(
            self.instance,
            self.network_info,
            self.files,
            self.password,
            owned,
            management_mac,
        )
        return config_drives.make_iso(files)

    def ports(self) -> Sequence[network_ports.Port]:
        """Ask Neutron for the present ports."""
        if self.present_ports is not None:
            return self.present_ports
        return instance_ports.fetch_ports(self.instance, self.nodename)

    def bind_ports(self) -> Sequence[network_ports.Port]:
        """Have Neutron bind the ports to this host."""
        self.network_info = instance_ports.bind_ports(
            self.instance, self.nodename
        )
        return instance_ports.ports(self.network_info)

    def plugging(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that waits until Neutron has plugged the ports."""
        if not self.waits:
            return contextlib.nullcontext()
        return instance_ports.wait_for_plugging(
            self.virtapi, self.instance, self.network_info
        )
