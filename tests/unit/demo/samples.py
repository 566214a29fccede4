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

"""Values that several of these tests use."""

import dataclasses
import pathlib

from demo import host
from demo import stack

INVENTORY = """\
gpus:
  identification:
    vendor_id: "10DE"
    device_id: "1DB6"
  resource_class: CUSTOM_GPU
  traits: [CUSTOM_TESLA_V100]
anything else here:
  identification:
    drc_index: "21010023"
"""


def a_host(number: int) -> stack.HostRest:
    return stack.HostRest(
        f'http://127.0.0.1:2999{number}',
        'user',
        'rest-secret',
        f'/management-{number}',
    )


def a_stack(state_dir: pathlib.Path = pathlib.Path('/state')) -> stack.Stack:
    return stack.Stack(
        state_dir=state_dir,
        ports={api: 20000 + n for n, api in enumerate(stack.APIS)},
        passwords={
            user: f'{user}-secret' for user in ('admin', *stack.SERVICE_USERS)
        },
        prefix=pathlib.Path('/prefix'),
        computes=(
            stack.Compute(
                name=stack.NODE,
                address='127.0.0.1',
                host=a_host(9),
                inventory_file=state_dir / 'etc' / 'inventory.yaml',
                disk_options={'volume_group_name': 'image_pool'},
            ),
        ),
    )


def a_stack_with_two_hosts(
    state_dir: pathlib.Path = pathlib.Path('/state'),
) -> stack.Stack:
    base = a_stack(state_dir)
    return dataclasses.replace(
        base,
        computes=tuple(
            dataclasses.replace(
                base.computes[0],
                name=f'{stack.NODE}-{number}',
                address=f'127.0.0.{number}',
                host=a_host(number),
                inventory_file=state_dir / 'etc' / f'inventory-{number}.yaml',
            )
            for number in (1, 2)
        ),
        transport_url='demo-tcp://:queues-secret@127.0.0.1:20098/',
    )


def a_stack_with_cyborg(
    state_dir: pathlib.Path = pathlib.Path('/state'),
) -> stack.Stack:
    base = a_stack(state_dir)
    return dataclasses.replace(
        base,
        ports={**base.ports, 'cyborg': 20099},
        passwords={**base.passwords, 'cyborg': 'cyborg-secret'},
        transport_url='demo-tcp://:queues-secret@127.0.0.1:20098/',
        accelerator_file=state_dir / 'etc' / 'accelerators.yaml',
    )


def with_cinder(base: stack.Stack) -> stack.Stack:
    return dataclasses.replace(
        base,
        ports={**base.ports, 'cinder': 20097},
        passwords={**base.passwords, 'cinder': 'cinder-secret'},
    )


def a_slot(
    drc_index: str,
    vendor_id: str = '10DE',
    device_id: str = '1DB6',
    owner: str | None = None,
    **more: str,
) -> host.Slot:
    return host.Slot(
        description='an adapter',
        properties={
            'vendor_id': vendor_id,
            'device_id': device_id,
            'drc_index': drc_index,
            **more,
        },
        owner=owner,
    )
