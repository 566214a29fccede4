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

"""Live migration, refused in a way that leaves the server as it is."""

from nova import exception as nova_exception
from nova.objects import migrate_data


def make_check_data() -> migrate_data.LibvirtLiveMigrateData:
    """Give what the destination's check passes on to the source.

    It travels by RPC, so it has to be a class that nova registers: the base
    class LiveMigrateData is not, nor could one of ours be known to a
    conductor. Of the three that are, nova removed the driver of one and uses
    libvirt's for its own fake driver. Nothing of it is filled in.
    """
    return migrate_data.LibvirtLiveMigrateData()


def refusal(slots: tuple[int, ...]) -> nova_exception.NovaException:
    """Give the error that keeps a server where and as it is.

    :param slots: DRC indexes of the slots that its instance has.
    """
    reason = (
        'the instance has the physical I/O slot(s) '
        f'{", ".join(f"{index:08X}" for index in slots)}, whose state can '
        'not be moved'
        if slots
        else 'live migration is not supported by this driver yet'
    )
    return nova_exception.MigrationPreCheckError(reason=f'PowerVM: {reason}')
