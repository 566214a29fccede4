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

"""The certificate and the key of a server that speaks TLS."""

import dataclasses
import pathlib
import ssl
from typing import NoReturn


class TlsError(Exception):
    """Why a certificate and its key cannot be used, in words."""


@dataclasses.dataclass(frozen=True)
class Files:
    """Paths of a certificate and its key, both in PEM."""

    certificate: str
    key: str


def context(files: Files) -> ssl.SSLContext:
    """Return what a server needs for handshakes.

    :raises TlsError: a file can't be read or has something else, the key is
        that of another certificate, or it is encrypted.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        for path in (files.certificate, files.key):
            pathlib.Path(path).open('rb').close()
        made.load_cert_chain(files.certificate, files.key, _refuse_passphrase)
    except ssl.SSLError as error:
        raise TlsError(
            f'{files.certificate} and {files.key} are not a certificate and '
            f'its key in PEM: {error.reason or error}'
        ) from error
    except OSError as error:
        raise TlsError(
            f'cannot read {error.filename}: {error.strerror}'
        ) from error
    except _EncryptedError as error:
        raise TlsError(
            f'the key in {files.key} is encrypted; give one without a '
            'passphrase'
        ) from error
    return made


class _EncryptedError(Exception):
    """A key wants a passphrase."""


def _refuse_passphrase() -> NoReturn:
    # Without this OpenSSL would ask at the terminal.
    raise _EncryptedError
