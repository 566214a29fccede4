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

"""What Tempest needs in a cloud before it runs, and its configuration."""

import pathlib
import string

import openstack.connection

from demo import stack as stack_lib

_NAME = 'tempest'
_MIB = 1024 * 1024
_TEMPLATE = pathlib.Path(__file__).with_name('tempest.conf')
#: Suffix of the name -> MiB of memory, GB of disk. The first one is smaller.
_FLAVORS = {'': (512, 1), '-alt': (1024, 2)}


def connect(stack):
    """Return a connection of openstacksdk as the cloud's administrator."""
    return openstack.connection.Connection(
        auth={
            'auth_url': stack.auth_url,
            'username': 'admin',
            'password': stack.passwords['admin'],
            'project_name': 'admin',
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
        },
        region_name=stack_lib.REGION,
        app_name='nova-powervm-tempest',
    )


def hypervisor_types(api):
    """Return the types of the cloud's hypervisors, without duplicates."""
    found = api.compute.hypervisors(details=True)
    return sorted({hypervisor.hypervisor_type for hypervisor in found})


def write_configuration(stack, api, directory, filters, extra_specs):
    """Create what Tempest needs in the cloud, and write ``tempest.conf``.

    :param filters: the names of the scheduler's filters.
    :param extra_specs: those of both flavors.
    :returns: the path of the file.
    """
    network = _external_network(api)
    _subnet_pool(api)
    image, image_alt = (_image(api, suffix) for suffix in ('', '-alt'))
    flavor, flavor_alt = (
        _flavor(api, suffix, extra_specs) for suffix in _FLAVORS
    )
    text = string.Template(_TEMPLATE.read_text()).substitute(
        ADMIN_PASSWORD=stack.passwords['admin'],
        AUTH_URL=stack.auth_url,
        REGION=stack_lib.REGION,
        EXTERNAL_NETWORK=network.id,
        EXTERNAL_NETWORK_NAME=network.name,
        IMAGE=image.id,
        IMAGE_ALT=image_alt.id,
        FLAVOR=flavor.id,
        FLAVOR_ALT=flavor_alt.id,
        FILTERS=','.join(filters),
        HAS_CINDER=stack.has_cinder,
        COMPUTE_NODES=len(stack.computes),
        LOG_FILE=directory / 'tempest.log',
        LOCK_PATH=directory / 'lock',
    )
    path = directory / 'tempest.conf'
    stack_lib.write_private(path, text)
    return path


def _image(api, suffix):
    """Return a public raw image of one MiB."""
    name = _NAME + suffix
    return api.image.find_image(name) or api.image.create_image(
        name=name,
        data=name.encode().ljust(_MIB, b'\0'),
        container_format='bare',
        disk_format='raw',
        visibility='public',
        validate_checksum=False,
        wait=True,
    )


def _flavor(api, suffix, extra_specs):
    """Return a flavor with these extra specs and no others."""
    memory, disk = _FLAVORS[suffix]
    name = _NAME + suffix
    existing = api.compute.find_flavor(name)
    if existing:
        # Servers keep their flavor.
        api.compute.delete_flavor(existing)
    flavor = api.compute.create_flavor(
        name=name, ram=memory, vcpus=1, disk=disk
    )
    if extra_specs:
        api.compute.create_flavor_extra_specs(flavor, extra_specs)
    return flavor


def _external_network(api):
    """Return the default external network, for floating IP addresses."""
    found = api.network.find_network(_NAME)
    if found:
        return found
    network = api.network.create_network(
        name=_NAME, is_router_external=True, is_default=True
    )
    api.network.create_subnet(
        network_id=network.id,
        ip_version=4,
        cidr='198.51.100.0/24',
        enable_dhcp=False,
    )
    return network


def _subnet_pool(api):
    """Return the default pool, for networks that Neutron makes by itself."""
    return api.network.find_subnet_pool(
        _NAME
    ) or api.network.create_subnet_pool(
        name=_NAME,
        prefixes=['10.200.0.0/16'],
        default_prefix_length=28,
        is_shared=True,
        is_default=True,
    )
