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

import io
import json
import unittest

import pycdlib

from demo import attachments
from demo import cloud
from demo import guest
from demo import host

_SERVER = cloud.Server('a-uuid', 'one-gpu', 'instance-1', 'ACTIVE', '')
_MAC = 'fa:16:3e:00:00:01'
_LOCATION = 'U78-P1-C3'


def _config_drive(**changes):
    """Return a config drive as the demonstration expects it."""
    meta_data = {
        'uuid': _SERVER.id,
        'name': _SERVER.name,
        'public_keys': {cloud.KEY: guest.PUBLIC_KEY},
        'devices': [
            {'type': 'nic', 'mac': _MAC},
            {'type': 'ioslot', 'location': _LOCATION},
        ],
    } | changes
    disc = pycdlib.PyCdlib()
    disc.new(rock_ridge='1.09')
    for plain, name in (('/A', 'openstack'), ('/A/B', 'latest')):
        disc.add_directory(plain, rr_name=name)
    for plain, name, data in (
        ('/A/B/C.;1', 'meta_data.json', json.dumps(meta_data)),
        ('/A/B/D.;1', 'user_data', guest.USER_DATA),
    ):
        encoded = data.encode()
        disc.add_fp(io.BytesIO(encoded), len(encoded), plain, rr_name=name)
    image = io.BytesIO()
    disc.write_fp(image)
    disc.close()
    return image.getvalue()


def _found(image=None, drive=None, port_status='ACTIVE', vlan=152):
    return attachments.Attachments(
        storage=(
            host.StorageElement(
                'VirtualDisk', 'disk', '1.00', image or guest.make_image()
            ),
            host.StorageElement(
                'VirtualOpticalMedia',
                'drive',
                '0.1',
                drive or _config_drive(),
            ),
        ),
        ports=(cloud.Port(_MAC, port_status, 'pvm_sea'),),
        adapters=(host.Adapter(_MAC, vlan),),
    )


def _expected():
    return attachments.expected_attachments(
        _SERVER,
        cloud.Network('network', 152),
        guest.make_image(),
        [_LOCATION],
        [_MAC],
    )


class AttachmentsTest(unittest.TestCase):
    def test_changed_attachments_are_differences(self):
        for found in (
            _found(image=guest.make_image()[:-1] + b'!'),
            _found(drive=_config_drive(devices=[])),
            _found(port_status='DOWN'),
            _found(vlan=1),
        ):
            self.assertNotEqual(_expected(), found.document())

    def test_server_without_ports_is_a_difference(self):
        expected = attachments.expected_attachments(
            _SERVER, cloud.Network('network', 1), b'', [], []
        )
        self.assertNotEqual([], expected['ports'])
