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


"""A PowerVM host that is played by a plain object."""

import requests

from demo import guest
from demo import host
from demo import step_context
from demo import two_worlds
from tests.unit.demo import samples

GPUS = ('21010020', '21010021', '21010022', two_worlds.OTHER_GPU)
_OTHERS = {
    '21010030': ('144D', 'A822'),
    '21010038': ('1014', '0634'),
}
_IMAGE = 'nvi' + '0' * 40


class FakeHost:
    """A PowerVM host; its disks are in the pool of the cloud."""

    def __init__(self, name, other_model, whole):
        self.name = name
        self.has_power = True
        self.owners = {}
        self.lpars = {}
        self.sizes = {}
        self._model = other_model
        self._whole = whole

    def _answer(self):
        if not self.has_power:
            raise requests.ConnectionError('refused')

    def system_name(self):
        return f'system of {self.name}'

    def slots(self):
        self._answer()
        found = []
        for index in GPUS:
            is_other = index == two_worlds.OTHER_GPU
            more = {} if is_other else {'subsys_device_id': '124A'}
            device = self._model if is_other else '1DB6'
            owner = self.owners.get(index)
            found.append(
                samples.a_slot(index, '10DE', device, owner=owner, **more)
            )
        return found + [
            samples.a_slot(index, *ids) for index, ids in _OTHERS.items()
        ]

    def partitions(self):
        self._answer()
        return [
            host.Partition(
                f'i-{server}',
                step_context.partition_uuid(server),
                state,
                self._owned_by(server),
            )
            for server, state in self.lpars.items()
        ]

    def _owned_by(self, server):
        owned = (i for i, name in self.owners.items() if name == f'i-{server}')
        return tuple(sorted(owned))

    def size(self, partition):
        (found,) = (
            size
            for server, size in self.sizes.items()
            if step_context.partition_uuid(server) == partition
        )
        return found

    def adapters(self, _partition):
        return [host.Adapter('fa:16:3e:00:00:01', 100)]

    def storage(self, partition):
        for server in self.lpars:
            if step_context.partition_uuid(server) == partition:
                name = self._whole.unit_of(server)
                contents = self._whole.units[name]
                size = str(self._whole.sizes[name])
                return [
                    host.StorageElement(
                        'LogicalUnit', name, size, contents, name
                    )
                ]
        return []

    def pool_units(self):
        images = [_IMAGE] if self._whole.has_image else []
        return [
            *(host.PoolUnit(name, name, _IMAGE) for name in self._whole.units),
            *(host.PoolUnit(name, name, None) for name in images),
        ]

    def users_of(self, udid):
        users = [
            step_context.partition_uuid(server)
            for server in self.lpars
            if self._whole.unit_of(server) == udid
        ]
        if 'disk stays mapped' in self._whole.faults:
            users.append('the management partition')
        return users

    def virtual_slots(self, udid):
        """A rescue disk takes the slots of the server's own disk."""
        is_second = udid.replace('-root', '-rescue') in self._whole.units
        return ['33', '49'] if '-root' in udid and is_second else ['32', '48']

    def sha256_of_unit(self, udid):
        return guest.sha256(self._whole.units[udid])

    def volume_group_contents(self):
        return []

    def write_disk(self, udid, data):
        changed = [udid]
        if 'write reaches clones' in self._whole.faults:
            changed = list(self._whole.units)
        for name in changed:
            before = self._whole.units[name]
            self._whole.units[name] = data + before[len(data) :]

    def power_off(self):
        self.has_power = 'plug is stuck' in self._whole.faults
        self.lpars = dict.fromkeys(self.lpars, 'not activated')

    def power_on(self):
        self.has_power = True

    def log_off(self):
        pass
