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

import inspect
from unittest import mock

from nova import context
from nova import exception as nova_exception
from nova import objects
from nova.compute import power_state
from nova.compute import task_states
from nova.virt import driver as nova_driver
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.ops import sweep
from nova_powervm.virt import driver
from nova_powervm.virt import instance_records
from nova_powervm.virt import moves
from nova_powervm.virt import restart_repairs
from nova_powervm.virt import services
from tests import proofs
from tests.unit.virt import base


def start(host):
    """Return a driver that is connected to a host.

    :param host: The operations on the host.
    """
    started = driver.PowerVMDriver(None)
    host.node = instance_records.LocalNode('host1')
    host.nodename = 'host1'
    host.startup = restart_repairs.Startup()
    started.services = services.Services(host)
    return started


class DriverTest(base.NoDBTestCase):
    """What nova's own helper says of the driver's shape."""

    @proofs.proves('D66')
    def test_signatures_are_those_of_compute_driver(self):
        self.assertPublicAPISignatures(
            nova_driver.ComputeDriver(None), driver.PowerVMDriver(None)
        )

    def test_driver_without_host_is_not_ready(self):
        stopped = start(mock.Mock())
        stopped.cleanup_host('host1')
        for waiting in (driver.PowerVMDriver(None), stopped):
            for ask, *given in (
                (waiting.get_available_nodes,),
                (waiting.list_instances,),
                (waiting.get_available_resource, 'host1'),
                (waiting.destroy, None, objects.Instance(), None),
            ):
                self.assertRaises(
                    nova_exception.VirtDriverNotReady, ask, *given
                )

    def test_plug_vifs_logs_error_and_does_not_raise(self):
        operations = mock.Mock()
        operations.reader.last_or_read.side_effect = ValueError('it')
        started = start(operations)

        started.plug_vifs(objects.Instance(uuid=uuids.instance), [])

        self.assertIn('cannot be checked', self.stdlog.logger.output)

    def test_get_info_returns_recorded_state_if_power_state_is_unknown(self):
        instance = objects.Instance(uuid=uuids.instance)
        partitions = mock.Mock()
        for answer in (
            exception.RestUnreachable(server='it', reason='no answer'),
            exception.RestSilent(server='it', reason='no answer'),
            exception.RestError(action='it', reason='HTTP 500'),
            # An answer that pypowervm does not understand.
            AttributeError('it'),
            exception.RestRefusedLogin(
                server='it', username='it', reason='HTTP 401'
            ),
            ['not available'],
            None,
        ):
            if answer:
                asked = start(mock.Mock(partitions=partitions))
                partitions.state.side_effect = answer
            else:
                # As in a thread that outlives cleanup_host
                asked.cleanup_host('host1')
            for recorded, expected in (
                (power_state.RUNNING, power_state.RUNNING),
                (power_state.SHUTDOWN, power_state.SHUTDOWN),
                (None, power_state.NOSTATE),
            ):
                instance.power_state = recorded
                if isinstance(answer, list):
                    partitions.state.side_effect = answer
                with self.subTest(answer=answer, recorded=recorded):
                    self.assertEqual(expected, asked.get_info(instance).state)

    def test_start_asks_silent_host_once_for_all_instances(self):
        running = mock.Mock()
        asked = start(running)
        silent = exception.RestSilent(server='it', reason='no answer')
        running.lpars.run.side_effect = silent
        running.partitions.state.side_effect = silent
        instance = objects.Instance(uuid=uuids.instance, system_metadata={})
        instance.power_state = power_state.RUNNING
        for _ in range(9):
            asked.plug_vifs(instance, [])
            self.assertEqual(
                power_state.RUNNING, asked.get_info(instance).state
            )
        self.assertEqual(1, running.lpars.run.call_count)
        self.assertEqual(1, running.partitions.state.call_count)

        # It is asked for each of them once it has started.
        asked.services.host.startup.end()
        asked.get_info(instance)

        self.assertEqual(2, running.partitions.state.call_count)

    def test_get_info_raises_instance_not_found_for_missing_lpar(self):
        running = mock.Mock()
        asked = start(running)
        missing = exception.PartitionNotFound(uuid='it')
        running.partitions.state.side_effect = missing

        self.assertRaises(
            nova_exception.InstanceNotFound,
            asked.get_info,
            objects.Instance(uuid=uuids.instance, flavor=objects.Flavor()),
        )

    def test_first_cycle_alone_takes_rows_of_first_cycle(self):
        for first in (None, ValueError('it')):
            running = mock.Mock()
            asked = start(running)
            asked.services.host.node.uuid = uuids.node
            running.reader.read.side_effect = exception.RestError(
                action='it', reason='HTTP 500'
            )
            recovery = running.provider_tree.recover_deleted
            recovery.side_effect = [first, None]
            run = running.sweep.run
            cycle = mock.call(sweep.When.CYCLE)
            both = mock.call(sweep.When.CYCLE, sweep.When.FIRST_CYCLE)
            with self.subTest(first=first):
                self.assertRaises(
                    ValueError if first else nova_exception.NovaException,
                    asked.get_available_resource,
                    'node',
                )
                before = [] if first else [both]
                self.assertEqual(before, run.mock_calls)
                self.assertRaises(
                    nova_exception.NovaException,
                    asked.get_available_resource,
                    'node',
                )
                self.assertEqual([*before, cycle], run.mock_calls)

    def test_capabilities_declare_every_capability_of_nova(self):
        known = set(nova_driver.ComputeDriver.capabilities)
        self.assertEqual(known, set(driver.PowerVMDriver.capabilities))

    def test_capabilities_declare_only_supported_features(self):
        # What this version leaves out must not be scheduled to it.
        declared = {
            name
            for name, value in driver.PowerVMDriver.capabilities.items()
            if value
        }
        self.assertEqual(
            {
                'supports_accelerators',
                'supports_attach_interface',
                'supports_device_tagging',
                'supports_evacuate',
                'supports_extend_volume',
                'supports_image_type_qcow2',
                'supports_image_type_raw',
                'supports_tagged_attach_interface',
                'supports_tagged_attach_volume',
                'supports_trusted_certs',
            },
            declared,
        )

    @proofs.proves('operation.get-host-ip')
    def test_get_host_ip_addr_returns_my_ip(self):
        self.flags(my_ip='192.0.2.7')

        address = driver.PowerVMDriver(None).get_host_ip_addr()

        self.assertEqual('192.0.2.7', address)


def refused_methods():
    """Return name and method of what the driver only refuses."""
    return [
        (name, method)
        for name, method in vars(driver.PowerVMDriver).items()
        # Its signature and documentation are those of Nova's.
        if getattr(method, '__module__', '') == nova_driver.__name__
    ]


class UnsupportedMethodsTest(base.NoDBTestCase):
    """What Nova may call is done, refused in words, or left to Nova."""

    #: Nova goes another way when these raise NotImplementedError.
    LEFT_TO_NOVA = frozenset(
        {
            'block_stats',
            'default_device_names_for_instance',
            'default_root_device_name',
            'get_all_volume_usage',
            'get_device_name_for_instance',
            'restore',
            'set_host_enabled',
            'soft_delete',
        }
    )
    #: Nova can't come to these: a step before them is refused, the compute
    #: node lacks a trait, or no service calls them.
    NEVER_CALLED = frozenset(
        {
            'get_host_cpu_stats',
            'get_instance_disk_info',
            'is_share_mounted',
            'mount_share',
            'umount_share',
        }
    )

    def test_unimplemented_methods_are_all_listed(self):
        left = {
            name
            for name, method in inspect.getmembers(
                nova_driver.ComputeDriver, inspect.isfunction
            )
            if 'raise NotImplementedError' in inspect.getsource(method)
            and getattr(driver.PowerVMDriver, name) is method
        }

        self.assertEqual(self.LEFT_TO_NOVA | self.NEVER_CALLED, left)

    def test_unsupported_methods_say_what_is_unsupported(self):
        refuser = driver.PowerVMDriver(None)
        instance = objects.Instance(
            context.get_admin_context(),
            uuid=uuids.instance,
            host='host1',
            task_state=None,
            migration_context=None,
        )
        for name, method in refused_methods():
            wanted = inspect.signature(method).parameters
            given = [
                instance if parameter == 'instance' else None
                for parameter in list(wanted)[1:]
            ]
            with self.subTest(name):
                error = self.assertRaises(
                    (nova_exception.NovaException, NotImplementedError),
                    getattr(refuser, name),
                    *given,
                )
                self.assertRegex(
                    str(error), 'PowerVM: .* is not supported yet'
                )

    def test_limit_of_reboots_is_refused_in_log(self):
        instance = objects.Instance(uuid=uuids.instance)

        driver.PowerVMDriver(None).poll_rebooting_instances(60, [instance])

        self.assertIn('[DEFAULT]reboot_timeout', self.stdlog.logger.output)

    def test_missing_lpar_of_move_sets_server_to_error(self):
        # Nova ignores InstanceNotFound, and rolls an InstanceFaultRollback
        # back to a server that looks well.
        def fail():
            with moves.errors_out():
                raise exception.PartitionNotFound(uuid='A')

        error = self.assertRaises(nova_exception.NovaException, fail)

        self.assertIs(nova_exception.NovaException, type(error))
        self.assertIn('Reboot the server hard', str(error))

    def test_power_off_is_refused_for_resize_to_another_cell(self):
        # Nova's policy has it off.
        instance = objects.Instance(
            uuid=uuids.instance, task_state=task_states.RESIZE_MIGRATING
        )
        operations = mock.Mock()
        error = self.assertRaises(
            nova_exception.NovaException,
            start(operations).power_off,
            instance,
        )
        self.assertIn('is not supported yet', str(error))
        self.assertEqual([], operations.method_calls)

    def test_power_off_for_rescue_leaves_guest_to_rescue(self):
        instance = objects.Instance(
            uuid=uuids.instance, task_state=task_states.RESCUING
        )
        operations = mock.Mock()

        start(operations).power_off(instance, 60)

        self.assertEqual([], operations.method_calls)

    def test_power_off_is_allowed_for_supported_tasks(self):
        for state in (
            None,
            task_states.POWERING_OFF,
            task_states.SOFT_DELETING,
            task_states.REBUILDING,
            task_states.DELETING,
        ):
            instance = objects.Instance(
                uuid=uuids.instance, host='host1', task_state=state
            )
            operations = mock.Mock()
            start(operations).power_off(instance)
            self.assertTrue(operations.method_calls)
