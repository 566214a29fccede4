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

"""What guests of the demonstration boot from and find at run time."""

import base64
import dataclasses
import hashlib
import io
import json
import random
import typing

import pycdlib

#: A well-formed public key without a private key.
PUBLIC_KEY = 'ssh-ed25519 {} demo'.format(
    base64.b64encode(
        b'\0\0\0\x0bssh-ed25519' + b'\0\0\0\x20' + bytes(range(32))
    ).decode()
)

USER_DATA = '#cloud-config\nhostname: demo\n'

_MEBIBYTE = 1024 * 1024


def make_image() -> bytes:
    """Return the contents of an image: always the same two mebibytes."""
    # Not a secret: the contents only have to be recognizable.
    return random.Random(0).randbytes(2 * _MEBIBYTE)  # noqa: S311


def sha256(data: bytes) -> str:
    """Return the SHA-256 of data, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hash_of_disk(algorithm: str, written: bytes, size: int) -> str:
    """Return the hash of all bytes of a disk, in hexadecimal.

    :param written: what was written to its beginning; the rest is zero.
    :param size: that of the disk in bytes.
    """
    digest = hashlib.new(algorithm, written)
    zeros = bytes(_MEBIBYTE)
    for left in range(size - len(written), 0, -_MEBIBYTE):
        digest.update(zeros[:left])
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class ConfigDrive:
    """The data that cloud-init reads from a config drive."""

    meta_data: dict[str, typing.Any]
    user_data: str

    def document(self) -> dict[str, typing.Any]:
        """Return the data that the demonstration compares, as JSON values."""
        return {
            'uuid': self.meta_data.get('uuid'),
            'name': self.meta_data.get('name'),
            'public_keys': self.meta_data.get('public_keys'),
            'locations of devices': sorted(
                device['location']
                for device in self.meta_data.get('devices', ())
                if device['type'] == 'ioslot'
            ),
            'user_data': self.user_data,
        }


def read_config_drive(iso: bytes) -> ConfigDrive:
    """Read a config drive by its Rock Ridge names, as guests do."""
    disc = pycdlib.PyCdlib()
    disc.open_fp(io.BytesIO(iso))
    try:
        return ConfigDrive(
            meta_data=json.loads(_file(disc, 'meta_data.json')),
            user_data=_file(disc, 'user_data').decode(),
        )
    finally:
        disc.close()


def _file(disc: typing.Any, name: str) -> bytes:
    contents = io.BytesIO()
    disc.get_file_from_iso_fp(contents, rr_path=f'/openstack/latest/{name}')
    return contents.getvalue()
