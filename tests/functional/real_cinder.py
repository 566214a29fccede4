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

"""Real Cinder with an array, for the hosts of a test.

Cinder's services run in a child process that all tests of a process share.
What the array maps reaches the hosts as from a storage area network, beside
Nova and this project's driver.
"""

import time

import fixtures
from nova.volume import cinder as nova_cinder
from testtools import content
from testtools import content_type

from tests.functional import cinder_child
from tests.functional import token_users

_SECONDS = 120
# What Nova's fixture of Cinder replaces.
_API = dict(vars(nova_cinder.API))
_FUNCTIONS = {
    'is_microversion_supported': nova_cinder.is_microversion_supported
}


class Array(fixtures.Fixture):
    """Cinder and its array; all volumes are deleted when the test ends.

    :param hosts: The control planes of the hosts in the network, one of each
        site.
    :ivar network: What the hosts are told.
    """

    def __init__(self, *hosts):
        super().__init__()
        self._hosts = hosts

    def _setUp(self):
        self._services = cinder_child.start()
        self.network = self._services.network
        self.network.reset(*self._hosts)
        self.addCleanup(self._clear)
        self._log_start = self._services.log_path.stat().st_size
        self.addDetail(
            'cinder.log',
            content.Content(
                content_type.UTF8_TEXT, lambda: [self.logged().encode()]
            ),
        )

    def _clear(self):
        """Delete everything, whoever uses it."""
        self.network.reset()
        for one in self.request('GET', '/attachments')['attachments']:
            self.request('DELETE', f'/attachments/{one["id"]}')
        for kind in ('snapshots', 'volumes'):
            for one in self.request('GET', f'/{kind}')[kind]:
                path = f'/{kind}/{one["id"]}/action'
                self.request('POST', path, json={'os-force_delete': {}})
            self._await(
                f'end of all {kind}',
                lambda kind=kind: not self.request('GET', f'/{kind}')[kind],
            )

    def request(self, method, path, **options):
        """Send a request to Cinder's API; return its JSON, if it has any."""
        return self._services.request(method, path, **options)

    def logged(self):
        """Return what Cinder's services have logged during this test."""
        with open(self._services.log_path) as log:
            log.seek(self._log_start)
            return log.read()

    # Volumes

    def create(self, size=1, data=b'', **source):
        """Create a volume, and return its id.

        :param size: In GiB.
        :param data: Its first bytes.
        :param source: What it is a copy of, as in requests.
        """
        body = {'volume': {'size': size, **source}}
        made = self.request('POST', '/volumes', json=body)['volume']
        self.await_status(made['id'], 'available')
        if data:
            self.find(made['id']).file.write_bytes(data)
        return made['id']

    def create_type(self, name, **limits):
        """Create a volume type whose limits hosts are to enforce."""
        body = {'qos_specs': {'name': name, 'consumer': 'front-end', **limits}}
        qos = self.request('POST', '/qos-specs', json=body)['qos_specs']['id']
        body = {'volume_type': {'name': name}}
        made = self.request('POST', '/types', json=body)['volume_type']['id']
        self.request('GET', f'/qos-specs/{qos}/associate?vol_type_id={made}')
        return name

    def create_bootable(self, data, size=1):
        """Create a volume that a server can boot from; return its id."""
        made = self.create(size, data)
        self.act(made, 'os-set_bootable', bootable=True)
        return made

    def snapshot(self, volume):
        """Create a snapshot of a volume, and return its id."""
        body = {'snapshot': {'volume_id': volume, 'force': True}}
        made = self.request('POST', '/snapshots', json=body)['snapshot']
        self.await_status(made['id'], 'available', 'snapshot')
        return made['id']

    def act(self, volume, action, **body):
        """Request an action on a volume."""
        path = f'/volumes/{volume}/action'
        self.request('POST', path, json={action: body})

    def delete(self, volume):
        """Delete a volume."""
        self.request('DELETE', f'/volumes/{volume}')
        self._await(
            f'end of the volume {volume}', lambda: self.find(volume) is None
        )

    def show(self, volume):
        """Return a volume as Cinder has it."""
        return self.request('GET', f'/volumes/{volume}')['volume']

    def status(self, volume):
        """Return the status of a volume."""
        return self.show(volume)['status']

    def find(self, volume):
        """Return what the array has of a volume, or None."""
        return self._services.find(volume)

    def await_status(self, identifier, status, kind='volume'):
        """Wait until a volume or a snapshot has a status."""
        self._await(
            f'the status {status} of the {kind} {identifier}',
            lambda: (
                self.request('GET', f'/{kind}s/{identifier}')[kind]['status']
                == status
            ),
        )

    def _await(self, what, is_there):
        deadline = time.monotonic() + _SECONDS
        while not is_there():
            if time.monotonic() > deadline:
                raise AssertionError(f'no {what}: {self.logged()[-4000:]}')
            time.sleep(0.05)

    # Attachments

    def map(self, volume, *wwpns, host='host1'):
        """Attach a volume to ports of a host; return attachment and paths."""
        connector = {'host': host, 'wwpns': wwpns, 'multipath': True}
        body = {'volume_uuid': volume, 'connector': connector}
        made = self.request('POST', '/attachments', json={'attachment': body})
        attachment = made['attachment']
        path = f'/attachments/{attachment["id"]}/action'
        self.request('POST', path, json={'os-complete': {}})
        return attachment['id'], attachment['connection_info']

    def unmap(self, attachment):
        """Have Cinder end an attachment."""
        self.request('DELETE', f'/attachments/{attachment}')


class RealCinder(Array):
    """Cinder, its array, and Nova that uses them.

    :param test: The test, with nova's fixtures of the API and of Cinder; the
        latter has no effect then.
    """

    def __init__(self, test):
        controls = [host.emulator.control for host in test.hosts.values()]
        super().__init__(*controls)
        self._test = test

    def _setUp(self):
        super()._setUp()
        for owner, names in (
            (nova_cinder.API, _API),
            (nova_cinder, _FUNCTIONS),
        ):
            for name, function in names.items():
                if vars(owner)[name] is not function:
                    self.useFixture(
                        fixtures.MockPatchObject(owner, name, function)
                    )
        self._services.serve(self._test.api_fixture.app())
        self.useFixture(token_users.TokenUsers())
        url, token = self._services.url, cinder_child.TOKEN
        token_users.configure(self._test, 'cinder', url, token)
        self._test.flags(group='cinder', endpoint_template=url)
        token_users.show_service_token(self._test, url, token)
