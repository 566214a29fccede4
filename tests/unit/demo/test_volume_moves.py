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

"""What has to be seen of a server's volumes after it has moved."""

import dataclasses
import itertools
from unittest import mock

import requests

from demo import array_evidence
from demo import host as host_lib
from demo import report
from demo import two_hosts
from demo import volume_move_steps
from demo import volume_world
from tests.unit.demo import samples

_SERVER = '93b45310-6ae0-4fc8-bce3-7b50a96616ce'
_LPAR = '13b45310-6ae0-4fc8-bce3-7b50a96616ce'
_BYTES = b'written'


class VolumeMoveTest(samples.DirectoryTestCase):
    """A server on the second host, and a step that has moved it there."""

    def setUp(self):
        super().setUp()
        made = self.make_stack(hosts=2, has_cinder=True)
        self.sides = tuple(
            two_hosts.Side(compute, mock.Mock(spec=host_lib.Host))
            for compute in made.computes
        )
        self.context = two_hosts.Context(
            made, mock.Mock(), None, supervisor=None, sides=self.sides
        )
        self.context.servers = [mock.Mock(id=_SERVER)]
        file = self.directory / 'volume'
        file.write_bytes(_BYTES)
        self.volume = array_evidence.ArrayVolume(
            uid='6005', size=1, wwpns=self.ports(2), file=file
        )
        self.context.volumes['/dev/sda'] = two_hosts.Volume(
            self.volume.sha256, {'vios1': ['48'], 'vios2': ['32']}
        )
        self.context.cloud.volumes_of.return_value = {'/dev/sda': 'id'}
        self.context.cloud.find_volume.return_value.status = 'in-use'
        self.disks = {
            'vios1': host_lib.ArrayDisk('hdisk1', 1024, [_LPAR], ['48']),
            'vios2': host_lib.ArrayDisk('hdisk7', 1024, [_LPAR], ['32']),
        }
        for side, disks in zip(self.sides, ({}, self.disks), strict=True):
            side.host.array_disks.return_value = disks
            side.host.sha256_of.return_value = self.volume.sha256
        self.enterContext(mock.patch.object(volume_move_steps, '_SECONDS', 0))

    @staticmethod
    def ports(host):
        """Return the worldwide port names of a host."""
        return sorted(itertools.chain(*volume_world.wwpns(host).values()))

    def differences(self, elsewhere=None, **changes):
        """Return what the step finds wrong, and keep what it shows.

        :param changes: what the array says of the volume in place of what it
            should.
        """
        volume = dataclasses.replace(self.volume, **changes)
        with mock.patch.object(array_evidence, 'find', return_value=volume):
            expected, observed, shown = volume_move_steps._add_volumes(
                self.context, self.sides[1], ({}, {}, []), elsewhere
            )
        self.shown = '\n'.join(shown)
        return report.differences(expected, observed)

    def test_host_with_the_volume_is_shown_and_the_other_has_nothing(self):
        self.assertEqual([], self.differences())
        for line in (
            'volume /dev/sda: the array maps it to powervm-demo-2 (1000',
            'powervm-demo-1: no disk',
            f'vios2 of powervm-demo-2: mapped to {_LPAR} in virtual slot 32',
        ):
            self.assertIn(line, self.shown)
        self.sides[0].host.array_disks.side_effect = requests.ConnectionError
        self.assertEqual([], self.differences(two_hosts.NO_ANSWER))
        self.assertIn(two_hosts.NO_ANSWER, self.shown)

    def test_array_that_maps_elsewhere_or_has_other_bytes_is_wrong(self):
        other = self.directory / 'other'
        other.write_bytes(b'else')
        for changes, place in (
            ({'wwpns': self.ports(1)}, 'array.mapped to'),
            ({'wwpns': self.ports(1) + self.ports(2)}, 'array.mapped to'),
            ({'wwpns': self.ports(2)[1:]}, 'array.mapped to'),
            ({'file': other}, 'array.SHA-256'),
        ):
            (line,) = self.differences(**changes)
            self.assertIn(f'/dev/sda.{place}: expected', line)

    def test_host_that_maps_otherwise_is_wrong(self):
        first, second = (side.host.array_disks for side in self.sides)
        disk = self.disks['vios2']
        for host, disks, place in (
            (first, self.disks, 'powervm-demo-1.vios1: unexpected'),
            (second, {}, 'powervm-demo-2.vios1: missing'),
            (
                second,
                {
                    **self.disks,
                    'vios2': dataclasses.replace(disk, slots=['33']),
                },
                'powervm-demo-2.vios2.virtual slots: expected',
            ),
            (
                second,
                {**self.disks, 'vios2': dataclasses.replace(disk, users=[''])},
                'powervm-demo-2.vios2.mapped to: expected',
            ),
        ):
            first.return_value, second.return_value = {}, self.disks
            host.return_value = disks
            self.assertIn(
                f'volumes./dev/sda.hosts.{place}', self.differences()[0]
            )
