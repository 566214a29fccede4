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

"""Starts nova's services with the PowerVM driver on an emulated host."""

import contextlib
import copy
import hashlib
import io
import itertools
import os
import re
import sys
import textwrap
import time
from concurrent import futures

import fixtures
import os_traits
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import thread_pool_factory
from nova.db.main import api as main_db
from nova.network import model
from nova.tests.functional import integrated_helpers
from nova.tests.functional.api import client
from nova.virt import node as virt_node
from oslo_config import cfg
from oslo_utils import timeutils
from oslo_utils import uuidutils
from testtools import content

import nova_powervm.virt.driver  # noqa: F401  registers the options
from nova_powervm.virt import builds
from nova_powervm.virt import slot_records
from nova_powervm.virt import system_metadata
from powervm_emulator import fixture
from tests import plain_rest
from tests.functional import killed_threads
from tests.functional import speed
from tests.functional import standing

speed.cache_between_tests()
# A service ends in a thread that nobody waits for. Nova's fixture keeps it
# from ending the executors of the whole process, but only within a test.
thread_pool_factory.shutdown_all_executors = lambda: None

CONF = cfg.CONF

GPUS = textwrap.dedent("""\
    gpus:
      identification:
        vendor_id: "10DE"
        device_id: "1DB6"
      resource_class: CUSTOM_GPU
      traits: [CUSTOM_TESLA_V100]
    """)

#: Bytes of the image that servers boot from.
IMAGE = b'\x01boot sector' + bytes(64 * 1024)

#: Runs every test with the option of this name.
SKIP_FREE_READS = bool(os.environ.get('NOVA_POWERVM_TEST_SKIP_FREE_READS'))

#: Tells only the stories whose names match.
STORIES = os.environ.get('NOVA_POWERVM_TEST_STORIES')
#: Tells stories in another order; tools/soak.sh sets it.
STORY_ORDER = os.environ.get('NOVA_POWERVM_TEST_STORY_ORDER')

#: How long to wait for what happens at once on an idle machine.
_SECONDS = 240

_ENDS = (
    'instance.create.end',
    'instance.create.error',
    'compute_task.build_instances.error',
)

#: States of records that stand for what Nova's API calls the status.
_VM_STATES = {
    'ACTIVE': 'active',
    'ERROR': 'error',
    'RESCUE': 'rescued',
    'SHUTOFF': 'stopped',
    'VERIFY_RESIZE': 'resized',
}

#: States of records of servers that nothing else has to end for.
_AT_REST = ('active', 'error', 'stopped')

_GPU = {
    'description': '3D Controller',
    'vendor_id': '10DE',
    'device_id': '1DB6',
    'subsystem_vendor_id': '10DE',
    'subsystem_device_id': '124A',
    'class': '0302',
    'revision_id': 'A1',
}


def gpu_groups(number):
    """Return extra specs of a group that requests any GPU owned by Nova."""
    prefix = f'trait{number}:CUSTOM_POWERVM_IOSLOT'
    return {
        f'resources{number}:CUSTOM_GPU': '1',
        f'{prefix}_VENDOR_ID_10DE': 'required',
        f'{prefix}_DEVICE_ID_1DB6': 'required',
        f'trait{number}:{os_traits.OWNER_NOVA}': 'required',
    }


def location_trait(drc_name):
    """Return the generated trait of a location code."""
    return os_traits.normalize_name(f'POWERVM_IOSLOT_DRC_NAME_{drc_name}')


class EmulatedHost(fixtures.Fixture):
    """An emulated host that is stopped when the test ends.

    :param emulator: It, if it is one of several of a site.
    """

    def __init__(self, name, world=None, emulator=None):
        super().__init__()
        self.emulator = emulator or fixture.Emulator(
            world,
            # Each host generates different uuids.
            seed=sum(name.encode()),
            password=uuidutils.generate_uuid(),
        )

    def _setUp(self):
        self.emulator.start()
        self.addCleanup(self.emulator.stop)
        self.reader = plain_rest.Host(
            self.emulator.url, self.emulator.username, self.emulator.password
        )


# By its full name: the package hides the module behind nova itself.
NOVA_FIXTURES = sys.modules['nova.tests.fixtures.nova']


_CELLS = NOVA_FIXTURES.CellDatabases


def target_cell(cells, context, cell_mapping):
    """Have the context of a request choose the cell, and nothing else.

    Nova's fixture gives code that targets no cell, as that of nova-compute,
    the one that any thread has targeted last: a build did not find its own
    instance, and never ended, while the conductor put another one into cell0.
    """
    return cells._real_target_cell(context, cell_mapping)


def find_database(cells, context):
    """Return the database of a context, or of the cell that has hosts."""
    return getattr(context, 'db_connection', None) or cells._default_ctxt_mgr


_ASYNC = model.NetworkInfoAsyncWrapper
_MAKE_ASYNC = _ASYNC.__init__


def make_and_wait(info, *args, **options):
    """Allocate networks in Nova's thread, and wait for it, in any case.

    It changes the Instance that the build saves meanwhile: one build of
    thousands failed as the names of changed fields changed under its hands.
    """
    _MAKE_ASYNC(info, *args, **options)
    futures.wait([info._future], timeout=60)


def prepare_nova(case):
    """Let the functional tests of an installed Nova run, before their setUp().

    :param case: One of Nova's test cases.
    """
    paste = os.path.join(sys.prefix, 'etc', 'nova', 'api-paste.ini')
    case.flags(api_paste_config=paste, group='wsgi')
    for place, name, substitute in (
        (_CELLS, '_wrap_target_cell', target_cell),
        (_CELLS, '_wrap_get_context_manager', find_database),
        (_ASYNC, '__init__', make_and_wait),
    ):
        case.useFixture(fixtures.MockPatchObject(place, name, substitute))


_UNSET = object()
_GET_ADMIN_CONTEXT = nova_context.get_admin_context


def _overridden():
    """Return the values that tests have given to options."""
    return {
        (group.name if group else None, info['opt'].dest): info.get(
            'override', _UNSET
        )
        for info, group in CONF._all_opt_infos()
    }


def _chosen(names):
    """Return the names of the stories to tell, in their order."""
    chosen = [name for name in names if re.search(STORIES or '', name)]
    if STORY_ORDER:
        chosen.sort(key=lambda name: _digest(STORY_ORDER + name))
    return chosen


def _digest(text):
    return hashlib.sha256(text.encode()).digest()


class PowerVMTestCase(
    integrated_helpers.ProviderUsageBaseTestCase,
    integrated_helpers.InstanceHelperMixin,
):
    """Starts nova's services; tests start the hosts that they need."""

    compute_driver = 'powervm_ext.driver.PowerVMDriver'
    inventory = GPUS

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._failed_steps = []
        # Names of the stories that this test has still to tell.
        self._untold = None

    def setUp(self):
        prepare_nova(self)
        # A service reports to Nova first after five seconds. One that is
        # started again and again would count as down in the end.
        self.flags(service_down_time=24 * 3600)
        super().setUp()
        # Nova counts the instances of failed builds.
        self.flags(
            driver='nova.quota.NoopQuotaDriver',
            recheck_quota=False,
            group='quota',
        )
        self.stub_out(
            'nova.compute.utils.check_num_instances_quota',
            lambda context, flavor, least, most, *_, **__: most,
        )
        self.flags(notification_format='versioned', group='notifications')
        self.flavors = 0
        self.hosts = {}
        self._node_uuids = {}
        self._inventories = {}
        self._forgotten = 0
        self._booted = []
        self.addCleanup(self._fail_for_steps)
        self.image = self.create_image(IMAGE)

    # Stories

    def run(self, result=None):
        """Run the test; a new one tells the stories after one that failed."""
        outcome = super().run(result)
        if self._untold and self._failed_steps:
            rest = type(self)(self._testMethodName)
            rest._untold = self._untold
            first = self.id().partition(' after ')[0]
            rest.id = lambda: f'{first} after {self._failed_steps[-1]}'
            rest.run(result)
        return outcome

    def stories(self):
        """Return the stories of the class by their names, in order."""
        names = [
            name for name in vars(type(self)) if name.startswith('story_')
        ]
        return {name: getattr(self, name) for name in names}

    def tell_stories(self):
        """Run the stories of the class, one after the other.

        Starting services takes longer than most stories, so they share them.
        Each begins with what prepare() sets up, and leaves hosts and options
        as they were. One that does not, fails itself; it does not let others
        fail.
        """
        stories = self.stories()
        if self._untold is None:
            self.assertTrue(stories)
            self._untold = _chosen(list(stories))
        while self._untold and not self._failed_steps:
            name = self._untold.pop(0)
            with self.subTest(name):
                self._tell(stories[name])

    def _tell(self, story):
        options, before = _overridden(), self.standing()
        self.prepare()
        story()
        self.forget()
        self._restore(options)
        for number in range(600):
            after = self.standing()
            # A story may start a host of its own.
            changes = [
                f'left {after[host] - found}, lacks {found - after[host]}'
                for host, found in before.items()
                if after.get(host, found) != found
            ]
            if not changes:
                return
            if number > 50 and killed_threads.are_idle():
                break
            time.sleep(0.1)
        self.fail(f'the story has changed a host: {changes}')

    def _restore(self, options):
        """Give options the values that tests had given to them before."""
        for (group, name), value in _overridden().items():
            old = options.get((group, name), _UNSET)
            if old is _UNSET:
                CONF.clear_override(name, group)
            elif old != value:
                CONF.set_override(name, old, group)

    def standing(self):
        """Return what a story may not change for the next ones, by host."""
        return {
            host: standing.found_in(host.emulator.control.state())
            for host in self.hosts.values()
        }

    @contextlib.contextmanager
    def subTest(self, name='', **inputs):
        """Run a step; if it fails, go on and fail the test at its end.

        testtools does not support subtests.
        """
        try:
            yield
        except Exception:
            self.addDetailUniqueName(
                f'failed: {name} {inputs or ""}',
                content.TracebackContent(sys.exc_info(), self),
            )
            self._failed_steps.append(name)

    def _fail_for_steps(self):
        # Nova's cleanup resets testtools' own mark of a failure.
        self.assertEqual([], self._failed_steps)

    def prepare(self):
        """Set up what each story of a class needs."""

    def forget(self):
        """Delete a story's servers, faults, recorded requests and messages."""
        for name in self.hosts:
            self.control(name).clear_faults()
        for uuid in self._booted:
            self._delete_quickly(uuid)
        self._booted.clear()
        for name in self.hosts:
            self._remove_leftovers(name)
            self.control(name).clear_journal()
        self.notifier.reset()
        self._forgotten = len(self.stdlog.logger.output)

    def _remove_leftovers(self, host):
        """Remove the LPARs of deleted servers, which moves may have left."""
        context = nova_context.get_admin_context(read_deleted='yes')
        for partition in self.host_state(host)['partitions']:
            _, is_ours, number = partition['name'].partition('instance-')
            if is_ours:
                instance = objects.Instance.get_by_id(context, int(number, 16))
                if instance.deleted:
                    driver = self.computes[host].manager.driver
                    driver.destroy(context, instance, [], {})

    def _delete_quickly(self, uuid):
        """Delete a server that may have resources on a host.

        Its host does so; to ask Nova's API would take twice as long. A failed
        build was cleaned up, and its record in Nova does no harm.
        """
        found = self._states(uuid)
        if found is None or found.host is None:
            return
        if found.task_state or found.vm_state not in _AT_REST:
            # A server in ERROR may keep that status until it is gone.
            self._delete_server({'id': uuid, 'status': 'ERROR'})
            return
        instance = objects.Instance.get_by_uuid(
            nova_context.get_admin_context(), uuid
        )
        disks = objects.BlockDeviceMappingList.get_by_instance_uuid(
            instance._context, uuid
        )
        manager = self.computes[found.host].manager
        manager.terminate_instance(instance._context, instance, disks)

    def logged(self):
        """Return the log lines of the current story."""
        return self.stdlog.logger.output[self._forgotten :]

    @contextlib.contextmanager
    def flagged(self, **options):
        """Set options of [DEFAULT] within a context."""
        before = {name: CONF[name] for name in options}
        self.flags(**options)
        try:
            yield
        finally:
            self.flags(**before)

    # Hosts

    def start_host(self, name='host1', world=None, emulator=None, **options):
        """Start an emulated host and the nova-compute that manages it.

        :param options: See :meth:`configure`.
        """
        self.hosts[name] = self.useFixture(EmulatedHost(name, world, emulator))
        self.configure(name, **options)
        return self._start_compute(name)

    def restart_host(self, name='host1', **options):
        """Stop a nova-compute and start a new one for the same host."""
        self.computes[name].stop()
        self.configure(name, **options)
        return self._start_compute(name)

    def start_within(self, name):
        """Start a nova-compute again while another one starts.

        The other one goes on with its own configuration.
        """
        options, node = _overridden(), virt_node.LOCAL_NODE_UUID
        with fixtures.MonkeyPatch(
            # Nova's fixture lets it return the other one's context.
            'nova.context.get_admin_context',
            _GET_ADMIN_CONTEXT,
        ):
            self.restart_host(name)
        virt_node.LOCAL_NODE_UUID = node
        self._restore(options)

    def configure(self, name, inventory=None, mode=0o644, **options):
        """Set the configuration that the next nova-compute reads.

        :param inventory: Text of its inventory file; False for no file, None
            for the previous text.
        :param mode: Mode bits of the file.
        :param options: Options of the group [powervm].
        """
        if inventory is None:
            inventory = self._inventories.get(name, self.inventory)
        self._inventories[name] = inventory
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'inventory.yaml')
        if inventory is not False:
            with open(path, 'w') as file:
                file.write(inventory)
            os.chmod(path, mode)
        emulator = self.hosts[name].emulator
        self.flags(
            group='powervm',
            **{
                'inventory_file': path,
                'rest_url': emulator.url,
                'rest_username': emulator.username,
                'rest_password': emulator.password,
                'rest_connect_timeout': 0,
                'disk_driver': 'localdisk',
                'volume_group_name': 'image_pool',
                # Whole GB of zeros take seconds each.
                'disk_clear': 'none',
                'skip_free_provider_reads': SKIP_FREE_READS,
            }
            | options,
        )
        # All services of the test share a process, and so nova's cache.
        virt_node.LOCAL_NODE_UUID = self._node_uuids.setdefault(
            name, uuidutils.generate_uuid()
        )

    def control(self, name='host1'):
        """Return the control plane of an emulated host."""
        return self.hosts[name].emulator.control

    def await_found(self, find, failure):
        """Return what a function finds, once it finds anything.

        It may ask Nova's API, which takes as long as a boot; so it is called
        while nova-compute has nothing to do, and now and then.

        :param failure: Words for the failure if it finds nothing in the end.
        """
        deadline = time.monotonic() + _SECONDS
        number = 0
        while time.monotonic() < deadline:
            number += 1
            if number % 5 == 0 or killed_threads.are_idle():
                found = find()
                if found:
                    return found
            time.sleep(0.1)
        return self.fail(failure)

    # Instances

    def create_image(self, data, **changes):
        """Add an image to nova's Glance fixture, described as by Glance.

        :param data: Contents; images of the fixture itself have none.
        :param changes: Changes to the image's metadata.
        """
        metadata = {
            'name': 'image',
            'id': uuidutils.generate_uuid(),
            'status': 'active',
            'visibility': 'public',
            'container_format': 'bare',
            'disk_format': 'raw',
            'min_ram': 0,
            'min_disk': 0,
            'size': len(data),
            'os_hash_algo': 'sha512',
            'os_hash_value': hashlib.sha512(data).hexdigest(),
            'created_at': timeutils.utcnow(),
            'updated_at': timeutils.utcnow(),
            'deleted': False,
            'deleted_at': None,
            'protected': False,
            'tags': [],
            # Nova's filter drops hosts that can't run it.
            'properties': {'architecture': 'ppc64le'},
        } | changes
        created = self.glance.create(None, metadata, io.BytesIO(data))
        return created['id']

    def boot(
        self,
        extra_specs,
        expected='ACTIVE',
        image=None,
        networks='none',
        request=(),
        **sizes,
    ):
        """Boot a server with a new flavor; return it once its build has ended.

        :param expected: Status to assert; None for any final status.
        :param image: Image id; None for a small image.
        :param networks: Networks as in Nova's API.
        :param request: Further keys of the request.
        """
        server = self.start_boot(
            extra_specs, image, networks, request, **sizes
        )
        server = self._wait_until_built(server['id'])
        if expected is not None:
            self.assertEqual(expected, server['status'], server.get('fault'))
        return server

    def refuse_rebuild(self, server, image, **wanted):
        """Request a rebuild that is refused; return the reason.

        The reason is in the event of the instance action.

        :param wanted: Further keys of the request.
        """
        before = len(self.events(server, 'rebuild', builds.EVENT))
        self.api.post_server_action(
            server['id'], {'rebuild': {'imageRef': image, **wanted}}
        )

        def find_event():
            found = self.events(server, 'rebuild', builds.EVENT)
            return len(found) > before and found[0]['result'] and found[0]

        event = self.await_found(
            find_event, f'the rebuild of {server["id"]} has no end'
        )
        self.assertEqual('Error', event['result'])
        return event['details']

    def events(self, server, action, name=None):
        """Return the events of a server's actions of a kind, newest first.

        Nova's API would ask for each action, and tests ask often. An action
        that has no event yet is there with an event without a name.

        :param name: Name of the events; None for any.
        """
        context = nova_context.get_admin_context()
        with main_db.get_engine(context=context).connect() as connection:
            found = connection.exec_driver_sql(
                'SELECT made.id AS action, event, result, event.details'
                ' FROM instance_actions AS made'
                ' LEFT JOIN instance_actions_events AS event'
                ' ON made.id = action_id'
                ' WHERE instance_uuid = ? AND action = ?'
                ' ORDER BY made.id DESC, event.id DESC',
                (server['id'], action),
            )
            events = [dict(row) for row in found.mappings()]
        return [one for one in events if name in (None, one['event'])]

    def make_port(self, vlan=100, **changes):
        """Add a port as Neutron shows it once the mechanism driver bound it.

        :param vlan: VLAN of its network; None for a flat network.
        :param changes: Changes to the port's attributes.
        """
        number = len(self.neutron._ports) + 1
        port = copy.deepcopy(self.neutron.port_1) | {
            'id': uuidutils.generate_uuid(),
            'mac_address': f'fa:16:3e:00:00:{number:02x}',
            'fixed_ips': [
                {
                    'ip_address': f'192.168.1.{number + 100}',
                    'subnet_id': self.neutron.subnet_1['id'],
                }
            ],
            'binding:vif_type': 'pvm_sea',
            'binding:vif_details': {'port_filter': False}
            | ({} if vlan is None else {'vlan': vlan}),
            **changes,
        }
        self.neutron._ports[port['id']] = port
        return port

    def make_flavor(
        self,
        extra_specs=(),
        *,
        memory_mb=512,
        vcpu=1,
        disk=1,
        ephemeral=0,
        swap=0,
    ):
        """Create a flavor; return its id.

        Nova's API, which checks extra specs, takes a tenth of a boot for this.
        """
        self.flavors += 1
        flavor = str(1000 + self.flavors)
        objects.Flavor(
            nova_context.get_admin_context(),
            name=f'flavor{self.flavors}',
            flavorid=flavor,
            memory_mb=memory_mb,
            vcpus=vcpu,
            root_gb=disk,
            ephemeral_gb=ephemeral,
            swap=swap,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs=dict(extra_specs),
        ).create()
        return flavor

    def start_boot(
        self, extra_specs, image=None, networks='none', request=(), **sizes
    ):
        """Request a server with a new flavor; see :meth:`boot`."""
        flavor = self.make_flavor(extra_specs, **{'disk': 0} | sizes)
        body = self._build_server(
            image_uuid=self.image if image is None else image,
            flavor_id=flavor,
            networks=networks,
        )
        server = self.api.post_server({'server': {**body, **dict(request)}})
        self._booted.append(server['id'])
        return server

    def _wait_until_built(self, uuid):
        for number in range(2400):
            # Notifications are cheap, records expensive, the API more so.
            if number % 40 == 20 or (
                self._was_told_of(uuid) and self._has_end(uuid)
            ):
                server = self.api.get_server(uuid)
                if server['status'] == 'ACTIVE':
                    return server
                # Nova writes the fault after the status.
                if server['status'] == 'ERROR' and 'fault' in server:
                    return server
            time.sleep(0.1)
        self.fail(f'server {uuid} has no end')

    def _was_told_of(self, uuid):
        """Return whether Nova has notified of the end of a server's build."""
        for notification in list(self.notifier.versioned_notifications):
            if notification['event_type'] in _ENDS:
                data = notification['payload']['nova_object.data']
                if uuid in (data.get('uuid'), data.get('instance_uuid')):
                    return True
        return False

    def _has_end(self, uuid):
        """Return whether a server's record shows that its build has ended."""
        found = self._states(uuid)
        return found is not None and found.vm_state in ('active', 'error')

    def _states(self, uuid):
        """Return host and states of a server as :meth:`_record` does.

        Nova's objects would take twenty times as long, and tests ask often.
        """
        context = nova_context.get_admin_context()
        with main_db.get_engine(context=context).connect() as connection:
            return connection.exec_driver_sql(
                'SELECT host, vm_state, task_state FROM instances'
                ' WHERE uuid = ? AND deleted = 0',
                (uuid,),
            ).first()

    def _record(self, uuid):
        """Return Nova's record of a server, or None.

        A server without a host, or a deleted one, has no record in the cell.
        """
        try:
            return objects.Instance.get_by_uuid(
                nova_context.get_admin_context(), uuid, expected_attrs=[]
            )
        except nova_exception.InstanceNotFound:
            return None

    def _wait_for_server_parameter(
        self,
        server,
        expected_params,
        max_retries=None,
        api=None,
        wait_for_fault_key=True,
    ):
        """Wait longer than Nova's tests do, for a machine that is busy.

        Nova's API is asked once the record shows what is expected, and now
        and then.
        """
        api = api or self.admin_api
        status = expected_params.get('status')
        with_fault = wait_for_fault_key and status == 'ERROR'
        state = _VM_STATES.get(status)
        numbers = itertools.count(1)

        def find_server():
            now = self._states(server['id'])
            if (
                now
                and (state not in (None, now.vm_state) or now.task_state)
                and next(numbers) % 10
            ):
                return None
            found = api.get_server(server['id'])
            if expected_params.items() <= found.items() and (
                'fault' in found or not with_fault
            ):
                return found
            return None

        return self.await_found(find_server, f'no {expected_params}')

    def _wait_for_migration_status(self, server, expected_statuses):
        """Wait longer than Nova's tests do, for a machine that is busy."""
        path = f'/os-migrations?instance_uuid={server["id"]}'

        def find_migration():
            for migration in self.admin_api.api_get(path).body['migrations']:
                if migration['status'].lower() in expected_statuses:
                    return migration
            return None

        return self.await_found(
            find_migration, f'no migration is in {expected_statuses}'
        )

    def _wait_until_deleted(self, server):
        """Wait longer than Nova's tests do, for a machine that is busy."""
        may_fail = server.get('status') == 'ERROR'

        def is_deleted():
            states = self._states(server['id'])
            if states and states.vm_state != 'error':
                return False
            try:
                found = self.api.get_server(server['id'])
            except client.OpenStackApiNotFoundException:
                return True
            if found['status'] == 'ERROR' and not may_fail:
                self.fail(f'the deletion fails: {found.get("fault")}')
            return False

        self.await_found(is_deleted, f'server {server["id"]} is not deleted')

    def _wait_for_instance_action_event(
        self, server, action_name, event_name, event_result
    ):
        """Wait longer than Nova's tests do, for a machine that is busy."""

        def find_event():
            for event in self.events(server, action_name, event_name):
                if (event['result'] or '').lower() == event_result:
                    return event
            return None

        return self.await_found(
            find_event, f'{event_name} has no {event_result}'
        )

    def wait_until_unallocated(self, server):
        """Wait for the allocations of a failed build to go.

        Nova removes them after the server's status has become ERROR.
        """
        self.await_found(
            lambda: not self._get_allocations_by_server_uuid(server['id']),
            f'server {server["id"]} still has allocations',
        )

    def instance(self, server):
        """Return Nova's record of a server."""
        return objects.Instance.get_by_uuid(
            nova_context.get_admin_context(),
            server['id'],
            expected_attrs=['resources'],
        )

    def keep_all(self, server, host='host1'):
        """Record of a server all that the driver can keep of one."""
        instance = self.instance(server)
        for key in (
            system_metadata.ACCELERATORS,
            system_metadata.IMAGE,
            system_metadata.POOL,
            system_metadata.ROOT_GB,
            system_metadata.console(host),
            system_metadata.of_host('vlan:bridge:100', host),
        ):
            if key.read(instance.system_metadata) is None:
                key.write(instance.system_metadata, 'kept by the driver')
        instance.save()

    def forget_virtual_slots(self, server):
        """Have a server be one of a driver that did not record its slots."""
        instance = self.instance(server)
        for name in slot_records.recorded(instance):
            key = system_metadata.virtual_slot(name)
            key.remove(instance.system_metadata)
        instance.save()

    def assert_has_no_keys(self, image):
        """Assert that an image has no property that the driver has made."""
        kept = [name for name in image['properties'] if 'powervm' in name]
        self.assertEqual([], kept)
        self.assertNotIn('kept by the driver', str(image))

    def fault(self, server):
        """Return the message of a server's fault.

        Nova writes it after the status that it explains.
        """
        fault = self.await_found(
            lambda: self.api.get_server(server['id']).get('fault'),
            f'server {server["id"]} has no fault',
        )
        return fault['message']

    # The host, as the emulator's control plane shows it

    def host_state(self, host='host1'):
        """Return the state of the emulated system."""
        (system,) = self.control(host).state()['systems']
        return system

    def vios(self, host='host1'):
        """Return the state of the Virtual I/O Server of a host."""
        return self._partition('vios1', host)

    def _partition(self, name, host='host1'):
        return next(
            partition
            for partition in self.host_state(host)['partitions']
            if partition['name'] == name
        )

    def volume_group(self, name='image_pool', host='host1'):
        """Return the state of one volume group."""
        return next(
            group
            for group in self.vios(host)['volume_groups']
            if group['name'] == name
        )

    def disks(self, host='host1'):
        """Return the virtual disks in the volume group of the instances."""
        return self.volume_group(host=host)['disks']

    def media(self, host='host1'):
        """Return the virtual optical media of the host."""
        return [
            medium
            for group in self.vios(host)['volume_groups']
            if group['media_repository']
            for medium in group['media_repository']['media']
        ]

    def mappings(self, host='host1'):
        """Return the virtual SCSI mappings of the host."""
        return self.vios(host)['scsi_mappings']

    def adapters(self, server, host='host1'):
        """Return the network adapters of a server's LPAR."""
        name = server['OS-EXT-SRV-ATTR:instance_name']
        return self._partition(name, host)['adapters']

    def contents(self, stored, host='host1'):
        """Return the bytes of a disk or medium."""
        return self.control(host).contents(stored['udid'])

    def jobs(self, host='host1'):
        """Return the jobs of LPARs since the journal was cleared."""
        return [
            record['path'].rpartition('/')[2]
            for record in self.control(host).journal()
            if record['label'] == 'LogicalPartition.job'
        ]

    # The host, as its REST API shows it

    def lpar(self, server, host='host1'):
        """Return a server's LPAR, or None."""
        return self.hosts[host].reader.lpars().get(self.lpar_uuid(server))

    def lpar_uuid(self, server):
        """Return the uuid of a server's LPAR, on whichever host it is."""
        first = f'{int(server["id"][0], 16) & 7:x}'
        return (first + server['id'][1:]).upper()

    def lpar_named(self, name, host='host1'):
        """Return the LPAR with a name, or None."""
        lpars = self.hosts[host].reader.lpars().values()
        return next((lpar for lpar in lpars if lpar.name == name), None)

    def slot(self, index, host='host1'):
        """Return the slot with a DRC index."""
        return self.hosts[host].reader.slots()[index]

    def slot_owner(self, index, host='host1'):
        """Return the uuid of the LPAR that owns a slot, or None."""
        return self.slot(index, host).owner

    def plug_gpu(self, index, host='host1'):
        """Plug another GPU into a slot."""
        self.control(host).plug(index, _GPU)

    # Placement

    def _get_provider_uuid_by_host(self, host):
        """Return it without asking Nova, which takes as long as a boot."""
        return self._node_uuids.get(
            host
        ) or super()._get_provider_uuid_by_host(host)

    def slot_providers(self, host='host1'):
        """Return the providers of a host's slots, by DRC index."""
        root = self._get_provider_uuid_by_host(host)
        return {
            int(provider['name'][-8:], 16): provider
            for provider in self._get_all_rps_in_a_tree(root)
            if provider['name'].startswith('PowerVM IOSlot')
        }

    def slot_classes(self, host='host1'):
        """Return the resource classes of each slot's provider."""
        return {
            index: set(self._get_provider_inventory(provider['uuid']))
            for index, provider in self.slot_providers(host).items()
        }

    def allocated_slots(self, server):
        """Return the DRC indexes that Placement allocated to a server."""
        host = server['OS-EXT-SRV-ATTR:host']
        allocations = self._get_allocations_by_server_uuid(server['id'])
        return sorted(
            index
            for index, provider in self.slot_providers(host).items()
            if provider['uuid'] in allocations
        )

    def generation(self, uuid):
        """Return a provider's generation."""
        return self._get_resource_provider_by_uuid(uuid)['generation']

    def generations(self):
        """Return the generation of every provider."""
        return {p['uuid']: p['generation'] for p in self._get_all_providers()}

    def reserve(self, uuid, resource_class, reserved):
        """Set reserved of a provider's inventory, as an operator does."""
        record = self._get_provider_inventory(uuid)[resource_class]
        self.set_inventory(
            uuid, {resource_class: record | {'reserved': reserved}}
        )

    def release_all(self, host='host1'):
        """Release all burned devices of a host; return how many."""
        count = 0
        for provider in self.slot_providers(host).values():
            uuid = provider['uuid']
            ((name, record),) = self._get_provider_inventory(uuid).items()
            if record['reserved']:
                self.reserve(uuid, name, 0)
                count += 1
        return count

    def set_inventory(self, uuid, inventories):
        """Replace a provider's inventories."""
        answer = self.placement.put(
            f'/resource_providers/{uuid}/inventories',
            {
                'resource_provider_generation': self.generation(uuid),
                'inventories': inventories,
            },
            version='1.26',
        )
        self.assertEqual(200, answer.status, answer.body)
