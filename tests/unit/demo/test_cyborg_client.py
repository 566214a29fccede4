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

import json
import unittest

import requests

from demo import cyborg_client


def _answer(status, document):
    answer = requests.Response()
    answer.status_code = status
    answer.headers['Content-Type'] = 'application/json'
    answer._content = json.dumps(document).encode()
    return answer


class _Adapter:
    """An API with these answers, by path; it notes what is posted."""

    def __init__(self, answers, status=200):
        self._answers = answers
        self._status = status
        self.posted = []

    def get(self, path, microversion):
        return _answer(self._status, self._answers[path])


def _device(uuid, drc_index):
    return {
        'uuid': uuid,
        'hostname': 'host1',
        'vendor': '1014',
        'model': '0634',
        'status': 'enabled',
        'vendor_board_info': json.dumps({'drc_index': drc_index}),
    }


def _deployable(drc_index, uuid):
    return {'name': f'PowerVM Cyborg IOSlot h {drc_index}', 'rp_uuid': uuid}


class CyborgTest(unittest.TestCase):
    def test_devices_come_with_the_providers_of_their_slots(self):
        adapter = _Adapter(
            {
                '/devices': {
                    'devices': [
                        _device('b', '21030039'),
                        _device('a', '21010038'),
                    ]
                },
                '/deployables': {
                    'deployables': [
                        _deployable('21030039', 'provider of 39'),
                        _deployable('21010038', 'provider of 38'),
                    ]
                },
            }
        )

        devices = cyborg_client.Cyborg(adapter).devices()

        self.assertEqual(
            [
                ('a', '21010038', 'provider of 38'),
                ('b', '21030039', 'provider of 39'),
            ],
            [
                (device.uuid, device.drc_index, device.provider_uuid)
                for device in devices
            ],
        )

    def test_unbound_request_has_no_provider_and_no_handle(self):
        arq = {
            'state': 'Initial',
            'device_profile_name': 'p',
            'hostname': None,
            'device_rp_uuid': None,
            'attach_handle_info': None,
        }
        adapter = _Adapter(
            {'/accelerator_requests?instance=s': {'arqs': [arq]}}
        )

        (request,) = cyborg_client.Cyborg(adapter).requests('s')

        self.assertEqual(
            cyborg_client.Request('Initial', 'p', '', '', {}), request
        )
