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

"""Images are described and read with Nova's own client of Glance."""

import hashlib
import io

import cryptography.exceptions
import ddt
import requests
from cursive import exception as cursive_exception
from nova import context as nova_context
from nova import exception as nova_exception
from nova.tests import fixtures as nova_fixtures
from oslo_utils import uuidutils

from nova_powervm import exception
from nova_powervm.lpar import image
from nova_powervm.virt import glance_images
from tests.functional import images as samples
from tests.unit.virt import base

DATA = b'\x01boot sector' * 10000
NO_HASH = {'os_hash_algo': None, 'os_hash_value': None}


@ddt.ddt
class GlanceImageTest(base.NoDBTestCase):
    def setUp(self):
        super().setUp()
        glance = self.useFixture(nova_fixtures.GlanceFixture(self))
        self.downloads = samples.Downloads(glance)
        self.glance = glance

    def image(self, **changes):
        """Return an image that Glance has, with changes to its record."""
        record = {
            'id': uuidutils.generate_uuid(),
            'disk_format': 'qcow2',
            'size': len(DATA),
            'os_hash_algo': 'sha512',
            'os_hash_value': hashlib.sha512(DATA).hexdigest(),
            'checksum': 'an MD5',
            'properties': {},
        }
        made = self.glance.create(None, record | changes, io.BytesIO(DATA))
        return glance_images.GlanceImage(
            nova_context.get_admin_context(), made['id']
        )

    @ddt.data(
        ({}, 'sha512', hashlib.sha512(DATA).hexdigest()),
        # Of an old Glance
        (NO_HASH, 'md5', 'an MD5'),
        ({**NO_HASH, 'checksum': None}, '', ''),
    )
    @ddt.unpack
    def test_describe_returns_format_size_and_hash(
        self, changes, algorithm, value
    ):
        found = self.image(**changes).describe()

        self.assertEqual(
            image.Image(found.id, 'qcow2', len(DATA), algorithm, value), found
        )

    def test_read_returns_all_bytes(self):
        self.assertEqual(DATA, b''.join(self.image().read()))
        self.assertEqual(1, self.downloads.count)

    def test_description_of_missing_image_is_refused(self):
        found = glance_images.GlanceImage(
            nova_context.get_admin_context(), uuidutils.generate_uuid()
        )

        error = self.assertRaises(exception.ImageRefused, found.describe)

        self.assertIn('could not be found', str(error))

    @ddt.named_data(
        [
            'missing image',
            nova_exception.ImageNotFound(image_id='it'),
            exception.ImageRefused,
        ],
        [
            'bad signature',
            cursive_exception.SignatureVerificationError(reason='bad'),
            exception.ImageRefused,
        ],
        [
            'wrong bytes',
            # It has no words.
            cryptography.exceptions.InvalidSignature(),
            exception.ImageRefused,
        ],
        [
            'silence',
            nova_exception.GlanceConnectionFailed(server='it', reason='no'),
            exception.ImageUnreadable,
        ],
        [
            'broken connection',
            requests.exceptions.ChunkedEncodingError('it went away'),
            exception.ImageUnreadable,
        ],
    )
    def test_download_that_fails_is_told_from_one_that_is_refused(
        self, error, expected
    ):
        def fail(data, download):
            # Nova tells of a bad signature when it has handed out all.
            download()
            raise error

        found = self.image()
        self.downloads.meddle(1, fail)

        # The generator ends with the error, after the bytes.
        caught = self.assertRaises(expected, list, found.read())

        self.assertIn(str(error).rstrip('.'), str(caught))
        self.assertEqual(1, self.downloads.count)
