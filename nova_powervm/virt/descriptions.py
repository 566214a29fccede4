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
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.ops import claiming
from nova_powervm.ops import survey
from nova_powervm.virt import config_drives
from nova_powervm.virt import glance_images
from nova_powervm.virt import instance_claims
from nova_powervm.virt import instance_ports
from nova_powervm.virt import instance_records
from nova_powervm.virt import port_records
from nova_powervm.virt import slot_records

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class Descriptions:
    """Describes what Nova and Placement say about the LPARs of instances.

    :param slot_claims: Finds the slots of instances.
    :param units_per_vcpu: ``[powervm]proc_units_factor``.
    :param virtapi: Nova's VirtAPI.
    :param host: Nova's name of this host.
    """

    def __init__(
        self,
        slot_claims: claiming.ClaimOps,
        units_per_vcpu: float,
        virtapi: Any,
        host: str,
    ) -> None:
        self._claims = slot_claims
        self._units = units_per_vcpu
        self._virtapi = virtapi
        self._host = host

    def askers(
        self,
        instance: Any,
        network_info: Any,
        files: Any = (),
        password: str | None = None,
    ) -> 'NovaAskers':
        """Return what an operation on an instance asks Nova and Neutron."""
        return NovaAskers(
            self._virtapi,
            instance,
            self._host,
            network_info,
            files=files,
            password=password,
        )

    def allocated(
        self,
        instance: Any,
        allocations: Any,
        requests: Sequence[accelerators.Request] = (),
        **rest: Any,
    ) -> spec.Wanted:
        """Describe an instance with the slots that Nova passes allocations of.

        :param instance: nova.objects.Instance.
        :param allocations: As Nova passes them to the driver.
        :param requests: Its accelerator requests.
        :param rest: Further fields of :class:`.spec.Wanted`.
        :raises exception.ClaimFailed: The allocations do not cover what the
            flavor requests.
        """
        found = self._claims.claim(
            instance.uuid,
            allocations,
            dict(instance.flavor.extra_specs or {}),
            instance_records.stored_slots(instance.resources),
            requests,
        )
        return self._describe(
            instance, instance.flavor, found, requests, **rest
        )

    def recorded(
        self,
        instance: Any,
        requests: Sequence[accelerators.Request] = (),
        *,
        held: instance_claims.Held | None = None,
        **rest: Any,
    ) -> spec.Wanted:
        """Describe an existing instance with the slots that it should have.

        After a move that failed, Nova may record the flavor of one side with
        the allocations of the other. Then the allocations decide.

        :param instance: nova.objects.Instance; its resources are loaded if
            necessary.
        :param requests: Its accelerator requests.
        :param held: What Placement says; None if Nova's record decides.
        :param rest: Further fields of :class:`.spec.Wanted`.
        :raises exception.ClaimFailed: There are fewer or more slots than its
            flavors ask for.
        """
        refusals = []
        for flavor in instance_records.flavors(instance):
            try:
                found = self._find(instance, flavor, requests, held)
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
            return self._describe(
                instance,
                instance.flavor,
                found,
                requests,
                allocated=None
                if held is None
                else frozenset(held.allocations),
                **rest,
            )
        raise refusals[0]

    def _find(
        self,
        instance: Any,
        flavor: Any,
        requests: Sequence[accelerators.Request],
        held: instance_claims.Held | None,
    ) -> Sequence[claims.Claim]:
        specs = dict(flavor.extra_specs or {})
        stored = instance_records.stored_slots(instance.resources)
        if held is not None and held.allocations:
            return self._claims.claim(
                instance.uuid, held.allocations, specs, stored, requests
            )
        return self._claims.stored_claims(
            instance.uuid, specs, {} if held else stored, requests
        )

    def moving(self, instance: Any, flavor: Any, **rest: Any) -> spec.Wanted:
        """Describe an instance as its move to this host is to leave it.

        :param instance: nova.objects.Instance.
        :param flavor: nova.objects.Flavor, the new one.
        :param rest: Further fields of :class:`.spec.Wanted`.
        :raises exception.ClaimFailed: Nova has claimed fewer or more slots
            than the flavor asks for.
        """
        found = self._claims.stored_claims(
            instance.uuid,
            dict(flavor.extra_specs or {}),
            instance_records.new_slots(instance),
        )
        return self._describe(instance, flavor, found, (), **rest)

    def _describe(
        self,
        instance: Any,
        flavor: Any,
        found: Sequence[claims.Claim],
        requests: Sequence[accelerators.Request],
        **rest: Any,
    ) -> spec.Wanted:
        return spec.Wanted(
            instance.uuid,
            name=instance.name,
            settings=self._settings(flavor),
            other_settings=tuple(
                self._settings(other)
                for other in instance_records.flavors(instance)
                if other.id != flavor.id
            ),
            slots=self._claims.wanted_slots(instance.uuid, found, requests),
            config_drive=configdrive.required_by(instance),
            virtual_slots=slot_records.recorded(instance),
            providers={
                uuid: provider.drc_index
                for uuid, provider in self._claims.published.providers.items()
            },
            **rest,
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
    """Describe the image that a build makes the root disk from.

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
    # Without a device name, which Nova does not give a swap disk that a resize
    # adds, its own check would not take it for usable.
    swap = driver.block_device_info_get_swap(block_device_info) or {}
    return storage.blank_disks(
        [
            disk['size']
            for disk in driver.block_device_info_get_ephemerals(
                block_device_info
            )
        ],
        swap.get('swap_size') or 0,
    )


@dataclasses.dataclass(slots=True)
class NovaAskers:
    """What an operation on an instance's LPAR asks Nova and Neutron.

    :param virtapi: Nova's VirtAPI.
    :param instance: nova.objects.Instance.
    :param host: Nova's name of this host.
    :param network_info: As Nova passes it; replaced when ports are bound.
    :param image: Returns the bytes of the image of a new root disk.
    :param files: Files that the user wants on the config drive.
    :param password: The administrator's password, for the config drive.
    """

    virtapi: Any
    instance: Any
    host: str
    network_info: Any = None
    image: Any = None
    files: Any = ()
    password: str | None = dataclasses.field(default=None, repr=False)

    @property
    def askers(self) -> survey.Askers:
        """The same in the operation's terms."""
        return survey.Askers(
            image=self.image,
            config_drive=self._config_drive,
            ports=self._ports,
            bind_ports=self._bind_ports,
            plugging=self._plugging,
            metadata=port_records.NovaInstanceMetadata(
                self.instance, self.host
            ),
        )

    @property
    def ports(self) -> tuple[network_ports.Port, ...] | None:
        """The ports as Nova passed them; None if it did not."""
        if self.network_info is None:
            return None
        return instance_ports.ports(self.network_info)

    def _config_drive(self, owned: Sequence[slots.Slot]) -> bytes:
        return config_drives.make_iso(
            config_drives.collect_files(
                self.instance,
                self.network_info,
                self.files,
                self.password,
                owned,
            )
        )

    def _ports(self) -> Sequence[network_ports.Port]:
        return instance_ports.fetch_ports(self.instance, self.host)

    def _bind_ports(self) -> Sequence[network_ports.Port]:
        self.network_info = instance_ports.bind_ports(self.instance, self.host)
        return instance_ports.ports(self.network_info)

    def _plugging(self) -> contextlib.AbstractContextManager[None]:
        return instance_ports.wait_for_plugging(
            self.virtapi, self.instance, self.network_info
        )
