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

"""The catalog of services, which Cyborg's clients ask keystone for.

It stands for keystone, which would add seconds to each test: the user is
always the same, and any password is right.
"""

import json

_REGION = 'RegionOne'


class Identity:
    """A WSGI application that gives out one token with a catalog.

    :param token: The token, which ends with the roles of the user.
    :param endpoints: Returns service type to URL.
    """

    def __init__(self, token, endpoints):
        self.token = token
        self._endpoints = endpoints

    def __call__(self, environ, start_response):
        if environ['REQUEST_METHOD'] == 'POST':
            status, body = '201 Created', {'token': self._access()}
        else:
            status, body = '200 OK', {'version': self._version(environ)}
        content = json.dumps(body).encode()
        start_response(
            status,
            [
                ('Content-Type', 'application/json'),
                ('Content-Length', str(len(content))),
                ('X-Subject-Token', self.token),
            ],
        )
        return [content]

    def _access(self):
        return {
            'methods': ['password'],
            'expires_at': '2100-01-01T00:00:00.000000Z',
            'issued_at': '2026-01-01T00:00:00.000000Z',
            'user': {'id': 'cyborg', 'name': 'cyborg'},
            'project': {'id': 'service', 'name': 'service'},
            'roles': [
                {'id': role, 'name': role}
                for role in self.token.rpartition(':')[2].split(',')
            ],
            'catalog': [
                {
                    'type': kind,
                    'name': kind,
                    'endpoints': [
                        {
                            'interface': interface,
                            'region': _REGION,
                            'region_id': _REGION,
                            'url': url,
                        }
                        for interface in ('public', 'internal')
                    ],
                }
                for kind, url in self._endpoints().items()
            ],
        }

    @staticmethod
    def _version(environ):
        url = f'http://{environ["HTTP_HOST"]}{environ["SCRIPT_NAME"]}/v3/'
        return {
            'id': 'v3.14',
            'status': 'stable',
            'links': [{'rel': 'self', 'href': url}],
        }
