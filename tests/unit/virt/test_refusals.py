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

"""What is refused: errors for Nova, and extra specs."""

import unittest
import unittest.mock

import ddt
import oslo_messaging
from nova import context
from nova import exception as nova_exception
from nova import objects
from nova.api.validation.extra_specs import validators
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm import exception
from nova_powervm.lpar import extra_specs
from nova_powervm.virt import errors
from nova_powervm.virt import extra_spec_validators
from nova_powervm.virt import refusals
from tests.unit.virt import base


@ddt.ddt
class DiskRequestTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(
            uuid=uuids.instance,
            image_ref=uuids.image,
            kernel_id='',
            ramdisk_id='',
            config_drive='',
            system_metadata={},
            pci_requests=None,
            flavor=objects.Flavor(extra_specs={}),
        )
        self.image = objects.ImageMeta(
            id=uuids.image, properties=objects.ImageMetaProps()
        )

    def check(self, *ephemerals, swap=None, **options):
        info = {'ephemerals': list(ephemerals), 'swap': swap}
        refusals.check_build(self.instance, self.image, info, **options)

    def refuse(self, *args, **options):
        return str(
            self.assertRaises(
                exception.InstanceRefused, self.check, *args, **options
            )
        )

    def test_ten_ephemeral_disks_and_swap_disk_are_accepted(self):
        plain = {'size': 1, 'guest_format': None}
        self.check(*[plain] * 10, swap={'swap_size': 1})

    def test_eleven_ephemeral_disks_are_refused(self):
        message = self.refuse(*[{'size': 1}] * 11)
        self.assertIn('11 ephemeral disks, but at most 10', message)

    def test_file_systems_are_each_named_once(self):
        formats = ('xfs', 'ext4', 'xfs', '', None)
        message = self.refuse(*[{'guest_format': name} for name in formats])
        self.assertEqual(2, message.count('with the file system'))
        self.assertLess(message.index('ext4'), message.index('xfs'))

    @ddt.named_data(
        ['ephemeral disk', [{'encrypted': True}], None],
        ['swap disk', [], {'swap_size': 1, 'encrypted': True}],
    )
    def test_encrypted_disk_is_refused(self, ephemerals, swap):
        message = self.refuse(*ephemerals, swap=swap)
        self.assertIn('asks for an encrypted disk', message)

    def test_image_without_id_is_accepted_for_kept_disks_only(self):
        self.image = objects.ImageMeta(properties=objects.ImageMetaProps())
        self.check(keeps_disks=True)
        self.assertIn('Nova does not tell its image', self.refuse())

    def test_server_without_image_needs_a_boot_volume(self):
        self.instance.image_ref = ''
        # Nova describes no image then.
        self.image = objects.ImageMeta(properties=objects.ImageMetaProps())
        for keeps_disks in (False, True):
            message = self.refuse(keeps_disks=keeps_disks)
            self.assertIn('neither an image nor a boot volume', message)
            self.assertNotIn('to be kept', message)
        volume = {'connection_info': {}, 'boot_index': 0}
        refusals.check_build(
            self.instance, self.image, {'block_device_mapping': [volume]}
        )

    def test_preserved_ephemeral_disk_is_refused(self):
        message = self.refuse({'size': 1}, preserve_ephemeral=True)
        self.assertIn('asks to preserve ephemeral disks', message)

    def test_injected_files_need_config_drive(self):
        message = self.refuse(injected_files=[('/etc/motd', b'welcome')])
        self.assertIn('requires a config drive', message)
        self.instance.config_drive = 'True'
        self.check(injected_files=[('/etc/motd', b'welcome')])


@ddt.ddt
class ActionEventTest(base.NoDBTestCase):
    @ddt.named_data(
        ['conductor timeout', oslo_messaging.MessagingTimeout(), True],
        [
            'no action',
            nova_exception.InstanceActionNotFound(
                request_id='r', instance_uuid='i'
            ),
            False,
        ],
    )
    def test_failed_record_raises_nothing(self, error, is_logged):
        def fail(*args, **kwargs):
            raise error

        self.stub_out('nova.objects.InstanceActionEvent.event_start', fail)

        errors.record_failure(
            context.get_admin_context(),
            objects.Instance(uuid=uuids.instance, host='host1'),
            'powervm_reboot',
            nova_exception.NovaException('refused'),
        )

        self.assertEqual(
            is_logged,
            'Event powervm_reboot cannot be recorded'
            in self.stdlog.logger.output,
        )


#: Values that the API accepts and refuses, by the class of the row's value.
VALUES = {
    extra_specs.Whole: (('128',), ('x', '99999999999', '-1')),
    extra_specs.Units: (
        ('1', '0.05', '.5', '0.5', '12.25', '999.99'),
        ('0', '0.04', '0.0', '0.125', '1000', '1e2', '-1', 'x', '\u0663'),
    ),
    extra_specs.Truth: (('true', 'No', '1'), ('maybe',)),
    extra_specs.Choice: ((), ('POWER11', 'Default', '')),
}


@ddt.ddt
class ValidatorTest(unittest.TestCase):
    def setUp(self):
        known = {v.name: v for v in extra_spec_validators.register()}
        patched = unittest.mock.patch.multiple(
            validators, VALIDATORS=known, NAMESPACES={'powervm'}
        )
        patched.start()
        self.addCleanup(patched.stop)

    @ddt.idata(extra_specs.TABLE)
    def test_api_and_driver_accept_the_same_values(self, row):
        good, bad = VALUES[type(row.value)]
        if isinstance(row.value, extra_specs.Choice):
            good = row.value.values
        elif isinstance(row.value, extra_specs.Whole):
            good = (str(row.value.low), str(row.value.high))
        for text in good:
            with self.subTest(value=text):
                validators.validate(row.key, text)
                row.value.parse(text)
        for text in bad:
            with self.subTest(value=text):
                with self.assertRaises(nova_exception.ValidationError):
                    validators.validate(row.key, text)
                with self.assertRaises(ValueError):
                    row.value.parse(text)

    def test_unknown_key_is_refused(self):
        with self.assertRaises(nova_exception.ValidationError):
            validators.validate('powervm:lmb', '1')


@ddt.ddt
class BuildErrorTest(base.NoDBTestCase):
    """Nova tries other hosts after a build that failed, or does not."""

    @ddt.named_data(
        [
            'host',
            exception.RestUnreachable(server='s', reason='no answer'),
            nova_exception.InstanceDeployFailure,
        ],
        [
            'request',
            exception.AcceleratorRefused(instance_uuid='i', reason='no'),
            nova_exception.BuildAbortException,
        ],
    )
    def test_only_failure_of_the_host_lets_nova_try_another(
        self, error, expected
    ):
        found = errors.build_error_to_nova(error, uuids.instance)

        self.assertIsInstance(found, expected)
