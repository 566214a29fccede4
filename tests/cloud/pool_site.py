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

"""A cloud of two real nova-computes that share a pool, to be disturbed."""

import base64
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from unittest import mock

import openstack.connection
import openstack.exceptions

from demo import cloud as cloud_lib
from demo import config
from demo import expected_providers
from demo import launcher
from demo import messaging
from demo import server_steps
from demo import stack as stack_lib
from demo import supervisor as supervisor_lib
from powervm_emulator import client
from tests.cloud import pool_checks as checks

#: Nova's periodic tasks run often, so that each case is soon at rest. Nova
#: accepts no fractions of seconds.
_OPTIONS = """
[DEFAULT]
update_resources_interval = 5
running_deleted_instance_poll_interval = 5
rpc_response_timeout = 20
periodic_fuzzy_delay = 0

[image_cache]
manager_interval = 5
remove_unused_original_minimum_age_seconds = 86400
"""

_MOVES = ('resize', 'migration')
_MOVING = (
    *('accepted', 'pre-migrating', 'migrating', 'post-migrating'),
    *('finished', 'confirming', 'reverting'),
)

_POLL = 0.2
_START_SECONDS = 120.0
_IMAGE_BYTES = 256 * 1024

GPU, GPUS = 'gpu', 'gpus'


@dataclasses.dataclass(frozen=True)
class Flavor:
    """What a server gets, beside an ephemeral disk of 1 GB.

    :ivar gpus: the number of its GPUs.
    :ivar swap: MB of its swap disk.
    :ivar disk: GB of its root disk.
    :ivar memory: MB.
    """

    gpus: int
    swap: int
    disk: int
    memory: int


FLAVORS = {GPU: Flavor(1, 512, 1, 512), GPUS: Flavor(2, 1024, 2, 1024)}


@dataclasses.dataclass
class Expected:
    """What a server has to be.

    :ivar name: its flavor's name.
    :ivar contents: what its root disk has to contain.
    :ivar was_whole: whether it was ever built, so that its disks exist.
    :ivar before: the name of its former flavor, while a move of it waits for
        its confirmation.
    :ivar is_repaired: whether a move of it has failed, so that its devices
        and disks may be those of another flavor than Nova shows.
    """

    name: str
    contents: bytes
    was_whole: bool = False
    before: str | None = None
    is_repaired: bool = False

    @property
    def flavor(self):
        """Its flavor."""
        return FLAVORS[self.name]

    @property
    def disk(self):
        """GB of its root disk, which grows with the confirmation."""
        return FLAVORS[self.before or self.name].disk


@dataclasses.dataclass
class Side:
    """A compute host.

    :ivar compute: its nova-compute.
    :ivar control: the controls of its emulator.
    :ivar is_up: whether nova-compute runs.
    :ivar has_power: whether the host runs.
    """

    compute: stack_lib.Compute
    control: client.Client
    is_up: bool = True
    has_power: bool = True

    @property
    def name(self):
        """The name of the host in Nova."""
        return self.compute.name


class Site:
    """The cloud, and requests to it that do not wait for their end.

    :ivar expected: what each server has to be, by its id.
    :ivar images: the bytes of each image, by its id.
    """

    def __init__(self, stack, supervisor):
        self.stack = stack
        self.supervisor = supervisor
        self.cloud = cloud_lib.Cloud(stack)
        self.api = openstack.connection.Connection(
            auth={
                'auth_url': stack.auth_url,
                'username': 'admin',
                'password': stack.passwords['admin'],
                'project_name': 'admin',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            region_name=stack_lib.REGION,
            app_name='nova-powervm-tests',
        )
        self.sides = [
            Side(compute, client.Client(compute.host.url))
            for compute in stack.computes
        ]
        self.expected = {}
        self.images = {}
        self._names = iter(range(1, 1_000_000))
        self._pids = {}
        for side in self.sides:
            path = config.compute_file(stack, side.compute)
            with path.open('a') as file:
                file.write(_OPTIONS)
        self._parent = subprocess.Popen(
            [
                *(sys.executable, '-m', 'tests.cloud.forked_computes'),
                str(config.compute_file(stack, self.sides[0].compute)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **messaging.environment(stack.transport_url),
                'OS_NOVA_DISABLE_EVENTLET_PATCHING': 'true',
                'PYTHONWARNINGS': 'ignore',
            },
            start_new_session=True,
        )

    def prepare(self):
        """Create a network and flavors, and start nova-computes anew."""
        self.network = self.cloud.create_network()
        for name, flavor in FLAVORS.items():
            self._create_flavor(name, flavor)
        for side in self.sides:
            self.supervisor.kill(side.compute.service)
        for side in self.sides:
            self.start(side)

    def _create_flavor(self, name, flavor):
        created = self.api.compute.create_flavor(
            name=name,
            ram=flavor.memory,
            vcpus=1,
            disk=flavor.disk,
            ephemeral=1,
            swap=flavor.swap,
        )
        specs = {'group_policy': 'isolate'} if flavor.gpus > 1 else {}
        for number in range(1, flavor.gpus + 1):
            specs |= server_steps.gpu_group(
                number, expected_providers.OWNER_NOVA
            )
        self.api.compute.create_flavor_extra_specs(created, specs)

    def stop(self):
        """End what this object has started."""
        os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.communicate()

    def side_of(self, name):
        """Return the side with a name; None for no name."""
        return next((one for one in self.sides if one.name == name), None)

    def other(self, side):
        """Return the other side."""
        first, second = self.sides
        return second if side is first else first

    def make_image(self):
        """Upload an image that has never been before; return its id."""
        data = os.urandom(_IMAGE_BYTES)
        found = self.api.image.create_image(
            name=f'image-{next(self._names)}',
            data=data,
            container_format='bare',
            disk_format='raw',
            validate_checksum=False,
            wait=True,
        )
        self.images[found.id] = data
        return found.id

    def boot(self, flavor, image, side):
        """Request a server on a host, and return its id."""
        found = self.api.compute.create_server(
            name=f'server-{next(self._names)}',
            flavor_id=self.api.compute.find_flavor(flavor).id,
            image_id=image,
            networks=[{'uuid': self.network.id}],
            config_drive=True,
            host=side.name,
        )
        self.expected[found.id] = Expected(flavor, self.images[image])
        return found.id

    def server(self, server):
        """Return a server as Nova has it, or None."""
        try:
            return self.api.compute.get_server(server)
        except openstack.exceptions.NotFoundException:
            return None

    def moves(self):
        """Return the moves that have not ended, by the servers."""
        return {
            found.server_id: found
            for found in sorted(
                self.api.compute.migrations(), key=lambda one: one.id
            )
            if found.migration_type in _MOVES and found.status in _MOVING
        }

    def last_move(self, server):
        """Return the last move of a server, or None."""
        found = self.api.compute.migrations(server_id=server)
        moves = [one for one in found if one.migration_type in _MOVES]
        return max(moves, key=lambda one: one.id, default=None)

    def delete(self, server):
        """Request that a server is deleted."""
        self.api.compute.delete_server(server, ignore_missing=True)

    def write(self, server):
        """Write to the root disk of a server, as its guest does."""
        data = os.urandom(64)
        name = checks.unit_name(server, 'root')
        # Either host knows the pool, also without power.
        control = self.sides[0].control
        control.write_disk(
            checks.units(control)[name]['udid'],
            base64.b64encode(data).decode(),
        )
        known = self.expected[server]
        known.contents = data + known.contents[len(data) :]

    def await_true(self, what, is_true, seconds=90.0):
        """Wait until a condition is true, and return what is true of it.

        :raises TimeoutError: it is not.
        """
        deadline = time.monotonic() + seconds
        while True:
            result = is_true()
            if result:
                return result
            if time.monotonic() > deadline:
                raise TimeoutError(f'{what}: not within {seconds:.0f} s')
            time.sleep(_POLL)

    def await_task(self, server, seconds=120.0):
        """Wait until a server has no task, and return it; None if gone."""

        def is_idle():
            found = self.server(server)
            if found is None:
                return [None]
            is_built = found.status not in ('BUILD', 'REBUILD')
            return [found] if is_built and not found.task_state else []

        return self.await_true(f'server {server} at rest', is_idle, seconds)[0]

    def kill(self, side):
        """Kill a nova-compute where it is."""
        pid = self._pids.pop(side.name)
        os.kill(pid, signal.SIGKILL)
        self.await_true(f'{pid} is gone', lambda: not _exists(pid))
        side.is_up = False

    def start(self, side):
        """Start a nova-compute, and wait until it serves."""
        before = self._last_report(side)
        files = (
            config.compute_file(self.stack, side.compute),
            self.supervisor.output(side.compute.service),
        )
        print(
            json.dumps([*map(str, files)]), file=self._parent.stdin, flush=True
        )
        self._pids[side.name] = int(self._parent.stdout.readline())
        self.await_true(
            f'{side.compute.service} serves, or has ended',
            lambda: (
                self._last_report(side) != before
                or not _exists(self._pids[side.name])
            ),
            _START_SECONDS,
        )
        if not _exists(self._pids[side.name]):
            raise RuntimeError(f'{files[1]} says why nova-compute has ended')
        side.is_up = True

    def _last_report(self, side):
        (found,) = self.api.compute.services(
            binary='nova-compute', host=side.name
        )
        return found.updated_at

    def await_cycle(self, side):
        """Wait until nova-compute has looked at all its instances.

        Only then can it claim a device again that a server had which was
        evacuated to it and then deleted.
        """
        before = _cycles(side)
        # The second one begins when the first has ended.
        self.await_true(
            f'two cycles of {side.name}',
            lambda: _cycles(side) >= before + 2,
        )

    def lose(self, side):
        """Kill a nova-compute, cut the power, and tell Nova."""
        if side.is_up:
            self.kill(side)
        side.control.power_off_system()
        side.has_power = False
        self.cloud.compute_hosts.force_down(side.name)

    def regain(self, side):
        """Power a host on, and start its nova-compute."""
        side.control.power_on_system()
        side.has_power = True
        self.start(side)
        self.cloud.compute_hosts.end_force(side.name)


@contextlib.contextmanager
def running(state_dir):
    """Run the cloud in a context.

    :param state_dir: a directory that does not exist.
    """
    os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = stack_lib.make_state_dir(state_dir)
    with supervisor_lib.Supervisor(made / 'log') as supervisor:
        with mock.patch.dict(config.FILES, {config.NOVA: _nova}):
            stack = launcher.launch(
                made, supervisor, launcher.Choices(hosts=2), _say
            )
        site = Site(stack, supervisor)
        try:
            site.prepare()
            yield site
        finally:
            site.stop()


def _nova(stack):
    """Return the configuration of Nova's API, with resizes in place."""
    sections = config.nova(stack)
    sections['DEFAULT'] |= {'allow_resize_to_same_host': True}
    return sections


def _cycles(side):
    counts = side.control.journal_counts()
    return counts.get('GET ManagedSystem.read', 0)


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _say(line):
    print(line, flush=True)
