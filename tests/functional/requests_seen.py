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

"""Records requests to Placement and other services."""

import collections
import re

import fixtures
from keystoneauth1 import adapter

_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


class Recorder(fixtures.Fixture):
    """Records requests without changing them.

    :param placement: Nova's Placement fixture.
    """

    def __init__(self, placement):
        super().__init__()
        self._client = placement._client
        self._requests = []

    def _setUp(self):
        send = self._client.request

        def request(url, method, **kwargs):
            self._requests.append((method, url))
            return send(url, method, **kwargs)

        self.useFixture(
            fixtures.MockPatchObject(self._client, 'request', request)
        )

    def take(self):
        """Return the requests since the last call, with {} for uuids."""
        taken, self._requests[:] = list(self._requests), []
        return [f'{method} {_UUID.sub("{}", url)}' for method, url in taken]


class CommandRecorder(fixtures.Fixture):
    """Records the requests of commands to all services of the cloud."""

    def __init__(self):
        super().__init__()
        self._requests = []

    def _setUp(self):
        send = adapter.Adapter.request

        def request(client, url, method, **kwargs):
            query = '&'.join(sorted(kwargs.get('params') or ()))
            self._requests.append(
                f'{method} {_UUID.sub("{}", url)}' + f'?{query}' * bool(query)
            )
            return send(client, url, method, **kwargs)

        self.useFixture(
            fixtures.MockPatchObject(adapter.Adapter, 'request', request)
        )

    def take(self):
        """Return how often each was sent since the last call.

        Uuids are {}, and of a query only the names of its parameters.
        """
        taken, self._requests[:] = collections.Counter(self._requests), []
        return taken
