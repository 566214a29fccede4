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

import struct

GIB = 1024**3
#: The incompatible feature of an external data file.
DATA_FILE = 1 << 2

_CLUSTER = 64 * 1024
#: Of one L2 table, whose entries are 8 bytes.
_PER_TABLE = _CLUSTER // 8 * _CLUSTER
_ONLY_ONE = 1 << 63


def qcow2(virtual_size, data=b'', *, features=0, backing=b''):
    """Return a qcow2 image, version 3.

    :param virtual_size: Bytes of the disk that it describes.
    :param data: First bytes of the disk; at most a cluster.
    :param features: Incompatible features.
    :param backing: Name of a backing file.
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
        0,
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
