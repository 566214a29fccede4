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

"""The compute driver: each method translates and calls one collaborator."""

from typing import Any

import nova.conf
from nova import context as nova_context
from nova import exception as nova_exception
from nova.virt import driver

from nova_powervm.virt import builds
from nova_powervm.virt import errors
from nova_powervm.virt import instances
from nova_powervm.virt import refusals
from nova_powervm.virt import services
from nova_powervm.virt import translation

CONF = nova.conf.CONF

_refuse = refusals.Refusal


@errors.translate_errors
class PowerVMDriver(driver.ComputeDriver):
    """Runs instances as LPARs of one PowerVM (NovaLink) host.

    The methods are in the order of those of Nova's class. The constructor
    reads the ``[powervm]`` options, once.

    :param virtapi: Nova's VirtAPI.
    """

    # Of the methods below; init_host adds what the disk driver supports.
    capabilities: dict[str, bool] = {  # noqa: RUF012 - like Nova's own
        **driver.ComputeDriver.capabilities,
        'supports_accelerators': True,
        'supports_attach_interface': True,
        'supports_device_tagging': True,
        'supports_evacuate': True,
        'supports_extend_volume': True,
        'supports_image_type_raw': True,
        'supports_image_type_qcow2': True,
        'supports_tagged_attach_interface': True,
        'supports_tagged_attach_volume': True,
        'supports_trusted_certs': True,
    }

    def __init__(self, virtapi: Any) -> None:
        super().__init__(virtapi)
        self.settings = services.read_settings()
        self.services = services.not_started()

    def init_host(self, host: str) -> None:
        """Log on to the host and check the inventory file against it."""
        self.services = services.start(
            self.settings, host, self.virtapi, self.emit_event
        )
        storage = self.services.host.storage
        self.capabilities = self.capabilities | storage.capabilities

    def cleanup_host(self, host: str) -> None:
        """Log off, without waiting for a host that does not answer."""
        self.services.close()
        self.services = services.not_started()

    # Instances

    def get_info(self, instance: Any, use_cache: bool = True) -> Any:
        """Return the instance's power state, or Nova's record if unknown."""
        return instances.describe(
            instance, lambda: self.services.instances.read_power(instance)
        )

    def get_num_instances(self) -> int:
        """Count the LPARs that belong to instances."""
        return len(self.services.instances.uuids())

    def instance_exists(self, instance: Any) -> bool:
        """Return whether the instance has an LPAR here."""
        return self.services.instances.has_lpar(instance)

    def list_instances(self) -> list[str]:
        """Return the names of the LPARs that belong to instances."""
        return self.services.instances.lpar_names()

    def list_instance_uuids(self) -> list[str]:
        """Return the uuids of the instances that have an LPAR here."""
        return self.services.instances.uuids()

    def rebuild(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        bdms: Any,
        detach_block_devices: Any,
        attach_block_devices: Any,
        network_info: Any = None,
        evacuate: bool = False,
        block_device_info: Any = None,
        preserve_ephemeral: bool = False,
        accel_uuids: Any = None,
        reimage_boot_volume: bool = False,
    ) -> None:
        """Refuse an impossible rebuild; leave any other one to Nova."""
        self.services.builds.check_rebuild(
            builds.BuildRequest(
                context,
                instance,
                image_meta,
                allocations,
                network_info,
                block_device_info,
                injected_files,
                admin_password,
            ),
            evacuate=evacuate,
            preserve_ephemeral=preserve_ephemeral,
        )
        raise NotImplementedError()

    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Any,
        admin_password: Any,
        allocations: Any,
        network_info: Any = None,
        block_device_info: Any = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        """Create the instance's LPAR with exactly its allocated slots."""
        self.services.builds.spawn(
            builds.BuildRequest(
                context,
                instance,
                image_meta,
                allocations,
                network_info,
                block_device_info,
                injected_files,
                admin_password,
                power_on,
            ),
            accel_info,
        )

    def destroy(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Remove the instance's LPAR, or its destination's in a revert."""
        self.services.moves.destroy(
            context, instance, destroy_disks, block_device_info
        )

    def cleanup(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        migrate_data: Any = None,
        destroy_vifs: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Remove what destroy was told to keep, if there is anything."""
        self.services.removals.clean_up(instance, destroy_disks)

    def reboot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        reboot_type: str,
        block_device_info: Any = None,
        bad_volumes_callback: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Restart the instance with its slots and ports, 'SOFT' or 'HARD'."""
        self.services.power.reboot(
            context,
            instance,
            network_info,
            reboot_type,
            block_device_info,
            accel_info,
        )

    # Consoles, diagnostics, volumes and network adapters

    get_console_output = _refuse('the console log', NotImplementedError)

    def get_vnc_console(self, context: Any, instance: Any) -> Any:
        """Open the instance's console; return where Nova's proxy finds it."""
        return self.services.host.consoles.open(instance)

    get_spice_console = _refuse('a SPICE console', NotImplementedError)
    get_serial_console = _refuse('a serial console', NotImplementedError)
    get_mks_console = _refuse('an MKS console', NotImplementedError)

    def get_diagnostics(self, instance: Any) -> dict[str, Any]:
        """Describe the instance's LPAR, until microversion 2.47."""
        return self.services.instances.diagnose(instance)

    # Nova's object for these has a fixed list of drivers, without this one.
    get_instance_diagnostics = _refuse(
        'reading diagnostics from microversion 2.48 on', NotImplementedError
    )

    def get_host_ip_addr(self) -> str:
        """Return the address from Nova's configuration."""
        return str(CONF.my_ip)

    def attach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: str,
        disk_bus: str | None = None,
        device_type: str | None = None,
        encryption: Any = None,
    ) -> None:
        """Connect a volume; a running instance needs RMC for it."""
        self.services.volumes.attach(context, instance, connection_info)

    def detach_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        mountpoint: str,
        encryption: Any = None,
    ) -> None:
        """Disconnect a volume, if it is connected, also without an LPAR."""
        self.services.volumes.detach(instance, connection_info)

    swap_volume = _refuse('swapping a volume')

    def extend_volume(
        self,
        context: Any,
        connection_info: Any,
        instance: Any,
        requested_size: int,
    ) -> None:
        """Have the host see the new size of a volume, in bytes."""
        self.services.volumes.extend(instance, connection_info, requested_size)

    def attach_interface(
        self, context: Any, instance: Any, image_meta: Any, vif: Any
    ) -> None:
        """Connect one more port; a running instance needs RMC for it."""
        self.services.network_adapters.attach(context, instance, vif)

    def detach_interface(self, context: Any, instance: Any, vif: Any) -> None:
        """Disconnect a port if it is connected."""
        self.services.network_adapters.detach(context, instance, vif)

    # Resizes, cold migrations and snapshots

    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        dest: str,
        flavor: Any,
        network_info: Any,
        block_device_info: Any = None,
        timeout: int = 0,
        retry_interval: int = 0,
    ) -> dict[str, str]:
        """Stop an instance that moves; return what finish_migration gets."""
        return self.services.moves.migrate_disk_and_power_off(
            context, instance, flavor, block_device_info, timeout
        )

    def snapshot(
        self,
        context: Any,
        instance: Any,
        image_id: str,
        update_task_state: Any,
    ) -> None:
        """Make an image of the instance's root disk, also for a shelve."""
        self.services.snapshots.take(
            context, instance, image_id, update_task_state
        )

    def finish_migration(
        self,
        context: Any,
        migration: Any,
        instance: Any,
        disk_info: Any,
        network_info: Any,
        image_meta: Any,
        resize_instance: bool,
        allocations: Any,
        block_device_info: Any = None,
        power_on: bool = True,
        share_info: Any = None,
    ) -> None:
        """Continue an instance on this host with its new flavor and slots."""
        self.services.moves.finish_migration(
            migration,
            builds.BuildRequest(
                context,
                instance,
                None,
                allocations,
                network_info,
                block_device_info,
                power_on=power_on,
            ),
            disk_info,
        )

    def confirm_migration(
        self, context: Any, migration: Any, instance: Any, network_info: Any
    ) -> None:
        """Remove the LPAR of the source, and grow the root disk."""
        self.services.moves.confirm_migration(migration, instance)

    def finish_revert_migration(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        migration: Any,
        block_device_info: Any = None,
        power_on: bool = True,
        share_info: Any = None,
    ) -> None:
        """Continue an instance on the source, as it was before its move."""
        self.services.moves.finish_revert_migration(
            context,
            instance,
            network_info,
            migration,
            block_device_info,
            power_on,
        )

    # Guests

    pause = _refuse('pausing a server')
    unpause = _refuse('unpausing a server')
    suspend = _refuse('suspending a server', refusals.roll_back)
    resume = _refuse('resuming a server', refusals.roll_back)

    def resume_state_on_host_boot(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        share_info: Any,
        block_device_info: Any = None,
    ) -> None:
        """Start an instance that was running before the host went down."""
        self.services.deferred_starts.start_or_defer(context, instance)

    def rescue(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        image_meta: Any,
        rescue_password: str,
        block_device_info: Any,
        share_info: Any,
    ) -> None:
        """Start another system, which has the instance's disks, too."""
        self.services.rescues.rescue(
            context,
            instance,
            network_info,
            image_meta,
            rescue_password,
            block_device_info,
        )

    def unrescue(self, context: Any, instance: Any) -> None:
        """Start the instance's own system again."""
        self.services.rescues.unrescue(context, instance)

    def power_off(
        self, instance: Any, timeout: int = 0, retry_interval: int = 0
    ) -> None:
        """Stop the instance; give its guest ``timeout`` seconds to stop."""
        if isinstance(instance, nova_context.RequestContext):
            # Nova passes a context first for a deleted, running instance.
            instance, timeout = timeout, 0
        self.services.power.stop(instance, timeout)

    def power_on(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Start the instance's LPAR with its slots and ports."""
        self.services.power.start(context, instance, network_info, accel_info)

    power_update_event = _refuse('a power update event')

    def trigger_crash_dump(self, instance: Any) -> None:
        """Have the guest write a dump of its memory, and restart."""
        self.services.power.crash_dump(instance)

    # The cycle of Nova's resource tracker

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """Publish the host's resources and one provider for each slot."""
        self.services.host_cycle.publish(
            provider_tree, nodename, self._get_allocation_ratios
        )

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        """Read the host, and the inventory file if it has changed."""
        return self.services.host_cycle.read(nodename)

    # Live migrations

    def pre_live_migration(
        self,
        context: Any,
        instance: Any,
        block_device_info: Any,
        network_info: Any,
        disk_info: Any,
        migrate_data: Any,
    ) -> Any:
        """Prepare this host for an LPAR that is about to arrive."""
        return self.services.live_migrations.prepare(
            instance, network_info, block_device_info, migrate_data
        )

    def live_migration(
        self,
        context: Any,
        instance: Any,
        dest: str,
        post_method: Any,
        recover_method: Any,
        block_migration: bool = False,
        migrate_data: Any = None,
    ) -> None:
        """Have PowerVM move an LPAR, and tell Nova how that has ended."""
        self.services.live_migrations.migrate(
            context,
            instance,
            dest,
            post_method,
            recover_method,
            block_migration,
            migrate_data,
        )

    live_migration_force_complete = _refuse(
        'forcing a live migration to complete', NotImplementedError
    )

    def live_migration_abort(self, instance: Any) -> None:
        """End the live migration of an instance, which stays here."""
        self.services.live_migrations.abort(instance)

    def rollback_live_migration_at_source(
        self, context: Any, instance: Any, migrate_data: Any
    ) -> None:
        """Give an LPAR that stays here its config drive back."""
        self.services.live_migrations.stay(instance)

    def rollback_live_migration_at_destination(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any,
        destroy_disks: bool = True,
        migrate_data: Any = None,
    ) -> None:
        """Remove from this host what it had prepared for an LPAR."""
        self.services.live_migrations.take_back(instance)

    def post_live_migration(
        self,
        context: Any,
        instance: Any,
        block_device_info: Any,
        migrate_data: Any = None,
    ) -> None:
        """Disconnect the volumes of an LPAR that has left."""
        self.services.live_migrations.disconnect(instance, block_device_info)

    def post_live_migration_at_source(
        self, context: Any, instance: Any, network_info: Any
    ) -> None:
        """Remove from this host what an LPAR that has left had here."""
        self.services.live_migrations.leave(instance)

    def post_live_migration_at_destination(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_migration: bool = False,
        block_device_info: Any = None,
    ) -> None:
        """Give an LPAR that has arrived what only this host can give it."""
        self.services.live_migrations.finish(
            instance, network_info, block_device_info
        )

    def check_instance_shared_storage_local(
        self, context: Any, instance: Any
    ) -> dict[str, str]:
        """Describe the storage that has the disks of an instance."""
        return self.services.host.storage.describe(instance)

    def check_instance_shared_storage_remote(
        self, context: Any, data: dict[str, str]
    ) -> Any:
        """Answer a host that shares its storage, or is moving an instance."""
        return self.services.moves.questions.answer(data)

    def check_instance_shared_storage_cleanup(
        self, context: Any, data: dict[str, str]
    ) -> None:
        """Do nothing, because the check created nothing."""

    def check_can_live_migrate_destination(
        self,
        context: Any,
        instance: Any,
        src_compute_info: Any,
        dst_compute_info: Any,
        block_migration: bool = False,
        disk_over_commit: bool = False,
    ) -> Any:
        """Check whether this host could take an instance as it runs."""
        return self.services.live_migrations.check_destination(
            instance, block_migration
        )

    def cleanup_live_migration_destination_check(
        self, context: Any, dest_check_data: Any
    ) -> None:
        """Do nothing, because the check created nothing."""

    def check_can_live_migrate_source(
        self,
        context: Any,
        instance: Any,
        dest_check_data: Any,
        block_device_info: Any = None,
    ) -> Any:
        """Check whether an instance could leave this host as it runs."""
        return self.services.live_migrations.check_source(
            instance, dest_check_data, block_device_info
        )

    # The host and its node

    set_admin_password = _refuse(
        'setting the administrator password',
        nova_exception.SetAdminPasswdNotSupported,
    )

    def poll_rebooting_instances(self, timeout: Any, instances: Any) -> None:
        """Log the refusal only; the host finishes every reboot in time."""
        for instance in instances:
            refusals.log_refusal('[DEFAULT]reboot_timeout', instance)

    host_power_action = _refuse(
        "changing the host's power state", NotImplementedError
    )
    host_maintenance_mode = _refuse('maintenance mode', NotImplementedError)

    def get_host_uptime(self) -> str:
        """Return the uptime of the management partition, as Nova shows it."""
        return translation.uptime(self.services.host.reader.uptime())

    def plug_vifs(self, instance: Any, network_info: Any) -> None:
        """Create the adapters that the instance's LPAR lacks."""
        self.services.network_adapters.plug(instance, network_info)

    def unplug_vifs(self, instance: Any, network_info: Any) -> None:
        """Remove the adapters of ports from the instance's LPAR."""
        self.services.network_adapters.unplug(instance, network_info)

    def manage_image_cache(self, context: Any, all_instances: Any) -> None:
        """Remove images and disks that no server of any host needs."""
        self.services.host.storage.remove_unused()

    def cache_image(self, context: Any, image_id: str) -> bool:
        """Write an image to the pool's cache before servers need it."""
        return self.services.host.storage.cache_image(context, image_id)

    def get_volume_connector(self, instance: Any) -> dict[str, Any]:
        """Describe this host to Cinder, or refuse volumes before it acts."""
        return self.services.volumes.connector(instance)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Return the only node, which has the name of the host."""
        return [self.services.host.nodename]

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        """Return the only node by the uuid that Nova stores for it."""
        return {self.services.host.node.uuid: self.services.host.nodename}

    def instance_on_disk(self, instance: Any) -> bool:
        """Return whether this host sees the disks of an instance.

        Nova asks this of the host that an instance is evacuated to.
        """
        self.services.builds.prepare_evacuation(instance)
        return self.services.host.storage.sees_disks(instance)

    volume_snapshot_create = _refuse('a volume snapshot', NotImplementedError)
    volume_snapshot_delete = _refuse('a volume snapshot', NotImplementedError)
    quiesce = _refuse('quiescing a guest', NotImplementedError)
    unquiesce = _refuse('quiescing a guest', NotImplementedError)

    def network_binding_host_id(self, context: Any, instance: Any) -> Any:
        """Return the host of ports; Nova calls this before it attaches one."""
        self.services.network_adapters.check_attachable(instance)
        return super().network_binding_host_id(context, instance)
