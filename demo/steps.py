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

"""The sequence of steps that the demonstration goes through.

Each step states its expected and its observed result as values that can be
compared, and shows the result to a person. The first step with a wrong
result ends the demonstration.
"""

import collections.abc
import typing

import openstack.exceptions
import requests

from demo import accelerator_steps
from demo import console_steps
from demo import display
from demo import evacuation_steps
from demo import image_steps
from demo import live_migration_steps
from demo import move_steps
from demo import provider_steps
from demo import report
from demo import server_steps
from demo import step_context
from demo import two_host_steps
from demo import two_hosts
from demo import volume_move_steps
from demo import volume_steps

#: What an API that refuses or does not answer raises; any other exception is
#: a defect of the demonstration.
REFUSALS = (
    openstack.exceptions.SDKException,
    requests.RequestException,
    TimeoutError,
)

_Context = typing.TypeVar('_Context', bound=step_context.Context)

# Titles and functions, in order.
_StepsIn = tuple[
    tuple[str, collections.abc.Callable[[_Context], step_context.Outcome]],
    ...,
]
_Steps = _StepsIn[step_context.Context]

_SLOTS: _Steps = (
    ('The slots of the host', provider_steps.show_slots),
    ('The inventory.yaml in use', provider_steps.show_inventory),
)

_TREE: _Steps = (
    ('The provider tree in Placement', provider_steps.check_provider_tree),
    (
        'in_tree of any slot returns the whole tree',
        provider_steps.check_in_tree,
    ),
    (
        'An image, a network and a key',
        server_steps.create_image_network_key,
    ),
)

_END: _Steps = (
    ('The lint of the flavors', server_steps.lint_flavors),
    ('Deletion releases everything', server_steps.delete_servers),
)

_ONE_GPU: _Steps = (
    ('A flavor with one GPU', server_steps.create_flavor_one),
    ('A server with one GPU', server_steps.boot_one_gpu),
    (
        'Its disk, its port and its config drive',
        server_steps.check_attachments,
    ),
)

_CONSOLE: _Steps = (('Its console in a browser', console_steps.show_console),)

_TWO_GPUS: _Steps = (
    (
        "The specification's flavor with two GPUs",
        server_steps.create_flavor_two,
    ),
    ('A server with two GPUs', server_steps.boot_two_gpus),
    (
        'A server that requests an allocated GPU',
        server_steps.boot_taken_gpu,
    ),
)

#: The steps in a cloud without Cyborg.
STEPS: _Steps = (*_SLOTS, *_TREE, *_ONE_GPU, *_TWO_GPUS, *_END)

#: The steps in a cloud that shows consoles in a browser.
CONSOLE_STEPS: _Steps = (
    *_SLOTS,
    *_TREE,
    *_ONE_GPU,
    *_CONSOLE,
    *_TWO_GPUS,
    *_END,
)

#: The steps in a cloud with volumes.
CINDER_STEPS: _Steps = (
    *_SLOTS,
    *_TREE,
    *_ONE_GPU,
    ('A volume', volume_steps.create_volume),
    ('Attach a volume', volume_steps.attach),
    ('Extend the volume', volume_steps.extend),
    ('Detach the volume', volume_steps.detach),
    ('Boot from a volume with a GPU', volume_steps.boot),
    *_END,
    ('The array is empty', volume_steps.delete_volumes),
)

_BOTH_HOSTS: _StepsIn[two_hosts.Context] = (
    ('The slots of both hosts', two_host_steps.show_slots),
    ('The inventory files in use', two_host_steps.show_inventories),
    (
        'The provider trees in Placement',
        two_host_steps.check_provider_trees,
    ),
    (
        'An image, a network and a key',
        server_steps.create_image_network_key,
    ),
    ('A flavor with one GPU', two_host_steps.create_flavor),
)

#: The steps on two hosts, which share a storage pool.
TWO_HOST_STEPS: _StepsIn[two_hosts.Context] = (
    *_BOTH_HOSTS,
    (
        'A server with a GPU on the first host',
        two_host_steps.boot_on_first_host,
    ),
    (
        'A server with an equal DRC index on the second host',
        two_host_steps.boot_on_second_host,
    ),
    (
        'A server with a trait that only one host has',
        two_host_steps.boot_by_trait,
    ),
    ('Their ports', two_host_steps.check_ports),
    ('Their disks', two_host_steps.check_disks),
    ('One image in the pool, and its clones', two_host_steps.check_pool),
    ('A guest writes to its disk', evacuation_steps.write_disk),
    ('Create an image of the server', image_steps.create_image),
    ('Rescue and unrescue', image_steps.rescue),
    ('A server without a device', live_migration_steps.boot),
    ('Live migrate a server', live_migration_steps.migrate),
    ('A server with a GPU is refused', live_migration_steps.refuse),
    ('Migration of its server to the second host', move_steps.migrate),
    (
        'Confirmation of the migration',
        move_steps.confirm_migration,
    ),
    ('A flavor with two GPUs', move_steps.create_flavor),
    ('Resize to two GPUs, on the first host', move_steps.resize),
    ('Revert of the resize', move_steps.revert),
    (
        'Another resize, and its confirmation',
        move_steps.resize_for_good,
    ),
    ('The first host fails', evacuation_steps.fail_first_host),
    ('Evacuation of its server', evacuation_steps.evacuate),
    (
        'The evacuated server starts',
        evacuation_steps.start_evacuated,
    ),
    ('The first host returns', evacuation_steps.return_first_host),
    (
        'A server on the host that returned',
        evacuation_steps.boot_on_returned_host,
    ),
    ('Shelve and unshelve on the other host', image_steps.shelve),
    ('Deletion releases everything', two_host_steps.delete_servers),
)

#: The steps on two hosts with volumes.
TWO_HOST_CINDER_STEPS: _StepsIn[two_hosts.Context] = (
    *_BOTH_HOSTS,
    ('Boot from a volume without a device', volume_move_steps.boot_live),
    ('Live migrate one with a volume', volume_move_steps.migrate_live),
    ('Its deletion releases everything', volume_move_steps.delete_live),
    (
        'Boot from a volume with a GPU, on the first host',
        volume_move_steps.boot,
    ),
    ('Attach another volume', volume_move_steps.attach),
    ('A server with a GPU is refused', live_migration_steps.refuse),
    ('Migrate a server with its volumes', volume_move_steps.migrate),
    (
        'Confirmation of the migration',
        volume_move_steps.confirm_migration,
    ),
    ('A flavor with two GPUs', move_steps.create_flavor),
    (
        'Resize a server that boots from a volume, with a GPU',
        volume_move_steps.resize,
    ),
    ('Revert of the resize', volume_move_steps.revert),
    (
        'Another resize, and its confirmation',
        volume_move_steps.resize_for_good,
    ),
    ('The first host fails', evacuation_steps.fail_first_host),
    ('Evacuate it', volume_move_steps.evacuate),
    (
        'The evacuated server starts',
        volume_move_steps.start_evacuated,
    ),
    ('The first host returns', volume_move_steps.return_first_host),
    ('Deletion releases everything', two_host_steps.delete_servers),
    ('The array is empty', volume_steps.delete_volumes),
)

#: The steps in a cloud with Cyborg.
CYBORG_STEPS: _Steps = (
    *_SLOTS,
    ('The accelerators.yaml in use', accelerator_steps.show_accelerators),
    *_TREE,
    ('The devices in Cyborg', accelerator_steps.check_devices),
    (
        'A device profile and a flavor',
        accelerator_steps.create_profile_and_flavor,
    ),
    (
        'A server with a card that Cyborg manages',
        accelerator_steps.boot_one_card,
    ),
    ('A hard reboot keeps the card', accelerator_steps.reboot),
    ('A rebuild keeps the card', accelerator_steps.rebuild),
    (
        'A server that requests a disabled card',
        accelerator_steps.boot_disabled_card,
    ),
    (
        'A server with the card after it was enabled',
        accelerator_steps.boot_enabled_card,
    ),
    (
        'Its deletion releases the card',
        accelerator_steps.delete_second_card,
    ),
    (
        "A server with a GPU of Nova's and a card of Cyborg's",
        accelerator_steps.boot_gpu_and_card,
    ),
    *_END,
)


def run_steps(
    context: step_context.Context,
) -> collections.abc.Iterator[report.Step]:
    """Yield the results of the steps, up to the first wrong one.

    :param context: the context of a cloud that is as it was started.
    """
    if isinstance(context, two_hosts.Context):
        return _run(
            TWO_HOST_CINDER_STEPS
            if context.stack.has_cinder
            else TWO_HOST_STEPS,
            context,
        )
    if context.stack.has_cyborg:
        return _run(CYBORG_STEPS, context)
    if context.stack.has_cinder:
        return _run(CINDER_STEPS, context)
    return _run(CONSOLE_STEPS if context.stack.has_console else STEPS, context)


def _run(
    steps: _StepsIn[_Context], context: _Context
) -> collections.abc.Iterator[report.Step]:
    for title, action in steps:
        try:
            expected, observed, shown = action(context)
        except REFUSALS as error:
            step = report.Step(title, 'no error', report.reason(error))
        else:
            step = report.Step(title, expected, observed, shown)
        yield step
        if not step.ok:
            return


def show_cloud(
    context: step_context.Context,
) -> collections.abc.Iterator[tuple[str, list[str]]]:
    """Yield what a cloud with files of the user publishes.

    Nothing is compared: what is right depends on these files. The image, the
    network and the key of the demonstration are created for the user.

    :returns: titles, each with lines to show.
    """
    cloud, host, stack = context.cloud, context.host, context.stack
    yield 'The slots of the host', display.slots(host.slots())
    tree = cloud.provider_tree(cloud.compute_node_uuid())
    files = str(stack.inventory_file)
    if stack.has_cyborg:
        files += f' and {stack.accelerator_file}'
    yield (
        'The provider tree in Placement',
        [f'according to {files}', '', *display.tree(tree)],
    )
    if stack.has_cyborg:
        yield 'The devices in Cyborg', display.devices(cloud.cyborg.devices())
    _, _, shown = server_steps.create_image_network_key(context)
    yield 'An image, a network and a key', shown
