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

"""A certificate that signs itself, for a server that clients verify."""

import datetime
import ipaddress
import os
import pathlib
import socket
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from powervm_emulator import tls

_ALWAYS = ('localhost', '127.0.0.1')
_LIFE = datetime.timedelta(days=365)
# Clocks of clients in virtual machines are often behind.
_EARLIER = datetime.timedelta(days=1)


def make(folder: pathlib.Path, address: str) -> tls.Files:
    """Make a certificate that signs itself, and its key.

    Clients verify the server with the certificate as their only authority.

    :param folder: of the files; only this user can read the key.
    :param address: what the server listens on.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    files = tls.Files(str(folder / 'certificate.pem'), str(folder / 'key.pem'))
    _write(
        files.key,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    certificate = _certificate(key, names(address))
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    pathlib.Path(files.certificate).write_bytes(pem)
    return files


def names(address: str) -> list[str]:
    """Return the names and addresses that clients can give to a server.

    :param address: what it listens on; beside that the loopback address is
        one, and the name of the machine if the address is that of all
        interfaces.
    """
    found = [address, *_ALWAYS]
    if _is_wildcard(address):
        found = [socket.gethostname(), *_ALWAYS, '::1']
    return list(dict.fromkeys(found))


def _certificate(
    key: ec.EllipticCurvePrivateKey, served: Iterable[str]
) -> x509.Certificate:
    name = x509.Name(
        [x509.NameAttribute(oid.NameOID.COMMON_NAME, 'powervm-emulator')]
    )
    now = datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFE)
    )
    usage = {
        'digital_signature': True,
        'key_cert_sign': True,
        'content_commitment': False,
        'key_encipherment': False,
        'data_encipherment': False,
        'key_agreement': False,
        'crl_sign': False,
        'encipher_only': False,
        'decipher_only': False,
    }
    for extension, critical in (
        (x509.SubjectAlternativeName(map(_general_name, served)), False),
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.KeyUsage(**usage), True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
    ):
        builder = builder.add_extension(extension, critical)
    return builder.sign(key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    address = _address(name)
    return x509.IPAddress(address) if address else x509.DNSName(name)


def _is_wildcard(name: str) -> bool:
    address = _address(name)
    return name == '' or (address is not None and address.is_unspecified)


def _address(
    name: str,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _write(path: str, data: bytes) -> None:
    """Write a file that only this user can read, from its first moment."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(number, 'wb') as file:
        file.write(data)
