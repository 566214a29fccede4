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

"""Documents of the REST API: what hosts served, and what the emulator does."""

import dataclasses
import io
import pathlib

import pypowervm
from lxml import etree
from pypowervm import const
from pypowervm.tasks import network_bridger
from pypowervm.tasks import partition
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as storage_tasks
from pypowervm.tasks import vopt
from pypowervm.utils import lpar_builder
from pypowervm.wrappers import base_partition as bp
from pypowervm.wrappers import job
from pypowervm.wrappers import managed_system as ms
from pypowervm.wrappers import network
from pypowervm.wrappers import storage
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import fixture
from powervm_emulator import worlds

from . import base
from . import san

CAPTURES = pathlib.Path(pypowervm.__file__).parent / 'tests' / 'data'
# The newest schema among the captures.
SCHEMA = 'V1_3_0'
EVENTS = (
    f'{const.API_BASE_PATH}uom/Event'
    '?QUEUE_CLIENTKEY_METHOD=USE_APPLICATIONID&QUEUE_APPLICATIONID=elements'
)
# A system that is no capture, unlike that of the default world. It has a
# card, an empty slot and an adapter in SR-IOV mode.
DESCRIBED = {
    'systems': [
        {
            'name': 'described',
            'machine_type': '9009',
            'model': '22A',
            'serial': 'EMU0002',
            'memory': {'configurable': 65536, 'hypervisor': 4096},
            'processors': {
                'configurable': 16,
                'compatibility_modes': ['default', 'POWER8', 'POWER9'],
            },
            'reports_slot_owners': True,
            'slots': [
                {
                    'drc_index': '21010020',
                    'drc_name': 'U78D2.001.EMU0002-P1-C3',
                    'description': '3D Controller',
                    'vendor_id': '10DE',
                    'device_id': '1DB6',
                    'subsystem_vendor_id': '10DE',
                    'subsystem_device_id': '124A',
                    'revision_id': 'A1',
                    'class': '0302',
                    'feature_codes': 'EC4J',
                    'bus_group_required': False,
                    'assignable': True,
                    'owner': 'owner',
                },
                {'drc_index': '21010021'},
                {
                    'drc_index': '21010022',
                    'description': 'Ethernet Adapter',
                    'sriov': True,
                },
            ],
            'partitions': [{'name': 'owner', 'memory': 2048, 'processors': 1}],
        }
    ]
}

CLUSTER = {
    'name': 'cluster',
    'nodes': ['vios1'],
    'pool': {'name': 'pool', 'capacity': 1024},
}


@dataclasses.dataclass(frozen=True)
class Captured:
    """A resource in a capture of pypowervm.

    :ivar is_novalink: whether NovaLink served it, rather than an HMC or an
        early NovaLink.
    """

    noun: str
    element: object
    is_novalink: bool


def captured():
    """Yield the resources in all captures."""
    for path in sorted(CAPTURES.iterdir()):
        if path.is_file():
            yield from _captured(path.read_text(errors='replace'))


def _captured(text):
    _, _, rest = text.partition('BODY{')
    body = rest.partition('END OF SECTION}')[0] or text
    try:
        root = etree.fromstring(body.strip().encode())
    except etree.XMLSyntaxError:
        # Something else that the tests of pypowervm need.
        return
    links = root.iter(f'{{{const.ATOM_NS}}}link')
    is_hmc = any(link.get('rel') == 'MANAGEMENT_CONSOLE' for link in links)
    for element in contents(root):
        yield Captured(
            etree.QName(element).localname,
            element,
            not is_hmc and element.get('schemaVersion') == SCHEMA,
        )


def served():
    """Return the content elements that the emulator serves, by noun.

    The system is one that a world describes without a capture. Everything
    else is of the default world, with Fibre Channel, or made in it.
    """
    world = worlds.default() | {'clusters': [CLUSTER]}
    world['systems'][0]['slots'] += [san.adapter(1, 'vios1')]
    with fixture.Emulator(world, event_wait=0) as emulator:
        adapter = base.adapter_for(emulator)
        try:
            return _Host(emulator.control, adapter).documents()
        finally:
            base.forget(adapter.session)


class _Host:
    """An emulated host, and what is made on it through pypowervm."""

    def __init__(self, control, adapter):
        self.control = control
        self.adapter = adapter

    def documents(self):
        self._poll()
        lpar = self._lpar('shared', phys_io_slots=self._slots())
        ibmi = self._lpar('dedicated', dedicated_proc=True, env='OS400')
        self._storage(lpar)
        self._units(lpar)
        self._network(lpar)
        jobs = self._jobs(lpar)
        self.control.set_partition(lpar.uuid, rmc_state='active')
        return {
            **self._children(),
            **self._shared(),
            'LogicalPartition': [
                *self._read('LogicalPartition', lpar.uuid),
                *self._read('LogicalPartition', ibmi.uuid),
            ],
            'VirtualIOServer': self._read('VirtualIOServer'),
            'ClientNetworkAdapter': self._adapters(lpar),
            'JobResponse': jobs,
            'Event': self._poll(),
            'ManagedSystem': self._described(),
        }

    def _read(self, *path):
        return parsed(self.adapter.read(*path, xag=[]).body)

    def _poll(self):
        return parsed(self.adapter.read_by_path(EVENTS).body)

    def _slots(self):
        return [bp.IOSlot.bld(self.adapter, False, base.GPUS[0])]

    def _lpar(self, name, **values):
        """Create an LPAR with pypowervm's builder."""
        values = {'name': name, 'memory': 2048, 'vcpu': 2, **values}
        builder = lpar_builder.LPARBuilder(
            self.adapter,
            values,
            lpar_builder.DefaultStandardize(self._system()),
        )
        return builder.build().create()

    def _storage(self, lpar):
        """Map a disk and a medium to the LPAR."""
        vopt._cur_vios_uuid = vopt._cur_vg_uuid = None
        vios, group = storage_tasks.find_vg(self.adapter, 'image_pool')
        disk = storage_tasks.crt_vdisk(
            self.adapter, vios.uuid, group.uuid, 'disk', 1
        )
        vopt.validate_vopt_repo_exists(self.adapter, vopt_media_rep_size=1)
        medium, _ = storage_tasks.upload_vopt(
            self.adapter, vios.uuid, io.BytesIO(b'medium'), 'medium.iso'
        )
        for element in (disk, medium):
            vios = virtual_io_server.VIOS.get(
                self.adapter, uuid=vios.uuid, xag=[const.XAG.VIO_SMAP]
            )
            scsi_mapper.add_vscsi_mapping(None, vios, lpar.uuid, element)

    def _units(self, lpar):
        """Map a linked clone to the LPAR."""
        (tier,) = storage.Tier.get(self.adapter)
        _, image = storage_tasks.crt_lu(
            tier, 'image', 1, typ=storage.LUType.IMAGE
        )
        _, clone = storage_tasks.crt_lu(tier, 'clone', 1, clone=image)
        (vios,) = virtual_io_server.VIOS.get(
            self.adapter, xag=[const.XAG.VIO_SMAP]
        )
        scsi_mapper.add_vscsi_mapping(
            None,
            vios,
            lpar.uuid,
            storage.LU.bld_ref(self.adapter, clone.name, clone.udid),
        )

    def _shared(self):
        """Return the cluster and what is in its pool."""
        (tier,) = storage.Tier.get(self.adapter)
        kinds = ('Cluster', 'ManagementConsole', 'SharedStoragePool', 'Tier')
        return {
            'LogicalUnit': self._read('Tier', tier.uuid, 'LogicalUnit'),
            **{kind: self._read(kind) for kind in kinds},
        }

    def _network(self, lpar):
        """Give the LPAR an adapter, and take its VLAN to the bridge."""
        system = self._system()
        (switch,) = network.VSwitch.get(self.adapter, parent=system)
        (bridge,) = network.NetBridge.get(self.adapter, parent=system)
        network_bridger.ensure_vlans_on_nb(
            self.adapter, system.uuid, bridge.uuid, [100]
        )
        network.CNA.bld(
            self.adapter, 100, switch.related_href, addl_tagged_vlans=[101]
        ).create(parent=lpar)
        # As neutron's agents make it for Open vSwitch.
        network.CNA.bld(
            self.adapter,
            102,
            switch.related_href,
            trunk_pri=1,
            dev_name='trunk',
            ovs_bridge='br-int',
            ovs_ext_ids='iface-id=1',
            configured_mtu=1500,
        ).create(parent=partition.get_mgmt_partition(self.adapter))

    def _adapters(self, lpar):
        """Return the network adapters of the LPAR and of NovaLink."""
        novalink = partition.get_mgmt_partition(self.adapter)
        return [
            adapter
            for owner in (lpar, novalink)
            for adapter in self._read(
                'LogicalPartition', owner.uuid, 'ClientNetworkAdapter'
            )
        ]

    def _jobs(self, lpar):
        """Return a job that fails, and the one that starts the LPAR."""
        self.control.plan_job('PowerOn', 'planned')
        return [*self._job(lpar), *self._job(lpar)]

    def _job(self, lpar):
        path = ('LogicalPartition', lpar.uuid)
        request = self.adapter.read(
            *path, suffix_type='do', suffix_parm='PowerOn'
        )
        request.entry.element.find('JobParameters').append(
            job.Job.create_job_parameter('bootmode', 'norm')
        )
        answer = self.adapter.create_job(request.entry.element, *path)
        return self._read('jobs', answer.entry.element.findtext('JobID'))

    def _children(self):
        """Return what belongs to the system or to the VIOS."""
        system = self._system()
        (vios,) = virtual_io_server.VIOS.get(self.adapter)
        kinds = (
            'NetworkBridge',
            'SharedProcessorPool',
            'VirtualNetwork',
            'VirtualSwitch',
        )
        return {
            'VolumeGroup': self._read(
                'VirtualIOServer', vios.uuid, 'VolumeGroup'
            ),
            **{
                kind: self._read('ManagedSystem', system.uuid, kind)
                for kind in kinds
            },
        }

    def _described(self):
        self.control.load_world(DESCRIBED)
        return self._read('ManagedSystem')

    def _system(self):
        (system,) = ms.System.get(self.adapter)
        return system


def parsed(body):
    """Return the content elements of an Atom document."""
    return contents(etree.fromstring(body.encode()))


def contents(root):
    """Return the content elements of the entries of an Atom document."""
    name = f'{{{const.ATOM_NS}}}content'
    return [child for found in root.iter(name) for child in found]
