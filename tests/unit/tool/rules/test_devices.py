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

"""Kinds of devices, slots of Cyborg, and settings that do harm."""

import http.server
import os
import subprocess
import tempfile
import threading
import unittest

import ddt

from nova_powervm.devices import policy
from nova_powervm.tool.rules import cyborg_slots
from nova_powervm.tool.rules import device_kinds
from nova_powervm.tool.rules import flavors
from nova_powervm.tool.rules import setting_lint
from tests.unit.devices import values

_OPENSTACK = """\
#!/bin/sh
echo "$@" >> "$0.arguments"
echo secret
"""
_CURL = """\
#!/bin/sh
echo "$@" >> "$0.arguments"
PATH=${PATH#*:} exec curl "$@"
"""


class RemovalTest(unittest.TestCase):
    """The command that removes a request, run by bash with a real curl."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.bin = directory.name
        for name, text in (('openstack', _OPENSTACK), ('curl', _CURL)):
            path = os.path.join(self.bin, name)
            with open(path, 'w') as file:
                file.write(text)
            os.chmod(path, 0o700)

    def serve(self):
        """Start a server; return its URL and the requests that it gets."""
        received = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_DELETE(self):
                received.append((self.path, self.headers))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return f'http://127.0.0.1:{server.server_port}/v2', received

    def test_token_reaches_cyborg_but_no_argument(self):
        url, received = self.serve()
        command = cyborg_slots.removal_command(
            cyborg_slots.Request('r', 'Bound', instance_uuid='gone'),
            cyborg_slots.CyborgFacts(
                cyborg_slots.Records(endpoint=url), cloud='my cloud'
            ),
        )
        path = f'{self.bin}:{os.environ["PATH"]}'
        subprocess.run(
            ['/bin/bash', '-c', command],
            env={**os.environ, 'PATH': path, 'no_proxy': '*'},
            check=True,
        )
        ((path, headers),) = received
        self.assertEqual('/v2/accelerator_requests?arqs=r', path)
        self.assertEqual('secret', headers['X-Auth-Token'])
        self.assertEqual('secret', headers['X-Service-Token'])
        for name in ('openstack', 'curl'):
            with open(os.path.join(self.bin, f'{name}.arguments')) as file:
                arguments = file.read()
            self.assertTrue(arguments)
            self.assertNotIn('secret', arguments)


class DeviceKindTest(unittest.TestCase):
    def test_kind_follows_pci_class(self):
        for pci_class, kind in (
            (0x0300, device_kinds.GPU),
            (0x0302, device_kinds.GPU),
            (0x0108, device_kinds.NVME),
            (0x0104, device_kinds.STORAGE),
            (0x1000, device_kinds.CRYPTO),
            (0x1200, device_kinds.ACCELERATOR),
            (0x0B40, device_kinds.ACCELERATOR),
            (0x0200, device_kinds.NETWORK),
            (0x0280, device_kinds.NETWORK),
            (0x0D11, device_kinds.NETWORK),
            (0x0207, device_kinds.FABRIC),
            (0x0C04, device_kinds.FABRIC),
            (0x0C06, device_kinds.FABRIC),
            (0x0C03, device_kinds.OTHER),
            (0x0604, device_kinds.OTHER),
            (4, device_kinds.OTHER),
            (None, device_kinds.OTHER),
        ):
            with self.subTest(pci_class=pci_class):
                slot = values.slot(pci_class=pci_class)
                self.assertIs(kind, device_kinds.kind_of(slot))

    def test_fpga_is_told_by_vendor_or_description(self):
        for changes in (
            {'vendor_id': 0x10EE},
            {'description': 'CAPI FPGA Adapter'},
        ):
            slot = values.slot(pci_class=0x1200, **changes)
            self.assertIs(device_kinds.FPGA, device_kinds.kind_of(slot))
        self.assertIs(
            device_kinds.NETWORK,
            device_kinds.kind_of(
                values.slot(pci_class=0x0200, vendor_id=0x10EE)
            ),
        )

    def test_wired_kinds_are_not_safe(self):
        wired = [kind for kind in device_kinds.KINDS if kind.wired]
        self.assertEqual([device_kinds.NETWORK, device_kinds.FABRIC], wired)
        for kind in wired:
            self.assertFalse(kind.safe)

    def test_resource_class_of_each_kind_is_valid(self):
        for kind in device_kinds.KINDS:
            self.assertTrue(policy.may_be_device(kind.resource_class))


def lint(vcpus=4, memory_mb=1024, ratio=4.0, **specs):
    """Return severity, key, and words of what is found."""
    specs = {key.replace('__', ':'): value for key, value in specs.items()}
    return [
        (str(found.severity), found.key, f'{found.problem}; {found.hint}')
        for found in setting_lint.lint_settings(
            flavors.Flavor(specs, memory_mb, vcpus), 0.1, ratio
        )
    ]


@ddt.ddt
class SettingLintTest(unittest.TestCase):
    @ddt.named_data(
        ['nothing', {}],
        ['others', {'hw__numa_nodes': '2'}],
        ['limits', {'powervm__max_mem': '2048'}],
        [
            'counted',
            {'powervm__dedicated_proc': 'true', 'resources__VCPU': '16'},
        ],
        ['ratio of one', {'powervm__dedicated_proc': 'true', 'ratio': 1.0}],
        ['as many', {'powervm__proc_units': '1'}],
        ['size unknown', {'powervm__max_mem': '512', 'memory_mb': None}],
    )
    def test_good_flavor_has_no_finding(self, fields):
        self.assertEqual([], lint(**fields))

    @ddt.named_data(
        ['key', {'powervm__maxmem': '1'}, 'maxmem', 'mean powervm:max_mem'],
        ['value', {'powervm__max_mem': 'x'}, 'max_mem', 'a whole number'],
        ['size', {'powervm__max_mem': '512'}, 'max_mem', 'the memory, 1024'],
        [
            'restart',
            {'powervm__srr_capability': '1', 'resources1__CUSTOM_GPU': '1'},
            'srr_capability',
            'with its devices',
        ],
    )
    def test_refused_extra_spec_is_an_error(self, fields, key, words):
        ((severity, found, text),) = lint(**fields)

        self.assertEqual(('error', f'powervm:{key}'), (severity, found))
        self.assertIn(words, text)

    @ddt.named_data(
        ['dedicated', {'powervm__dedicated_proc': 'true'}, '16'],
        ['guaranteed', {'powervm__proc_units': '2.5'}, '10'],
        ['at least', {'powervm__min_proc_units': '2'}, '8'],
        ['little', {'powervm__proc_units': '0.3'}, '2'],
        [
            'overridden',
            {'powervm__proc_units': '1.25', 'resources__VCPU': '4'},
            '5',
        ],
    )
    def test_wrong_count_of_processors_is_a_warning(self, fields, charge):
        ((severity, key, text),) = lint(**fields)

        self.assertEqual(('warning', 'resources:VCPU'), (severity, key))
        self.assertIn(f'of a server are {charge} VCPU', text)
        self.assertIn(f'write resources:VCPU={charge}', text)
