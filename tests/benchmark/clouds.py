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

"""A large cloud in Placement, and servers that are scheduled in it at once."""

import contextlib
import os
import types
import uuid

import fixtures
import nova.conf
import os_traits
import sqlalchemy
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.objects import fields
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import request_filter
from nova.scheduler import utils
from nova.scheduler.client import report
from nova.virt import driver as nova_driver
from placement import db_api
from placement import deploy
from placement.db.sqlalchemy import models
from placement.tests.functional.fixtures import placement

from nova_powervm.devices import names
from nova_powervm.devices import slots
from nova_powervm.scheduler import filters
from nova_powervm.tool.rules import flavors
from nova_powervm.virt import driver
from tests.functional import placement_app

CONF = nova.conf.CONF
#: What flavors request, and what every second slot has.
GPU = 'CUSTOM_GPU'
_CLASSES = {GPU: 0x1DB6, 'CUSTOM_NVME': 0xA822}
_NODE = {'VCPU': 160, 'MEMORY_MB': 1_000_000, 'DISK_GB': 10_000}
_ZONE = str(uuid.UUID(int=1))
_MICROVERSION = report.SAME_SUBTREE_VERSION


def slot_of(host, number, equal):
    """Return a slot of a host; so many of its slots are equal GPUs."""
    return slots.Slot(
        0x21010000 + number,
        f'U78D5.ND0.CSS{host:05X}-P1-C{number + 1}',
        vendor_id=0x10DE,
        device_id=_CLASSES[GPU if number < equal else 'CUSTOM_NVME'],
        subsys_vendor_id=0x10DE,
        subsys_device_id=0x1212,
        pci_class=0x0302,
        revision_id=0xA1,
    )


def location_trait(host, number):
    """Return the trait of a slot's location, which no other slot has."""
    return names.property_trait('drc_name', slot_of(host, number, 0).drc_name)


class _Placement(placement.PlacementFixture):
    """Placement with a file, which a forked process can open, too.

    :param path: The file.
    """

    def __init__(self, path):
        super().__init__(use_intercept=False)
        self._url = f'sqlite:///{path}'

    def _configure_placement(self, conf_fixture):
        conf_fixture.config(connection=self._url, group='placement_database')


class Cloud(fixtures.Fixture):
    """Placement on SQLite, with what the driver publishes for each host.

    The tables are filled directly: that takes seconds, and HTTP hours.

    :param hosts: Number of compute nodes; a tenth is an availability zone.
    :param slots: Slots of each.
    :param equal: How many of these are equal GPUs.
    :param locations: Location traits of other slots.
    """

    def __init__(self, hosts, slots, equal, locations=0):
        super().__init__()
        self._hosts, self._slots, self._equal = hosts, slots, equal
        self._locations = locations
        self._rows = {}

    def _setUp(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'db')
        self.conf = self.useFixture(_Placement(path)).conf_fixture.conf
        keeping = placement_app.KeptAnswers(deploy.loadapp(self.conf))
        keeping.keeps = False
        self._session = placement_app.Session('http://placement')
        self._fill()

    def _fill(self):
        with db_api.get_placement_engine().begin() as connection:
            self._connection = connection
            self._classes = self._name(models.ResourceClass, _CLASSES)
            self._trait_ids = self._name(models.Trait, self._all_traits())
            self._add(models.PlacementAggregate, id=1, uuid=_ZONE)
            for host in range(self._hosts):
                self._add_host(host)
            for table, rows in self._rows.items():
                connection.execute(table.insert(), rows)
        del self._rows, self._connection

    def _name(self, model, names_):
        """Create what is missing of names; return the ids of all."""
        table = model.__table__
        query = sqlalchemy.select(table.c.name, table.c.id)

        def known():
            return dict(map(tuple, self._connection.execute(query)))

        if missing := set(names_) - set(known()):
            self._connection.execute(
                table.insert(), [{'name': name} for name in missing]
            )
        return known()

    def _all_traits(self):
        others = {location_trait(-1, n) for n in range(self._locations)}
        return others.union(
            *(
                self._traits(host, number)
                for host in range(self._hosts)
                for number in range(self._slots)
            )
        )

    def _traits(self, host, number):
        slot = slot_of(host, number, self._equal)
        return names.generated_traits(slot) | {names.OWNER_TRAIT}

    def _add_host(self, host):
        root = host * (self._slots + 1) + 1
        name = f'compute{host}'
        capabilities = nova_driver.ComputeDriver.capabilities_as_traits(
            types.SimpleNamespace(
                capabilities=driver.PowerVMDriver.capabilities
            )
        )
        traits = [trait for trait, has in capabilities.items() if has]
        self._add_provider(
            root, root, name, _NODE, [os_traits.COMPUTE_NODE, *traits]
        )
        if host < self._hosts // 10:
            self._add(
                models.ResourceProviderAggregate,
                resource_provider_id=root,
                aggregate_id=1,
            )
        for number in range(self._slots):
            slot = slot_of(host, number, self._equal)
            self._add_provider(
                root + 1 + number,
                root,
                names.provider_name(name, slot.drc_index),
                {GPU if number < self._equal else 'CUSTOM_NVME': 1},
                self._traits(host, number),
            )

    def _add_provider(self, number, root, name, inventory, traits):
        self._add(
            models.ResourceProvider,
            id=number,
            uuid=self.uuid_of(number),
            name=name,
            generation=1,
            root_provider_id=root,
            parent_provider_id=root if number != root else None,
        )
        for resource_class, total in inventory.items():
            self._add(
                models.Inventory,
                resource_provider_id=number,
                resource_class_id=self._classes[resource_class],
                total=total,
                reserved=0,
                min_unit=1,
                max_unit=total,
                step_size=1,
                allocation_ratio=1.0,
            )
        for trait in traits:
            self._add(
                models.ResourceProviderTrait,
                resource_provider_id=number,
                trait_id=self._trait_ids[trait],
            )

    def _add(self, model, **row):
        self._rows.setdefault(model.__table__, []).append(row)

    @staticmethod
    def uuid_of(number):
        """Return the uuid of a provider; the first is a compute node."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))

    def configure(self, limit, **options):
        """Set the options of Placement, and the limit that Nova sends.

        :param options: Those of placement.conf by name.
        """
        CONF.set_override('max_placement_results', limit, 'scheduler')
        for name, value in options.items():
            group = 'workarounds' if 'optimize' in name else 'placement'
            self.conf.set_override(name, value, group)

    def get(self, url, **_):
        """Ask Placement; this and the next are what Nova's client needs."""
        return self._ask('GET', url)

    def put(self, url, json=None, **_):
        """Write to Placement."""
        return self._ask('PUT', url, json)

    def _ask(self, method, url, json=None):
        headers = {
            'X-Auth-Token': 'admin',
            'OpenStack-API-Version': f'placement {_MICROVERSION}',
        }
        return self._session.request(url, method, headers=headers, json=json)


def candidates_url(groups, zone=False):
    """Return the question that Nova asks for one server.

    :param groups: How many equal GPUs it shall have.
    :param zone: Whether it is for the availability zone.
    """
    wanted = utils.ResourceRequest.from_request_spec(_request(groups))
    query = wanted.to_querystring()
    return f'/allocation_candidates?{query}' + (
        f'&member_of={_ZONE}' if zone else ''
    )


def _request(groups):
    """Return Nova's request for a server, with a flavor made by our rules."""
    context = nova_context.get_admin_context()
    ids = {'vendor_id': '10DE', 'device_id': f'{_CLASSES[GPU]:04X}'}
    gpu = flavors.DeviceRequest(
        GPU, frozenset(names.property_trait(*pair) for pair in ids.items())
    )
    spec = objects.RequestSpec.from_components(
        context,
        str(uuid.uuid4()),
        objects.ImageMeta.from_dict({}),
        objects.Flavor(
            vcpus=1,
            memory_mb=512,
            root_gb=10,
            ephemeral_gb=0,
            swap=0,
            extra_specs=flavors.make_extra_specs([gpu] * groups),
        ),
        None,
        objects.InstancePCIRequests(requests=[]),
        {},
        None,
        None,
        project_id='project',
        user_id='user',
    )
    request_filter.compute_status_filter(context, spec)
    return spec


class _HostManager(host_manager.HostManager):
    """Nova's, with hosts from Placement's answer and without a database."""

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass

    def refresh_cells_caches(self):
        pass

    def get_host_states_by_uuids(self, context, compute_uuids, spec_obj):
        """Return hosts that weigh the same."""
        cell = str(uuid.UUID(int=2))
        for name in compute_uuids:
            state = self.host_state_cls(name, name, cell)
            state.uuid = name
            state.hypervisor_type = fields.HVType.PHYP
            state.cpu_allocation_ratio = 1.0
            yield state


class _Scheduler(manager.SchedulerManager):
    """One process of nova-scheduler."""

    placement_client = None

    def __init__(self, client):
        self.placement_client = client
        self.host_manager = _HostManager()


class _ReportClient(report.SchedulerReportClient):
    """Nova's client of Placement; counts the claims that it tries."""

    tried = 0

    def claim_resources(self, *args, **kwargs):
        self.tried += 1
        return super().claim_resources(*args, **kwargs)


def boot_at_once(cloud, number, groups, schedulers=2, **options):
    """Schedule servers, none of which is claimed before all are answered.

    :param number: How many servers, each by a request of its own.
    :param groups: Equal GPUs of each.
    :param options: Those of ``[filter_scheduler]``.
    :returns: How many got a host, and how many claims were tried.
    """
    with contextlib.ExitStack() as stack:
        for name, value in {'enabled_filters': [], **options}.items():
            CONF.set_override(name, value, 'filter_scheduler')
            stack.callback(CONF.clear_override, name, 'filter_scheduler')
        client = _ReportClient(cloud)
        processes = [_Scheduler(client) for _ in range(schedulers)]
        # Placement gives the same answer to all of them.
        answer = cloud.get(candidates_url(groups)).json()
        landed = sum(
            _is_scheduled(processes[turn % schedulers], groups, answer)
            for turn in range(number)
        )
    return landed, client.tried


def _is_scheduled(scheduler, groups, answer):
    """Have Nova choose and claim a host, and alternatives."""
    spec = _request(groups)
    by_provider = {}
    for candidate in answer['allocation_requests']:
        for provider in candidate['allocations']:
            by_provider.setdefault(provider, []).append(candidate)
    roots = {
        provider: summary
        for provider, summary in answer['provider_summaries'].items()
        if not summary['parent_provider_uuid'] and provider in by_provider
    }
    try:
        scheduler._schedule(
            nova_context.get_admin_context(),
            spec,
            [spec.instance_uuid],
            by_provider,
            roots,
            _MICROVERSION,
            return_alternates=True,
        )
    except exception.NoValidHost:
        return False
    return True


def prepare_nova():
    """Let Nova's code run in this process, without its services."""
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    name = f'{filters.__name__}.{filters.all_filters.__name__}'
    CONF.set_override('available_filters', [name], 'filter_scheduler')
