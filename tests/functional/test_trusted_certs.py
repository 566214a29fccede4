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

"""A server with trusted certificates gets only what they have signed.

Nova's own code verifies. What is cached or remembered on a host is tested in
``tests.ops.test_build_disks``.
"""

import hashlib

from tests import proofs
from tests.functional import one_time_use
from tests.functional import signed_images

DATA = b'\x01boot sector' + bytes(300_000)
GROUP = one_time_use.gpu_group()


class TrustedCertificatesTest(one_time_use.OneTimeUseTestCase):
    """One host, and one certificate that servers trust."""

    def setUp(self):
        super().setUp()
        self.ours, self.theirs = signed_images.Signer(), signed_images.Signer()
        self.verifying = self.useFixture(
            signed_images.VerifyingGlance(self.glance, self.ours, self.theirs)
        )
        self.start_host()

    def test_servers_get_verified_images(self):
        self.tell_stories()

    def forget(self):
        """Release what a story has burned."""
        super().forget()
        self.release_all()
        self._run_periodics()

    def image_of(self, signer, signed=DATA):
        """Create an image, with the signature of these bytes."""
        return self.create_image(DATA, properties=signer.sign(signed))

    def boot_trusting(self, image, expected='ACTIVE'):
        """Boot a server that trusts our certificate."""
        return self.boot(
            GROUP,
            expected,
            image,
            disk=1,
            request={'trusted_image_certificates': [self.ours.uuid]},
        )

    def assert_disk(self):
        """Assert that the only disk has the image's bytes."""
        (disk,) = self.disks()
        self.assertEqual(hashlib.sha256(DATA).hexdigest(), disk['sha256'])

    @proofs.proves('operation.trusted-certs')
    def story_images_with_bad_signatures_build_and_burn_nothing(self):
        for image, words in (
            (
                self.image_of(self.theirs),
                'Image signature certificate validation failed for',
            ),
            (
                self.image_of(self.ours, b'other bytes'),
                'Image signature verification failed',
            ),
            (self.image, 'Signature verification for the image failed'),
        ):
            server = self.boot_trusting(image, 'ERROR')

            self.assertIn(words, server['fault']['message'])
            self.assertIsNone(self.lpar(server))
            self.assertEqual([], self.disks())
            self.assert_burned()
            self.wait_until_unallocated(server)

    @proofs.proves('operation.trusted-certs')
    def story_rebuild_with_bad_signature_changes_nothing(self):
        image = self.image_of(self.ours)
        server = self.boot_trusting(image)
        self.assert_disk()
        self.assertEqual([[self.ours.uuid]], self.verifying.trusted)

        for certificate, refused, words in (
            (
                self.ours,
                self.image_of(self.ours, b''),
                'signature verification failed',
            ),
            # Even for an image that this service has just read.
            (self.theirs, image, 'certificate validation failed for'),
        ):
            reason = self.refuse_rebuild(
                server,
                refused,
                trusted_image_certificates=[certificate.uuid],
            )

            self.assertIn(words, reason)
            self.assertEqual('running', self.lpar(server).state)
            self.assert_disk()
