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


"""Common parts of the storage tests."""

import hashlib
import io

from pypowervm import const
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.tasks import vopt
from pypowervm.wrappers import storage
from pypowervm.wrappers import vios_file
from pypowervm.wrappers import virtual_io_server

from . import base

MAPPINGS = [const.XAG.VIO_SMAP]
GB = 1 << 30


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class StorageTestCase(base.EmulatorTestCase):
    """Provides volume groups and pypowervm's storage tasks."""

    def setUp(self):
        super().setUp()
        # The task keeps the repository of the last test.
        vopt._cur_vios_uuid = vopt._cur_vg_uuid = None

    def vios(self, xag=MAPPINGS):
        """Read and return the only VIOS with its mappings."""
        (found,) = virtual_io_server.VIOS.get(self.adapter, xag=xag)
        return found

    def group(self, name='image_pool'):
        """Read and return a volume group."""
        return tasks.find_vg(self.adapter, name)[1]

    def disk(self, name='disk1', size=2, **options):
        """Create a virtual disk with pypowervm's task."""
        return tasks.crt_vdisk(
            self.adapter,
            self.vios().uuid,
            self.group().uuid,
            name,
            size,
            **options,
        )

    def repository(self, size=1):
        """Create a media repository with pypowervm; return its group."""
        _, uuid = vopt.validate_vopt_repo_exists(
            self.adapter, vopt_media_rep_size=size
        )
        return self.read_group(uuid)

    def read_group(self, uuid):
        return storage.VG.get(
            self.adapter,
            uuid=uuid,
            parent_type=virtual_io_server.VIOS,
            parent_uuid=self.vios().uuid,
        )

    def medium(self, name='cfg.iso', data=b'config drive', **options):
        """Upload a medium; return the reference that the task returns."""
        made, _ = tasks.upload_vopt(
            self.adapter, self.vios().uuid, io.BytesIO(data), name, **options
        )
        return made

    def file(self, udid, name='image', **options):
        """Create the File that announces the upload of a disk image."""
        return vios_file.File.bld(
            self.adapter,
            name,
            vios_file.FileType.DISK_IMAGE,
            self.vios().uuid,
            tdev_udid=udid,
            **options,
        ).create()

    def files(self):
        """Return the Files that have not been deleted."""
        response = self.adapter.read('File', service='web')
        return vios_file.File.wrap(response)

    def upload(self, file, data, **options):
        """Send the contents of a File."""
        return self.adapter.upload_file(
            file.element, io.BytesIO(data), **options
        )

    def map(self, client, element, **options):
        """Map storage to a partition; return the mapping."""
        vios = scsi_mapper.add_vscsi_mapping(
            None, self.vios(), client.uuid, element, **options
        )
        (found,) = scsi_mapper.find_maps(
            vios.scsi_mappings, client.uuid, stg_elem=element
        )
        return found

    def shown(self):
        """Return the VIOS in the control plane's state."""
        (system,) = self.control.state()['systems']
        (vios,) = (
            partition
            for partition in system['partitions']
            if partition['kind'] == 'VirtualIOServer'
        )
        return vios

    def shown_group(self, name='image_pool'):
        """Return a volume group in the control plane's state."""
        (found,) = (
            group
            for group in self.shown()['volume_groups']
            if group['name'] == name
        )
        return found
