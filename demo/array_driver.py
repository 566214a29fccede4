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

"""The driver by which Cinder uses the storage array of the demonstration.

It is Cinder's own driver for such arrays, but commands go to the simulator in
place of a secure shell, and images are copied to and from the files that have
the bytes of volumes: there is no host that could attach them.
"""

import json
import os
import pathlib
import typing

from cinder import exception
from cinder import utils
from cinder.volume.drivers.ibm.storwize_svc import storwize_svc_fc
from oslo_config import cfg

from demo import array_evidence
from demo import array_shell
from demo import storage_array
from powervm_emulator import client

OPTIONS = (
    cfg.URIOpt('emulator_url', help='The emulator of one of the hosts.'),
    cfg.StrOpt('volume_directory', help='Where the bytes of volumes are.'),
    cfg.StrOpt('fabric', help='The fabric that the array is in.'),
    cfg.PortOpt('shell_port', help='Where the array takes commands.'),
)

_RAW = 'raw'
# Cinder's driver looks every three seconds how far a FlashCopy is.
_SECONDS = 0.1


class ArrayDriver(storwize_svc_fc.StorwizeSVCFCDriver):
    """Volumes on the simulated array, by Fibre Channel."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTIONS)
        self._directory = pathlib.Path(self.configuration.volume_directory)
        self._emulator = client.Client(self.configuration.emulator_url)
        self._array = storage_array.Array(
            self.configuration.storwize_svc_volpool_name,
            self._directory,
            self.configuration.fabric,
            self._tell,
        )
        self._helpers.check_fcmapping_interval = _SECONDS
        array_shell.serve(
            lambda words: self._array.execute_command(words, False),
            self.configuration.shell_port,
        )

    def _tell(self, described: dict[str, typing.Any]) -> None:
        """Let the array be in the network of the emulated hosts."""
        self._emulator.set_san([described])
        path = self._directory / array_evidence.DESCRIPTION
        draft = path.with_suffix('.new')
        draft.write_text(json.dumps(described, indent=2) + '\n')
        os.replace(draft, path)

    def _run_ssh(
        self,
        cmd_list: list[str],
        check_exit_code: bool = True,
        attempts: int = 1,
    ) -> tuple[str, str]:
        """Run a command of the array."""
        utils.check_ssh_injection(cmd_list)
        return self._array.execute_command(cmd_list, check_exit_code)

    def clone_image(
        self,
        context: typing.Any,
        volume: typing.Any,
        image_location: typing.Any,
        image_meta: dict[str, typing.Any],
        image_service: typing.Any,
    ) -> tuple[dict[str, typing.Any], bool]:
        """Make a volume from an image.

        Without this, Cinder looks at the image with qemu-img, which need not
        be installed.
        """
        _check_format(image_meta)
        update = self.create_volume(volume)
        self.copy_image_to_volume(
            context, volume, image_service, image_meta['id']
        )
        return update, True

    def copy_image_to_volume(
        self,
        context: typing.Any,
        volume: typing.Any,
        image_service: typing.Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Write the bytes of a raw image to a volume."""
        with self._array.file(volume.name).open('wb') as file:
            image_service.download(context, image_id, file)

    def copy_volume_to_image(
        self,
        context: typing.Any,
        volume: typing.Any,
        image_service: typing.Any,
        image_meta: dict[str, typing.Any],
    ) -> None:
        """Upload all bytes of a volume as a raw image."""
        _check_format(image_meta)
        with self._array.file(volume.name).open('rb') as file:
            padded = _Padded(file, self._array.size(volume.name))
            image_service.update(context, image_meta['id'], {}, padded)


class _Padded:
    """A file that has a size, and zeros where nothing was written.

    :param file: what was written.
    :param size: in bytes.
    """

    def __init__(self, file: typing.BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end."""
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted).ljust(wanted, b'\0')
        self._left -= wanted
        return data


def _check_format(image: dict[str, typing.Any]) -> None:
    """Refuse an image that would have to be converted.

    :raises exception.ImageUnacceptable: it is not raw.
    """
    if image['disk_format'] != _RAW:
        raise exception.ImageUnacceptable(
            image_id=image['id'],
            reason=f'the array has no qemu-img for {image["disk_format"]}',
        )
