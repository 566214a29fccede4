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

"""The configuration files of the services, as dictionaries.

Each function returns the sections of one file, with the options that differ
from the project's defaults. :func:`write` writes all files.
"""

import collections.abc
import pathlib
import shutil

from demo import stack as stack_lib
from demo import volume_world

Sections = dict[str, dict[str, object]]

#: The filters of Nova's scheduler: those that it has by default, and ours.
FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'PowerVMDeviceOrderFilter',
)

#: The name of Nova's file; :data:`FILES` has all names.
NOVA = 'nova.conf'

#: The name of Cyborg's file, which only a cloud with Cyborg has.
CYBORG = 'cyborg.conf'

#: The name of Cinder's file, which only a cloud with volumes has.
CINDER = 'cinder.conf'

#: Cinder's name of the array, and the type of volumes there.
BACKEND, VOLUME_TYPE = 'svc', 'san'
_POOL = 'pool0'


def keystone(stack: stack_lib.Stack) -> Sections:
    """Return the sections of keystone.conf."""
    return {
        'DEFAULT': {'log_file': stack.log / 'keystone.log'},
        'database': _database(stack, 'keystone'),
        'fernet_tokens': {'key_repository': stack.etc / 'fernet'},
        'fernet_receipts': {'key_repository': stack.etc / 'fernet'},
        'credential': {'key_repository': stack.etc / 'credential'},
        'cache': _cache(),
        # In seconds. A cloud that is kept must not lose its sessions soon.
        'token': {'expiration': 86400},
        # The minimum of bcrypt. The passwords are random and short-lived, and
        # the user waits while each service requests its token.
        'identity': {'password_hash_rounds': 4},
    }


def glance(stack: stack_lib.Stack) -> Sections:
    """Return the sections of glance-api.conf."""
    return {
        **_common(stack, 'glance', enabled_backends='files:file'),
        'database': _database(stack, 'glance'),
        'glance_store': {'default_backend': 'files'},
        'files': {'filesystem_store_datadir': stack.state_dir / 'images'},
        'os_glance_staging_store': {
            'filesystem_store_datadir': stack.state_dir / 'state' / 'staging'
        },
        'os_glance_tasks_store': {
            'filesystem_store_datadir': stack.state_dir / 'state' / 'tasks'
        },
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': stack.prefix / 'etc/glance/glance-api-paste.ini',
        },
    }


def placement(stack: stack_lib.Stack) -> Sections:
    """Return the sections of placement.conf."""
    return {
        'DEFAULT': {'log_file': stack.log / 'placement.log'},
        'placement_database': {
            **_database(stack, 'placement'),
            'sync_on_startup': True,
        },
        # A flavor with three or more groups that many slots can satisfy has
        # more combinations than fit in memory; these options limit them.
        'placement': {
            'max_allocation_candidates': 1000,
            'allocation_candidates_generation_strategy': 'breadth-first',
        },
        'workarounds': {'optimize_for_wide_provider_trees': True},
        **_middleware(stack, 'placement'),
    }


def neutron(stack: stack_lib.Stack) -> Sections:
    """Return the sections of neutron.conf, which include ML2's."""
    return {
        **_common(
            stack,
            'neutron',
            core_plugin='ml2',
            # Clients can create routers, which no agent implements.
            service_plugins='router',
            api_paste_config=stack.prefix / 'etc/neutron/api-paste.ini',
        ),
        'database': _database(stack, 'neutron'),
        'nova': _credentials(stack, 'nova'),
        'placement': _credentials(stack, 'placement'),
        'ml2': {
            'type_drivers': 'vlan',
            'project_network_types': 'vlan',
            'mechanism_drivers': 'pvm_sea',
            'extension_drivers': 'port_security',
        },
        'ml2_type_vlan': {'network_vlan_ranges': 'default:100:999'},
    }


def nova(stack: stack_lib.Stack) -> Sections:
    """Return the sections of nova.conf.

    All services of Nova read it, except for a nova-compute with a process of
    its own, which reads :func:`nova_compute`.
    """
    sections: Sections = {
        **_nova(stack),
        'wsgi': {'api_paste_config': stack.etc / 'api-paste.ini'},
        'api_database': _database(stack, 'nova_api'),
        'database': _database(stack, 'nova_cell1'),
        # Servers that are created at the same time get different devices.
        'filter_scheduler': {
            'available_filters': 'nova_powervm.scheduler.filters.all_filters',
            'enabled_filters': ','.join(FILTERS),
        },
    }
    if stack.has_compute_processes:
        # In seconds: the compute hosts come later than the scheduler, which
        # would wait up to a minute before it looks for them.
        sections['DEFAULT'] |= {'periodic_fuzzy_delay': 0}
        return {
            **sections,
            **(_console(stack) if stack.has_console else {}),
            'scheduler': {'discover_hosts_in_cells_interval': 1},
        }
    (compute,) = stack.computes
    sections['DEFAULT'] |= {'allow_resize_to_same_host': True}
    return _with_compute(sections, stack, compute)


def nova_compute(
    stack: stack_lib.Stack, compute: stack_lib.Compute
) -> Sections:
    """Return the sections of the file of a nova-compute of its own.

    It has no database: nova-compute refuses to start with one.
    """
    sections = _with_compute(_nova(stack), stack, compute)
    state_path = stack.state_path_of(compute)
    sections['DEFAULT'] |= {
        'log_file': stack.log / f'{compute.service}.log',
        'state_path': state_path,
    }
    sections['oslo_concurrency'] = {'lock_path': state_path / 'lock'}
    return sections


def _nova(stack: stack_lib.Stack) -> Sections:
    """Return what all files of Nova's services have in common."""
    place = {'host': stack_lib.NODE, 'my_ip': stack_lib.ADDRESS}
    return {
        **_common(stack, 'nova', **place),
        'cache': _cache(),
        'keystone': _credentials(stack, 'nova'),
        'placement': _credentials(stack, 'placement'),
        'glance': _credentials(stack, 'glance'),
        'neutron': _credentials(stack, 'neutron'),
        'cyborg': {'region_name': stack_lib.REGION},
        **_cinder_for_nova(stack),
    }


def _cinder_for_nova(stack: stack_lib.Stack) -> Sections:
    """Return what Nova has to know of Cinder, if the cloud has it."""
    if not stack.has_cinder:
        return {}
    return {
        'cinder': {
            'os_region_name': stack_lib.REGION,
            **_credentials(stack, 'cinder'),
        }
    }


def _with_compute(
    sections: Sections, stack: stack_lib.Stack, compute: stack_lib.Compute
) -> Sections:
    """Return the sections with the options of one nova-compute."""
    found: Sections = {
        **sections,
        'DEFAULT': {
            **sections['DEFAULT'],
            'host': compute.name,
            'my_ip': compute.address,
            'compute_driver': 'powervm_ext.driver.PowerVMDriver',
        },
        'powervm': {
            # Without credentials it is as on the management partition.
            'rest_url': compute.host.url,
            'management_root': compute.host.management_root,
            'inventory_file': compute.inventory_file,
            **compute.disk_options,
        },
    }
    if stack.has_console:
        found |= _console(stack)
        found['vnc'] |= {'server_proxyclient_address': compute.address}
        found['powervm'] |= {'vnc_port': stack.ports[stack_lib.CONSOLES]}
    return found


def _console(stack: stack_lib.Stack) -> Sections:
    """Return the sections of a cloud that shows consoles in a browser.

    Nova's proxy and each nova-compute read them.
    """
    port = stack.ports[stack_lib.PROXY]
    return {
        'vnc': {
            'novncproxy_host': stack_lib.ADDRESS,
            'novncproxy_port': port,
            'novncproxy_base_url': f'http://{stack_lib.ADDRESS}:{port}/'
            'console.html',
        },
        # In seconds. The URL that is printed should work for a while.
        'consoleauth': {'token_ttl': 86400},
    }


def cyborg(stack: stack_lib.Stack) -> Sections:
    """Return the sections of cyborg.conf, which all its services read."""
    compute = stack.computes[0]
    return {
        **_common(stack, 'cyborg', host=stack_lib.NODE),
        'agent': {
            'enabled_drivers': 'powervm',
            'resource_provider_name': stack_lib.NODE,
        },
        'powervm': {
            'rest_url': compute.host.url,
            'rest_username': compute.host.username,
            'rest_password': compute.host.password,
            'inventory_file': compute.inventory_file,
            'accelerator_file': stack.accelerator_file,
        },
        'api': {'api_paste_config': stack.prefix / 'etc/cyborg/api-paste.ini'},
        'database': _database(stack, 'cyborg'),
        'nova': _credentials(stack, 'nova'),
        'placement': _credentials(stack, 'placement'),
        'service_catalog': _credentials(stack, 'cyborg'),
    }


def cinder(stack: stack_lib.Stack) -> Sections:
    """Return the sections of cinder.conf, which all its services read."""
    state_path = stack.state_dir / 'state' / 'cinder'
    etc = stack.prefix / 'etc' / 'cinder'
    return {
        **_common(
            stack,
            'cinder',
            state_path=state_path,
            host=stack_lib.NODE,
            my_ip=stack_lib.ADDRESS,
            # In seconds. Services in one process all report in the name of
            # the one that was started last.
            service_down_time=365 * 86400,
            # It need not wait for other volume services than this one.
            scheduler_driver_init_wait_time=1,
            enabled_backends=BACKEND,
            default_volume_type=VOLUME_TYPE,
            api_paste_config=etc / 'api-paste.ini',
            resource_query_filters_file=etc / 'resource_filters.json',
        ),
        BACKEND: {
            'volume_backend_name': BACKEND,
            'volume_driver': 'demo.array_driver.ArrayDriver',
            'storwize_svc_volpool_name': _POOL,
            # The simulator asks for none of these.
            'san_ip': BACKEND,
            'san_login': BACKEND,
            'san_password': BACKEND,
            'emulator_url': stack.host.url,
            'volume_directory': stack.volumes,
            'fabric': volume_world.FABRIC,
            'shell_port': stack.ports[stack_lib.ARRAY],
        },
        'database': _database(stack, 'cinder'),
        'coordination': {'backend_url': f'file://{state_path}'},
        'nova': _credentials(stack, 'nova'),
    }


#: File name -> the function that returns its sections.
FILES: dict[str, collections.abc.Callable[[stack_lib.Stack], Sections]] = {
    'keystone.conf': keystone,
    'glance-api.conf': glance,
    'placement.conf': placement,
    'neutron.conf': neutron,
    NOVA: nova,
    CYBORG: cyborg,
    CINDER: cinder,
}


def database_url(stack: stack_lib.Stack, name: str) -> str:
    """Return the SQLAlchemy URL of one of the SQLite databases."""
    return f'sqlite:///{stack.state_dir}/db/{name}.db'


def ini(sections: Sections) -> str:
    """Return sections as the text of a file that oslo.config reads."""
    blocks = []
    for name, options in sections.items():
        lines = [f'{key} = {value}' for key, value in options.items()]
        blocks.append('\n'.join([f'[{name}]', *lines]))
    return '\n\n'.join(blocks) + '\n'


def compute_file(
    stack: stack_lib.Stack, compute: stack_lib.Compute
) -> pathlib.Path:
    """Return the file that the nova-compute of a host reads."""
    if stack.has_compute_processes:
        return stack.etc / f'{compute.service}.conf'
    return stack.etc / NOVA


def write(stack: stack_lib.Stack) -> None:
    """Write the files of all services, and the paste file of nova-api."""
    absent = [
        *([] if stack.has_cyborg else [CYBORG]),
        *([] if stack.has_cinder else [CINDER]),
    ]
    for name, render in FILES.items():
        if name in absent:
            continue
        stack_lib.write_private(stack.etc / name, ini(render(stack)))
    if stack.has_compute_processes:
        for compute in stack.computes:
            path = compute_file(stack, compute)
            stack_lib.write_private(path, ini(nova_compute(stack, compute)))
            stack.state_path_of(compute).mkdir()
    # nova-api looks for it in the directory of nova.conf.
    shutil.copy(stack.prefix / 'etc/nova/api-paste.ini', stack.etc)


def _common(
    stack: stack_lib.Stack, project: str, **options: object
) -> Sections:
    """Return the sections of all projects but Keystone and Placement.

    :param options: more options in the section ``DEFAULT``.
    """
    return {
        'DEFAULT': {
            'log_file': stack.log / f'{project}.log',
            'state_path': stack.state_dir / 'state',
            'transport_url': stack.transport_url,
            'graceful_shutdown_timeout': 2,
            **options,
        },
        'oslo_concurrency': {'lock_path': stack.state_dir / 'lock'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        **_middleware(stack, project),
    }


def _middleware(stack: stack_lib.Stack, user: str) -> Sections:
    credentials = _credentials(stack, user)
    return {
        'keystone_authtoken': {
            'www_authenticate_uri': stack.auth_url,
            'service_token_roles': 'service',
            'service_token_roles_required': True,
            **credentials,
        },
        'service_user': {'send_service_user_token': True, **credentials},
    }


def _credentials(stack: stack_lib.Stack, user: str) -> dict[str, object]:
    return {
        'auth_type': 'password',
        'auth_url': stack.auth_url,
        'username': user,
        'password': stack.passwords[user],
        'project_name': 'service',
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
        'region_name': stack_lib.REGION,
    }


def _database(stack: stack_lib.Stack, name: str) -> dict[str, object]:
    return {'connection': database_url(stack, name)}


def _cache() -> dict[str, object]:
    return {'enabled': True, 'backend': 'dogpile.cache.memory'}
