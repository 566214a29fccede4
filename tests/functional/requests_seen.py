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

"""Records requests to Placement."""

import re

import fixtures

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
