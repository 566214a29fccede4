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

"""Images that are signed, and verified by Nova's own code."""

import base64
import datetime

import fixtures
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import oid
from cursive import exception as cursive_exception
from cursive import signature_utils
from nova.image import glance
from oslo_utils import uuidutils

_HASH = hashes.SHA256()
_BITS = 2048


class Signer:
    """Somebody who signs images with a certificate of his own.

    :ivar uuid: That of the certificate in the key manager.
    """

    def __init__(self):
        self.uuid = uuidutils.generate_uuid()
        self._key = rsa.generate_private_key(65537, _BITS)
        self.certificate = self._certify()

    def _certify(self):
        name = x509.Name(
            [x509.NameAttribute(oid.NameOID.COMMON_NAME, self.uuid)]
        )
        now = datetime.datetime.now(datetime.UTC)
        usage = dict.fromkeys(
            (
                'digital_signature',
                'content_commitment',
                'key_encipherment',
                'data_encipherment',
                'key_agreement',
                'crl_sign',
                'encipher_only',
                'decipher_only',
            ),
            False,
        )
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(True, 0), critical=True)
            .add_extension(
                x509.KeyUsage(key_cert_sign=True, **usage), critical=True
            )
            .sign(self._key, _HASH)
        )

    def sign(self, data):
        """Return the properties of an image with these bytes."""
        pss = padding.PSS(padding.MGF1(_HASH), padding.PSS.MAX_LENGTH)
        signature = self._key.sign(data, pss, _HASH)
        return {
            'architecture': 'ppc64le',
            'img_signature': base64.b64encode(signature).decode(),
            'img_signature_hash_method': 'SHA-256',
            'img_signature_key_type': 'RSA-PSS',
            'img_signature_certificate_uuid': self.uuid,
        }


class _Bytes:
    """What glanceclient returns for a download."""

    def __init__(self, data):
        self.wrapped = [data]

    def __iter__(self):
        return iter(self.wrapped)


class VerifyingGlance(fixtures.Fixture):
    """Has Nova verify what it downloads from its fixture of Glance.

    :param known: Nova's fixture.
    :param signers: Those whose certificates are in the key manager.
    :ivar trusted: The ids of trusted certificates, by download.
    """

    def __init__(self, known, *signers):
        super().__init__()
        self._glance = known
        self._certificates = {one.uuid: one.certificate for one in signers}
        self.trusted = []

    def _setUp(self):
        service = glance.GlanceImageServiceV2(client=self)
        service.show = self._glance.show

        def download(*args, trusted_certs=None, **kwargs):
            self.trusted.append(trusted_certs and trusted_certs.ids)
            return service.download(
                *args, trusted_certs=trusted_certs, **kwargs
            )

        self.useFixture(
            fixtures.MockPatchObject(self._glance, 'download', download)
        )
        self.useFixture(
            fixtures.MockPatchObject(
                signature_utils, 'get_certificate', self._get_certificate
            )
        )

    def call(self, context, version, method, args):
        """Send a request to Glance, as Nova's client of it does."""
        return _Bytes(self._glance._imagedata[args[0]])

    def _get_certificate(self, context, uuid):
        try:
            return self._certificates[uuid]
        except KeyError as error:
            raise cursive_exception.SignatureVerificationError(
                reason=f'Certificate not found with ID: {uuid}'
            ) from error
