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

"""Images written by tests, and a recorder of Glance downloads."""

import hashlib
import struct

GIB = 1024**3
#: The incompatible feature of an external data file.
DATA_FILE = 1 << 2

_CLUSTER = 64 * 1024
#: Of one L2 table, whose entries are 8 bytes.
_PER_TABLE = _CLUSTER // 8 * _CLUSTER
_ONLY_ONE = 1 << 63
#: As much as is sent at once.
_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)


def qcow2(virtual_size, data=b'', *, features=0, backing=b'', crypt=0):
    """Return a qcow2 image, version 3.

    :param virtual_size: Bytes of the disk that it describes.
    :param data: First bytes of the disk; at most a cluster.
    :param features: Incompatible features.
    :param backing: Name of a backing file.
    :param crypt: How its disk is encrypted: 0 not, 1 by AES, 2 by LUKS.
    """
    tables = -(-virtual_size // _PER_TABLE)
    header = struct.pack(
        '>4sIQIIQIIQQIIQQQQII',
        b'QFI\xfb',
        3,
        # Its name follows the header and the end of the extensions.
        112 if backing else 0,
        len(backing),
        16,
        virtual_size,
        crypt,
        tables,
        3 * _CLUSTER,
        _CLUSTER,
        1,
        0,
        0,
        features,
        0,
        0,
        4,
        104,
    )
    clusters = [
        header + bytes(8) + backing,
        struct.pack('>Q', 2 * _CLUSTER),
        struct.pack('>6H', *[1] * 6),
        struct.pack('>Q', 4 * _CLUSTER | _ONLY_ONE),
        struct.pack('>Q', 5 * _CLUSTER | _ONLY_ONE),
        data,
    ]
    return b''.join(cluster.ljust(_CLUSTER, b'\0') for cluster in clusters)


class Downloads:
    """Counts downloads from nova's Glance fixture, and can replace one.

    :param glance: Nova's fixture.
    """

    def __init__(self, glance):
        self._download = glance.download
        glance.download = self
        self.forget()

    def forget(self):
        """Reset the count and replace no download."""
        self._meddlers = {}
        self.count = 0

    def meddle(self, nth, function):
        """Call a function in place of the nth download.

        :param function: Takes a writer, and the function that downloads.
        """
        self._meddlers[nth] = function

    def __call__(self, context, image_id, data, **rest):
        self.count += 1

        def download():
            self._download(context, image_id, data, **rest)

        function = self._meddlers.get(self.count)
        return function(data, download) if function else download()


class Uploads:
    """Takes what is uploaded to nova's Glance fixture, as Glance does.

    :param glance: Nova's fixture, which ignores it.
    :ivar written: The bytes of each image without the zeros after the last
        other one, by its id.
    :ivar on_read: Is called with the number of the bytes that were read.
    """

    def __init__(self, glance):
        self._create, self._detail = glance.create, glance.detail
        self._update, self._download = glance.update, glance.download
        self._show = glance.show
        glance.create, glance.detail = self._queue, self._find
        glance.update, glance.download = self._upload, self._send
        self.written = {}
        self.on_read = lambda number: None

    def _queue(self, context, metadata, data=None):
        status = 'queued' if data is None else 'active'
        return self._create(context, {'status': status} | metadata, data)

    def _find(self, context, filters=None, **rest):
        """Return images with given properties, the newest one first."""
        wanted = {
            (name.removeprefix('property-'), value)
            for name, value in (filters or {}).items()
        }
        return [
            found
            for found in reversed(self._detail(context))
            if wanted <= {*found['properties'].items()}
        ]

    def _upload(self, context, image_id, metadata, data=None, **rest):
        found = self._update(context, image_id, metadata, **rest)
        if data is None:
            return found
        return self._update(context, image_id, self._take(image_id, data))

    def _take(self, image_id, data):
        found = hashlib.sha512()
        size, written = 0, b''
        while chunk := data.read(_CHUNK):
            found.update(chunk)
            if chunk != _ZEROS[: len(chunk)]:
                written = written.ljust(size, b'\0') + chunk.rstrip(b'\0')
            size += len(chunk)
            self.on_read(size)
        self.written[image_id] = written
        return {
            'size': size,
            'status': 'active',
            'os_hash_algo': 'sha512',
            'os_hash_value': found.hexdigest(),
        }

    def _send(self, context, image_id, data=None, **rest):
        """Send what was uploaded, or what the fixture has."""
        if image_id not in self.written:
            self._download(context, image_id, data, **rest)
            return
        size = self._show(context, image_id)['size']
        written = self.written[image_id]
        for start in range(0, size, _CHUNK):
            length = min(_CHUNK, size - start)
            data.write(written[start : start + length].ljust(length, b'\0'))
