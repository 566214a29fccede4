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

"""--mask replaces what identifies a site, the same value by the same one."""

import re
import unittest

from pypowervm.tasks import management_console as console_tasks

from powervm_emulator import worlds
from powervm_emulator.core import captures
from powervm_emulator.core import content
from powervm_emulator.record import mask
from powervm_emulator.record import recording
from powervm_emulator.record import substitute
from powervm_emulator.record import world

from . import base
from . import facts
from . import pools
from . import test_captures
from . import test_record

# What must not be left, however it is written. Written down here again: a
# list of the masking's own would prove nothing.
IDENTIFYING = re.compile(
    r'[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'
    r'|(?<![0-9A-Fa-f])[0-9A-Fa-f]{16}(?![0-9A-Fa-f])'
    r'|(?<=>)[0-9A-Fa-f]{12}(?=<)'
    r'|(?:[0-9]{1,3}\.){3}[0-9]{1,3}'
    r'|[0-9A-Fa-f]{32}'
    r'|(?<=>01)[A-Za-z0-9+/]{16,}'
    r'|(?<=>)(?:9?[0-9]{4}[A-F0-9]{3}[A-Z])(?=<)'
)
NAMES = re.compile(
    r'<(?:PartitionName|SystemName|SerialNumber|HostName|ClusterName'
    r'|StoragePoolName|UnitName|DiskName|MediaName|NetworkName'
    r'|LogicalSerialNumber|OvsPortExternalIds|BackingDeviceName)\b[^>]*>'
    r'([^<]+)<'
)
SERIALS = re.compile(r'U[0-9A-Z]{4}\.[0-9A-Z]{3}\.([0-9A-Z]{7})')
COMMON = re.compile(
    r'[0-9]+|None|NONE|SYSTEM|vtscsi[0-9]+|vtopt[0-9]+|hdisk[0-9]+'
)
FILES = (
    'fake_vios_feed.txt',
    'fake_vios_feed2.txt',
    'fake_vios_hosting_vios_feed.txt',
    'fake_vios_ssp_npiv.txt',
    'fake_lpar_feed.txt',
    'managedsystem.txt',
    'sys_with_sriov.txt',
)


def identifying(text):
    """Return what identifies in a recorded world."""
    # Cards have the numbers of their models in their descriptions.
    text = re.sub(r'\([0-9a-f]{16}\)', '', text)
    text = re.sub('<[A-Za-z]*(SubnetMask|Version|Level|Firmware).*', '', text)
    found = set(IDENTIFYING.findall(text)) | set(SERIALS.findall(text))
    found |= {
        name for name in NAMES.findall(text) if not COMMON.fullmatch(name)
    }
    # The API's own constants.
    return {
        one
        for one in found
        if set(one.lower()) - set('0f') and not one.startswith('127.')
    }


class MaskTest(test_record.RecordTestCase):
    def both(self, world):
        """Record an emulator plainly and masked; return the texts."""
        emulator = base.start(self, world)
        texts = []
        for options in ((), ('--mask',)):
            self.output.unlink(missing_ok=True)
            status, said = self.run_record(emulator.url, *options)
            self.assertEqual(0, status, said)
            texts.append(self.output.read_text())
        return texts

    def assert_masked(self, plain, masked):
        left = {
            one
            for one in identifying(plain)
            # The expression alone takes seconds.
            if one in masked
            and re.search(
                rf'(?<![A-Za-z0-9-]){re.escape(one)}(?![A-Za-z0-9])', masked
            )
        }
        self.assertEqual(set(), left)

    def test_default_world_keeps_no_identity(self):
        plain, masked = self.both(None)
        self.assertIn('EMU0001', plain)
        self.assert_masked(plain, masked)
        self.assertNotIn('archive', masked)

    def test_pool_keeps_no_identity(self):
        plain, masked = self.both(
            pools.world(logical_units=[{'name': 'secret', 'capacity': 1}])
        )
        self.assert_masked(plain, masked)

    def test_captures_keep_no_identity(self):
        for file in FILES:
            with self.subTest(file=file):
                self.assert_masked(*self.both(test_captures.world_of(file)))

    def test_console_keeps_no_identity_and_takes_keys(self):
        world = worlds.default()
        for file in ('managementconsole.txt', 'managementconsole_ssh.txt'):
            world['management_consoles'] = [{'capture': {'file': file}}]
            plain, masked = self.both(world)
            self.assert_masked(plain, masked)
            for text in re.findall('AAAA[A-Za-z0-9+/]+|hmc7|fe80:', plain):
                self.assertNotIn(text, masked)
            emulator = base.start(self, worlds.load_file(str(self.output)))
            adapter = base.adapter_for(emulator)
            self.addCleanup(base.forget, adapter.session)
            before = console_tasks.get_authorized_keys(adapter)
            console_tasks.add_authorized_key(adapter, 'ssh-rsa AAAA')
            self.assertEqual(
                (*before, 'ssh-rsa AAAA'),
                console_tasks.get_authorized_keys(adapter),
            )

    def test_masked_world_has_the_same_numbers_and_relations(self):
        captured = test_captures.world_of('fake_vios_feed.txt')
        for described in (None, pools.world(), captured):
            emulator = base.start(self, described)
            self.output.unlink(missing_ok=True)
            other = base.start(self, self.record(emulator, '--mask')[0])
            made = {}
            pairs = zip(
                flat(self.facts(emulator)),
                flat(self.facts(other)),
                strict=True,
            )
            for value, masked in pairs:
                if isinstance(value, str):
                    self.assertEqual(masked, made.setdefault(value, masked))
                else:
                    self.assertEqual(value, masked)

    def test_links_lead_to_the_same_resources(self):
        emulator = base.start(self, pools.world())
        other = base.start(self, self.record(emulator, '--mask')[0])
        adapter = base.adapter_for(other)
        self.addCleanup(base.forget, adapter.session)
        found = facts.wrappers(adapter)
        (cluster,) = found['Cluster']
        (pool,) = found['SSP']
        self.assertEqual(pool.uuid, cluster.ssp_uri.rpartition('/')[2])
        uuids = {server.uuid for server in found['servers']}
        for node in cluster.nodes:
            self.assertIn(node.vios_uuid, uuids)


def flat(value):
    """Yield all plain values of nested ones."""
    if isinstance(value, dict):
        yield from flat([*value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from flat(item)
    else:
        yield value


def recorded(document):
    """Return a recording of one partition."""
    element = content.parse(document)
    capture = captures.Capture(
        content.local_name(element),
        '00000000-1111-4222-8333-444444444444',
        element,
    )
    found = recording.Recording()
    found.systems = [recording.Node(capture)]
    mask.mask(found)
    return found


class ElementTest(unittest.TestCase):
    def masked(self, inner):
        """Mask an LPAR with these elements; return its document."""
        found = recorded(f'<LogicalPartition>{inner}</LogicalPartition>')
        return world.document(found)['systems'][0]['capture']['document']

    def test_text_of_unknown_element_is_masked(self):
        text = self.masked('<Note>call Bob</Note><Level>3</Level>')
        self.assertIn('<Note>masked</Note>', text)
        self.assertIn('<Level>3</Level>', text)

    def test_description_of_partition_is_masked_and_of_card_is_kept(self):
        text = self.masked(
            '<Description>payroll</Description>'
            '<IOSlot><Description>Ethernet</Description></IOSlot>'
        )
        self.assertNotIn('payroll', text)
        self.assertIn('>Ethernet<', text)

    def test_name_is_replaced_in_other_names(self):
        text = self.masked(
            '<PartitionName>payroll</PartitionName>'
            '<HostName>payroll</HostName><ReferenceCode>of payroll'
            '</ReferenceCode><DiskName>boot_payroll_1</DiskName>'
        )
        self.assertNotIn('payroll', text)
        self.assertEqual(3, text.count('masked-partition1'))

    def test_elements_of_newer_hosts_keep_words_and_no_names(self):
        text = self.masked(
            '<DefaultProfileName>payroll</DefaultProfileName>'
            '<LastActivatedProfile>payroll</LastActivatedProfile>'
            '<OperatingSystemType>AIX/Linux</OperatingSystemType>'
            '<VirtualSerialNumber>9ABCDEF</VirtualSerialNumber>'
        )
        self.assertEqual(2, text.count('>masked-profile1<'))
        self.assertIn('>AIX/Linux<', text)
        self.assertNotIn('9ABCDEF', text)

    def test_version_is_no_address(self):
        version = (
            '<OperatingSystemVersion>VIOS 2.2.4.10</OperatingSystemVersion>'
        )
        self.assertIn(version, self.masked(version))

    def test_link_has_the_made_up_uuid(self):
        text = self.masked(
            '<PartitionUUID>ABCDEF00-1111-4222-8333-444444444444'
            '</PartitionUUID><link href="/rest/api/uom/LogicalPartition/'
            'abcdef00-1111-4222-8333-444444444444"/>'
        )
        self.assertNotIn('444444444444', text.lower())
        (uuid,) = re.findall('<PartitionUUID>(.*)</PartitionUUID>', text)
        self.assertIn(f'LogicalPartition/{uuid.lower()}"', text)


class SubstituteTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.made = substitute.Substitute()

    def test_text_has_made_up_addresses_and_serials_in_its_form(self):
        digits = self.made.digits('5' * 16)
        for expected, text in (
            (
                '192.0.2.1 and 2001:db8::1, 192.0.2.2, 192.0.2.1',
                '10.1.2.3 and fe80::7:1, 10.1.2.4, 10.1.2.3',
            ),
            (
                f'U78D2.001.XX00001-P1-C2-T1-W{digits}',
                'U78D2.001.WZS0ABC-P1-C2-T1-W' + '5' * 16,
            ),
            # No addresses
            *((text, text) for text in ('255.255.254.0', 'VIOS 2.2.3')),
            ('12:30:45', '12:30:45'),
        ):
            with self.subTest(text):
                self.assertEqual(expected, self.made.text(text))

    def test_udids_of_one_pool_begin_with_the_same_identity(self):
        identity = 'cfc907d2abf511e4b2d540f2e95daf30'
        first = self.made.opaque(f'27{identity}aaaa0000bbbb')
        second = self.made.opaque(f'24{identity}cccc')
        self.assertEqual(first[2:34], second[2:34])
        self.assertNotEqual(identity, first[2:34])
        self.assertEqual(('27', '24'), (first[:2], second[:2]))

    def test_disk_has_the_serial_of_its_group(self):
        serial = '00f8d6de00004b000000014a54555cd9'
        self.assertEqual(
            f'03{self.made.digits(serial)}.1',
            self.made.opaque(f'03{serial}.1'),
        )

    def test_udid_of_hdisk_stays_base64_of_the_same_length(self):
        given = '01M0lCTSAgICAgMjEwNzkwMDAzSUJN'
        made = self.made.opaque(given)
        self.assertEqual(len(given), len(made))
        self.assertRegex(made, '^01[A-Za-z0-9+/=]+$')
        self.assertNotEqual(given, made)
