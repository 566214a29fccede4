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

"""Flavors with extra specs of this driver, through real Nova."""

from nova.tests.functional.api import client

from nova_powervm.lpar import extra_specs
from tests.functional import moving
from tests.functional import pools

_ROWS = {row.name: row for row in extra_specs.SETTINGS}
#: Settings, and the text of their elements.
_SHARED = {
    'min_mem': ('256', '256'),
    'max_mem': ('2048', '2048'),
    'min_vcpu': ('1', '1'),
    'max_vcpu': ('4', '4'),
    'proc_units': ('0.6', '0.60'),
    'min_proc_units': ('0.3', '0.30'),
    'max_proc_units': ('1.5', '1.50'),
    'uncapped': ('true', 'uncapped'),
    'shared_weight': ('99', '99'),
    'processor_compatibility': ('POWER8', 'POWER8'),
    'srr_capability': ('true', 'true'),
    'secure_boot': ('2', '2'),
}
_DEDICATED = {
    'dedicated_proc': ('true', 'true'),
    'dedicated_sharing_mode': ('keep_idle_procs', 'keep idle procs'),
    'max_mem': ('1024', '1024'),
    'secure_boot': ('1', '1'),
}


def specs(settings):
    """Return the extra specs for some settings."""
    return {f'powervm:{name}': value for name, (value, _) in settings.items()}


class ExtraSpecTest(moving.MovingTestCase, pools.PoolTestCase):
    """Two hosts with one pool; what they say is read with plain HTTP."""

    def setUp(self):
        super().setUp()
        self.start_site()

    def test_flavors_say_what_lpars_are(self):
        self.tell_stories()

    def settings_of(self, server, settings, host='host1'):
        """Return the texts of the elements for some settings."""
        reader, lpar = self.hosts[host].reader, self.lpar(server, host)
        return {
            name: reader.lpar_text(lpar.uuid, _ROWS[name].element)
            for name in settings
        }

    def assert_settings(self, server, settings, host='host1'):
        """Verify the texts of the elements for some settings."""
        self.assertEqual(
            {name: text for name, (_, text) in settings.items()},
            self.settings_of(server, settings, host),
        )
        self.assertEqual('running', self.lpar(server, host).state)

    def enable(self, host, status):
        """Let Nova's scheduler choose a host, or not."""
        (service,) = self.admin_api.get_services(
            binary='nova-compute', host=host
        )
        self.admin_api.put_service(service['id'], {'status': status})

    def story_settings_follow_the_flavor_through_the_life_of_a_server(self):
        self.enable('host2', 'disabled')
        server = self.boot(specs(_SHARED), vcpu=2, disk=1)
        self.assert_settings(server, _SHARED)

        server = self.reboot_hard(server)
        self.assert_settings(server, _SHARED)

        server = self.resize(server, specs(_DEDICATED), vcpu=2)
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assert_settings(server, _DEDICATED)
        server = self.revert(server)
        self.assert_settings(server, _SHARED)

        server = self.confirm(self.resize(server, specs(_DEDICATED), vcpu=2))
        server = self.reboot_hard(server)
        self.assert_settings(server, _DEDICATED)
        # What only the former flavor named has its default again.
        self.assert_settings(
            server, {'srr_capability': (None, 'false'), 'min_mem': (0, '512')}
        )

        self.enable('host2', 'enabled')
        server = self.confirm(self.migrate(server, 'host2'))
        self.assert_settings(server, _DEDICATED, 'host2')

    def story_api_refuses_what_the_driver_does_not_know(self):
        flavor = self.make_flavor()
        self.admin_api.microversion = '2.86'
        for key, value in (
            ('powervm:shared_wait', '7'),
            ('powervm:shared_weight', '256'),
            ('powervm:processor_compatibility', 'POWER11'),
        ):
            with self.subTest(key=key, value=value):
                found = self.assertRaises(
                    client.OpenStackApiException,
                    self.admin_api.post_extra_spec,
                    flavor,
                    {'extra_specs': {key: value}},
                )
                self.assertEqual(400, found.response.status_code)
        self.admin_api.post_extra_spec(flavor, {'extra_specs': specs(_SHARED)})

    def story_unsupported_mode_is_a_fault_and_leaves_nothing(self):
        server = self.boot(
            specs({'processor_compatibility': ('POWER10', '')}),
            expected='ERROR',
        )

        self.assertIn(
            'powervm:processor_compatibility=POWER10: the host has only',
            self.fault(server),
        )
        for host in ('host1', 'host2'):
            self.assertIsNone(self.lpar(server, host))
