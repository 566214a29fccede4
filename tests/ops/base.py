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

"""A host, and operations on it as nova-compute asks for them.

pypowervm talks to the emulator over HTTP, and :mod:`nova_powervm.ops` is as it
is. There is no Nova and no Placement: a story says what they would.
"""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import operator
import tempfile
import unittest
import unittest.mock

import tenacity.nap
from pypowervm.wrappers import job

from emulator.tests import base as emulator_base
from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import claims
from nova_powervm.lpar import image
from nova_powervm.lpar import network_ports
from nova_powervm.lpar import operations
from nova_powervm.lpar import settings as lpar_settings
from nova_powervm.lpar import spec
from nova_powervm.lpar import storage
from nova_powervm.lpar import volumes
from nova_powervm.ops import apply
from nova_powervm.ops import claiming
from nova_powervm.ops import host as host_ops
from nova_powervm.ops import images
from nova_powervm.ops import network as network_ops
from nova_powervm.ops import removal
from nova_powervm.ops import survey
from nova_powervm.ops import volumes as volume_ops
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import partitions
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm import vif
from nova_powervm.powervm import volume
from nova_powervm.powervm.disk import localdisk
from nova_powervm.powervm.disk import ssp
from nova_powervm.powervm.vif import sea
from nova_powervm.powervm.vif import virtual_ethernet
from nova_powervm.powervm.volume import vscsi
from powervm_emulator import fixture
from powervm_emulator import worlds

# Slots of the default world.
GPU, GPU2, GPU3, GPU4 = emulator_base.GPUS
NVME = emulator_base.NVME
FOREIGN = emulator_base.FOREIGN_SLOT

INSTANCE = '4b1c2d3e-0f00-4000-8000-000000000001'
DATA = b'\x01boot sector' + bytes(1000)
IMAGE = image.Image(
    'it', 'raw', len(DATA), 'sha512', hashlib.sha512(DATA).hexdigest()
)
SWAP = storage.Disk(storage.SWAP, 0.5)
EPHEMERAL = storage.Disk(storage.EPHEMERALS[0], 3)
ISO = b'what cloud-init reads'
VLAN = 100
PORT = network_ports.Port('port1', 'fa:16:3e:00:00:01', 'pvm_sea', vlan=VLAN)
PORT2 = network_ports.Port('port2', 'fa:16:3e:00:00:02', 'pvm_sea', vlan=VLAN)

#: As many bytes has a GB where :func:`make_gigabytes_small` was called.
SMALL_GB = 1 << 20

NAME = 'vm1'
RUNNING, OFF, FAILED = 'running', 'not activated', 'error'
#: Seconds that pypowervm waits for a job.
DEFAULT = 1800
#: The requests that write the document of an LPAR.
DOCUMENT = ('PUT LogicalPartition.create', 'POST LogicalPartition.update')


def provider(drc_index):
    """Return the uuid of a slot's provider."""
    return f'provider of {drc_index:08X}'


def claim(drc_index):
    """Return the claim of a slot that Nova has allocated."""
    return claims.Claim(provider(drc_index), drc_index)


def slot(drc_index, *, one_time_use=False):
    """Return a slot that an instance is to have."""
    found = claim(drc_index)
    return spec.WantedSlot(found, burns=(found,) if one_time_use else ())


def managed_by_server(world):
    """Let the Virtual I/O Server of a world be the management partition."""
    (found,) = world['systems']
    (server,) = found['virtual_io_servers']
    server['management'] = True
    found['partitions'] = [
        partition
        for partition in found['partitions']
        if not partition.get('management')
    ]
    return world


def make_gigabytes_small(test, size=SMALL_GB):
    """Let a GB of a disk have fewer bytes for a test."""
    for name, value in {
        'powervm_emulator.core.units._GB': size,
        'nova_powervm.lpar.storage.GIB': size,
        'nova_powervm.powervm.management_partition.BYTES_PER_GB': size,
        'nova_powervm.powervm.disk.clearing.MIB': size // 1024,
    }.items():
        test.enterContext(unittest.mock.patch(name, value))


class Askers(survey.Askers):
    """Answers as a test says, and nothing else."""

    def __init__(self, **answers):
        vars(self).update(answers)


class Placement:
    """Placement with the providers of the slots, in memory.

    :param trail: Notes a call in the order of the requests to the host.
    :ivar allocated: Providers that are allocated to the instance; None for
        all.
    :ivar burned: Those whose inventory is reserved.
    :ivar silent: Those that it gives no answer about; ``allocations`` for
        what is allocated.
    """

    def __init__(self, trail):
        self._trail = trail
        self.allocated = None
        self.burned = set()
        self.silent = set()

    def _ask(self, call, uuid):
        if uuid in self.silent:
            self._trail(f'GET no answer to {call}')
            raise exception.PlacementUnanswered(request=call, reason='503')
        self._trail(call)

    def allocated_to(self, consumer):
        """Return what is allocated to a consumer."""
        self._ask('GET allocations', 'allocations')
        if self.allocated is not None:
            return self.allocated
        return [provider(s) for s in (*emulator_base.GPUS, NVME)]

    def is_burned(self, uuid, classes):
        """Return whether a provider is reserved."""
        self._ask(f'GET {uuid}', uuid)
        return uuid in self.burned

    def burn(self, uuid, classes):
        """Reserve a provider."""
        self._ask(f'burn {uuid.removeprefix("provider of ")}', uuid)
        is_new = uuid not in self.burned
        self.burned.add(uuid)
        return is_new


class Records:
    """Nova's records: no LPAR is an instance's, and no metadata has a VLAN."""

    def holdings(self, lpar_uuids):
        """Return no slots."""
        return {}

    def stale_lpars(self, lpar_uuids, host):
        """Return no LPARs."""
        return {}

    def awaited(self, host):
        """Return no LPARs."""
        return ()

    def metadata_keys(self):
        """Return no keys."""
        return ()

    awaited_keys = metadata_keys

    def remove_key(self, key):
        """Forget nothing."""

    ports = metadata_keys


class Source:
    """An image in Glance that counts its readings."""

    def __init__(self, data=DATA):
        self.chunks = [data]
        self.opened = self.closed = 0

    def __call__(self):
        self.opened += 1
        try:
            yield from self.chunks
        finally:
            self.closed += 1


@functools.cache
def _host_root():
    """Make the root directory of the management partition."""
    return tempfile.TemporaryDirectory()


@functools.cache
def _emulator():
    """Start the emulator of this process, which ends with it."""
    return fixture.Emulator(host_root=_host_root().name).start()


@functools.cache
def _session(is_local):
    """Log on to it, once."""
    emulator = _emulator()
    made = session.connect(_server(emulator, is_local)).session
    emulator_base.forget(made)
    return made


def _server(emulator, is_local=False):
    return options.Server(
        url=emulator.url,
        username=None if is_local else emulator.username,
        password=None if is_local else emulator.password,
        connect_timeout=0,
    )


class Clock:
    """The time as those who wait see it: it passes at once."""

    def __init__(self):
        self.now = 0.0

    def time(self):
        """Return seconds."""
        return self.now

    monotonic = time

    def sleep(self, seconds):
        """Let the time pass."""
        self.now += seconds


class HostTestCase(unittest.TestCase):
    """A host for each story, and what an operator can do and see there.

    :cvar disk_driver: ``localdisk`` or ``ssp``; a host with ``ssp`` has two
        VIOSes in a cluster.
    :cvar reports_owners: Whether the host reports who owns a slot.
    :cvar is_local: Whether the service runs on the management partition.
    :ivar host_root: The root directory of that partition.
    """

    disk_driver = 'localdisk'
    is_local = False

    def setUp(self):
        super().setUp()
        emulator_base.quieten(self)
        self.clock = Clock()
        self.enterContext(
            unittest.mock.patch.object(tenacity.nap, 'time', self.clock)
        )
        self.enterContext(
            unittest.mock.patch.object(job.Job, 'run_job', self._run_job())
        )
        self.emulator = _emulator()
        self.host_root = _host_root().name
        self.control = self.emulator.control
        self._known = []
        self.begin()
        self.addCleanup(self._assert_safe)

    def world(self):
        """Return the world of a story."""
        world = worlds.default()
        (found,) = world['systems']
        found['network_bridges'][0]['vlans'] = [VLAN]
        if self.disk_driver == 'ssp':
            found['virtual_io_servers'].append(
                {
                    'name': 'vios2',
                    'state': 'running',
                    'rmc_state': 'active',
                    'memory': 4096,
                    'processors': 1,
                    'volume_groups': [{'name': 'rootvg', 'capacity': 100}],
                }
            )
            world['clusters'] = [
                {
                    'name': 'cloud',
                    'nodes': ['vios1', 'vios2'],
                    'pool': {'name': 'pool1', 'capacity': 20},
                }
            ]
        return world

    def begin(self):
        """Load the world anew, with a service that has just started."""
        self.control.load_world(self.world())
        self.jobs = []
        self._calls = []
        self._others = self._state_of_others()
        self.placement = Placement(self._note)
        self.start_service()

    def is_new(self, request=None):
        """Return whether a sweep's story comes to this for the first time.

        What a new service does to a host it does to an equal one. One that
        has met a fault may remember something of it.

        :param request: Which request met the fault.
        """
        state = self.control.state()
        del state['sessions']
        found = request, sorted(self.placement.burned), repr(state)
        is_new = found not in self._known
        self._known.append(found)
        return is_new

    def start_service(self, **settings):
        """Start a service that remembers nothing."""
        self.adapter = session.Adapter(_session(self.is_local))
        server = _server(self.emulator, self.is_local)
        chosen = options.Settings(
            server=server,
            disk_driver=self.disk_driver,
            volume_group='image_pool',
            # Whole GB of zeros take seconds: tests.ops.test_clearing.
            disk_clear='none',
            management_root=self.host_root,
        )
        if self.disk_driver == 'ssp':
            chosen = dataclasses.replace(chosen, volume_group=None)
        chosen = dataclasses.replace(chosen, **settings)
        self.managed = system.RestSystem(self.adapter, server)
        driver = {'localdisk': localdisk, 'ssp': ssp}[self.disk_driver]
        self.disks = driver.load(
            disk_drivers.Context(self.adapter, self.managed, chosen)
        )
        records = self.records()
        self.partitions = partitions.RestPartitions(
            self.adapter, self.managed, chosen.virtual_slots
        )
        self.networks = network_ops.NetworkOps(
            {
                PORT.vif_type: sea.load(
                    vif.Context(self.adapter, self.managed, chosen, records)
                )
            },
            virtual_ethernet.VirtualEthernet(
                self.adapter, self.managed
            ).has_management_switch,
        )
        self.volumes = volume_ops.VolumeOps(
            self.volume_drivers(
                volume.Context(self.adapter, self.managed, chosen)
            )
        )
        self.removals = removal.RemovalOps(
            self.partitions,
            self.disks,
            self.volumes,
            self.clock.monotonic,
        )
        self.lpars = apply.LparOperations(
            survey.Readers(
                self.partitions,
                host_ops.HostReader(
                    self.managed, self.disks, records, self.placement, 'host1'
                ),
                self.placement,
                self.disks,
                images.ImageOps(),
                self.networks,
                self.volumes,
            ),
            claiming.BurnOps(self.placement),
            self.removals,
        )

    def records(self):
        """Return the records of Nova for a service."""
        return Records()

    def volume_drivers(self, context):
        """Return the volume drivers of a service, by type."""
        return {volumes.FIBRE_CHANNEL: vscsi.load(context)}

    def _run_job(self):
        """Return what notes the options of a job before it runs it."""
        run = job.Job.run_job

        def noted(found, uuid, job_parms=None, timeout=1800, **options):
            self.jobs.append(_describe_job(found.op, job_parms, timeout))
            return run(
                found, uuid, job_parms=job_parms, timeout=timeout, **options
            )

        return noted

    # What a story does

    def describe(self, **fields):
        """Describe an instance with a root disk and one port."""
        return spec.Wanted(
            **{
                'instance_uuid': INSTANCE,
                'name': NAME,
                'settings': lpar_settings.FlavorSettings(1024, 1, 0.5),
                'root': spec.WantedImage(IMAGE, 1),
                'ports': (PORT,),
            }
            | fields
        )

    def run_plan(self, operation, wanted, **asked):
        """Run an operation; forget the requests before it."""
        self.forget()
        asked_for = Askers(
            **{
                'image': Source(),
                'make_config_drive': lambda slots, mac: ISO,
                'ports': lambda: wanted.ports or (),
                'bind_ports': lambda: wanted.ports or (),
            }
            | asked
        )
        return self.lpars.run(operation, wanted, asked_for)

    def spawn(self, **fields):
        """Spawn an instance, and return its description."""
        wanted = self.describe(**fields)
        self.run_plan(operations.SPAWN, wanted)
        return wanted

    def refused(self, error, operation, wanted, *words, **asked):
        """Assert that an operation is refused and changes nothing."""
        found = self.failed(error, operation, wanted, *words, **asked)
        self.assertEqual([], self.changes())
        return found

    def failed(self, error, operation, wanted, *words, **asked):
        """Assert that an operation fails with some words."""
        with self.assertRaises(error) as caught:
            self.run_plan(operation, wanted, **asked)
        for word in words:
            self.assertIn(word, str(caught.exception))
        return caught.exception

    def forget(self):
        """Forget requests, jobs and calls of Placement."""
        self.control.clear_journal()
        self.jobs.clear()
        self._calls.clear()

    def give(self, drc_index, owner=NAME):
        """Give a slot to a partition, or to none, outside Nova."""
        self.control.set_owner(f'{drc_index:08X}', owner)

    def set_state(self, state, **changes):
        """Set the state of the LPAR, as a guest or the host does."""
        self.control.set_partition(NAME, state, **changes)

    def sicken(self, *names):
        """Have Virtual I/O Servers deliver no storage data, as V11R2 does.

        Their feed has none of any server then.
        """
        uuids = '|'.join(self.lpar(name)['uuid'] for name in names)
        self.control.add_fault(
            method='GET',
            match=rf'(?i)/VirtualIOServer(/({uuids}))?\?group=Vios(Sto|SCSI)',
            every=True,
            status=500,
            message='Error occurred while querying for ViosStorage: '
            'Data cannot be retrieved from VIOS.',
        )

    def make_adapter(self, name, port):
        """Create an adapter of a partition, as another tool does."""
        uuid = self.lpar(name)['uuid'].upper()
        (connection,) = self.networks.connect([port])
        found = self.partitions.find(uuid)
        self.networks.create(found, [connection], network_ops.NO_METADATA)

    # What it sees

    def _note(self, call):
        """Note a call of Placement, between two requests to the host."""
        self._calls.append((len(self.control.journal()), call))

    def trail(self):
        """Return requests and calls of Placement in their order."""
        found = [
            (number, _name(record))
            for number, record in enumerate(self.control.journal(), start=1)
        ]
        # Sorted by number only: a call comes after the request before it.
        return [
            name
            for _, name in sorted(
                found + self._calls, key=lambda pair: pair[0]
            )
        ]

    def changes(self):
        """Return what changes something of the trail."""
        return [name for name in self.trail() if not name.startswith('GET')]

    def _system(self):
        (found,) = self.control.state()['systems']
        return found

    @contextlib.contextmanager
    def unchanged(self):
        """Read the state once for several assertions."""
        with unittest.mock.patch.object(
            self, '_system', return_value=self._system()
        ):
            yield

    def logged(self, level):
        """Return a context that notes log lines of a level."""
        logging.disable(logging.NOTSET)
        return self.assertLogs('nova_powervm', level)

    def lpar(self, name=NAME):
        """Return an LPAR as the control plane shows it, or None."""
        return next(
            (p for p in self._system()['partitions'] if p['name'] == name),
            None,
        )

    def slots(self):
        """Return DRC index -> whether it is required, of the LPAR's slots."""
        return {
            int(slot['drc_index'], 16): slot['required']
            for slot in self.lpar()['slots']
        }

    def adapters(self):
        """Return MAC address and VLAN of the LPAR's adapters."""
        return sorted((a['mac'], a['vlan']) for a in self.lpar()['adapters'])

    def mapped(self):
        """Return the roles of what is connected to the LPAR, by VIOS.

        They are in the order that its guest sees.
        """
        return {
            name: [*found.values()] for name, found in self.places().items()
        }

    def places(self):
        """Return virtual slot -> role, by VIOS, in the order of slots."""
        return {
            partition['name']: {
                mapping['client_slot']: _role(mapping['name'])
                for mapping in sorted(
                    partition['scsi_mappings'],
                    key=operator.itemgetter('client_slot'),
                )
                if mapping['client'] == NAME
            }
            for partition in self._system()['partitions']
            if 'scsi_mappings' in partition
        }

    def stored(self):
        """Return role -> disk or medium, of those that the driver made."""
        state = self.control.state()
        (found,) = state['systems']
        groups = [
            group
            for partition in found['partitions']
            for group in partition.get('volume_groups', ())
        ]
        found = [disk for group in groups for disk in group['disks']]
        for group in groups:
            found += (group['media_repository'] or {}).get('media', ())
        for cluster in state.get('clusters', ()):
            found += cluster['pool']['logical_units']
        return {role: each for each in found if (role := _role(each['name']))}

    def assert_lpar(self, state=RUNNING, slots=(), ports=(PORT,), disks='r'):
        """Assert what the LPAR is and has.

        :param slots: DRC indexes; all of them are required.
        :param disks: Roles of what is connected to it on each VIOS that has
            disks, in the order that its guest sees; ``i`` is the medium, and
            ``j`` that of the rescue system.
        """
        with self.unchanged():
            self.assertEqual(state, self.lpar()['state'])
            self.assertEqual(dict.fromkeys(slots, True), self.slots())
            self.assertEqual(
                sorted((port.mac, port.vlan) for port in ports),
                self.adapters(),
            )
            self.assertEqual(disks, self.mapped_disks())

    def mapped_disks(self):
        """Return the roles that are connected, the same on each VIOS."""
        mapped = self.mapped()
        found = [''.join(mapped[name]) for name in sorted(mapped)]
        if self.disk_driver == 'ssp':
            # A medium is on one of them.
            with_medium, other = sorted(found, key=len, reverse=True)
            self.assertEqual(with_medium.rstrip('ij'), other)
            return with_medium
        (found,) = found
        return found

    def assert_nothing_left(self):
        """Assert that nothing is left of the instance, but cached images."""
        self.assertIsNone(self.lpar())
        self.assertEqual({}, self.stored())
        self.assertEqual([], [m for m in self.mapped().values() if m])

    def burned(self):
        """Return the DRC indexes of the burned devices."""
        return {int(uuid[-8:], 16) for uuid in self.placement.burned}

    def _state_of_others(self):
        """Return what belongs to others, which no operation may change."""
        state = self._system()
        return [
            {
                key: partition.get(key)
                for key in ('name', 'state', 'slots', 'adapters', 'memory')
            }
            for partition in state['partitions']
            if partition['name'] != NAME
            and partition['kind'] == 'LogicalPartition'
        ]

    def _assert_safe(self):
        """Assert what holds after each story, whatever it is about."""
        self.assertEqual(self._others, self._state_of_others())
        assert_burn_order(self, self.trail())


def assert_burn_order(test, trail):
    """Assert that nothing comes between a burn and the LPAR's write.

    Placement may have refused the burn of another device.
    """
    after = [name for name in trail if not name.startswith('burn')]
    for number, name in enumerate(trail):
        if name.startswith('burn'):
            done = [n for n in trail[:number] if not n.startswith('burn')]
            following = after[len(done) : len(done) + 1] or [DOCUMENT[0]]
            if 'no answer to burn' not in following[0]:
                test.assertIn(following[0], DOCUMENT)


def _describe_job(operation, parameters, timeout):
    """Describe a job: ``on``, ``off hard``, ``restart by RMC 60``."""
    given = {
        parameter.find('ParameterName').text: parameter.find(
            'ParameterValue'
        ).text
        for parameter in parameters or ()
    }
    if operation == 'PowerOn':
        return 'on'
    if not operation.startswith('Power'):
        return operation
    asked = given['operation']
    hard = 'hard' if given.get('immediate') == 'true' else 'soft'
    restarts = 'restart' if given.get('restart') == 'true' else 'off'
    words = [
        'dump' if asked == 'dumprestart' else restarts,
        'by RMC' if asked == 'osshutdown' else hard,
    ]
    return ' '.join(words + ([] if timeout == DEFAULT else [str(timeout)]))


def _name(record):
    """Name a request: method and label, or the operation of a job."""
    if record['label'] == 'LogicalPartition.job':
        return record['path'].partition('/do/')[2].partition('?')[0]
    return f'{record["method"]} {record["label"]}'


def _role(name):
    """Return the role of a disk or medium of the driver, or None."""
    unit = storage.parse_unit_name(name or '')
    if unit:
        return unit[1]
    if not storage.is_ours(name or ''):
        return None
    if not name.endswith('.iso'):
        return name[-1]
    return 'j' if storage.is_of_rescue(name) else 'i'
