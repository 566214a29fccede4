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

"""Reads the host's REST API without pypowervm or the driver."""

import dataclasses
import http.client
import urllib.parse

from lxml import etree

_WEB = 'application/vnd.ibm.powervm.web+xml; type='
_UOM = 'application/vnd.ibm.powervm.uom+xml; type='
_LOGON = (
    '<LogonRequest xmlns="http://www.ibm.com/xmlns/systems/power/firmware/'
    'web/mc/2012_10/" schemaVersion="V1_0"><UserID>{}</UserID>'
    '<Password>{}</Password></LogonRequest>'
)


@dataclasses.dataclass(frozen=True)
class Lpar:
    """The values of a LogicalPartition entry."""

    uuid: str
    name: str
    state: str
    memory_mb: int
    vcpus: int
    proc_units: float
    slots: dict[int, bool]


@dataclasses.dataclass(frozen=True)
class Slot:
    """The values of an IOSlot of the ManagedSystem."""

    drc_index: int
    drc_name: str
    owner: str | None


class Host:
    """Reads one REST server.

    :param url: http://host:port
    """

    def __init__(self, url, username, password):
        self._netloc = urllib.parse.urlsplit(url).netloc
        self._credentials = (username, password)

    def lpars(self):
        """Return all partitions except VIOSes, by upper-case uuid."""
        feed = self._get('/rest/api/uom/LogicalPartition')
        found = map(_lpar, feed.iterfind('.//{*}LogicalPartition'))
        return {lpar.uuid: lpar for lpar in found}

    def lpar_text(self, uuid, place):
        """Return the text of an element of an LPAR.

        :param place: Its name, below those of the elements that it is in.
        """
        entry = self._get(f'/rest/api/uom/LogicalPartition/{uuid}')
        steps = '/'.join(f'{{*}}{name}' for name in place.split('/'))
        return entry.findtext(f'.//{steps}')

    def set_lpar_text(self, uuid, name, text):
        """Change the only element of a name in the document of an LPAR."""
        path = f'/rest/api/uom/LogicalPartition/{uuid}'
        entry = self._get(path)
        lpar = entry.find('.//{*}LogicalPartition')
        lpar.find(f'.//{{*}}{name}').text = text
        self._request(
            'POST',
            path,
            etree.tostring(lpar),
            {
                'X-API-Session': self._log_on(),
                'Content-Type': _UOM + 'LogicalPartition',
                'If-Match': entry.findtext('.//{*}etag'),
            },
        )

    def slots(self):
        """Return all I/O slots of the system, by DRC index."""
        feed = self._get('/rest/api/uom/ManagedSystem')
        found = map(_slot, feed.iterfind('.//{*}IOSlots/{*}IOSlot'))
        return {slot.drc_index: slot for slot in found}

    def files(self):
        """Return the names of the Files."""
        feed = self._get('/rest/api/web/File')
        return [name.text for name in feed.iterfind('.//{*}Filename')]

    def disk_formats(self, vios, group):
        """Return FileFormat of each disk of a volume group, by its name."""
        path = f'/rest/api/uom/VirtualIOServer/{vios}/VolumeGroup/{group}'
        return {
            disk.findtext('{*}DiskName'): disk.findtext('{*}FileFormat')
            for disk in self._get(path).iterfind('.//{*}VirtualDisk')
        }

    def system(self):
        """Return the bytes of the ManagedSystem feed."""
        return etree.tostring(self._get('/rest/api/uom/ManagedSystem'))

    def _log_on(self):
        # Log on each time, because tests end all sessions.
        document = self._request(
            'PUT',
            '/rest/api/web/Logon',
            _LOGON.format(*self._credentials),
            {'Content-Type': _WEB + 'LogonRequest'},
        )
        return document.findtext('.//{*}X-API-Session')

    def _get(self, path):
        headers = {'X-API-Session': self._log_on()}
        return self._request('GET', path, None, headers)

    def _request(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self._netloc, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status == 204:
            # A feed without entries.
            return etree.Element('feed')
        if response.status != 200:
            raise AssertionError(f'{response.status} {path}: {content!r}')
        return etree.fromstring(content)


def _lpar(element):
    shared = './/{*}SharedProcessorConfiguration/{*}'
    return Lpar(
        uuid=element.findtext('{*}PartitionUUID').upper(),
        name=element.findtext('{*}PartitionName'),
        state=element.findtext('{*}PartitionState'),
        memory_mb=int(element.findtext('.//{*}DesiredMemory') or 0),
        vcpus=int(element.findtext(f'{shared}DesiredVirtualProcessors') or 0),
        proc_units=float(
            element.findtext(f'{shared}DesiredProcessingUnits') or 0
        ),
        slots={
            int(slot.findtext(f'.//{{*}}{_INDEX}')): (
                slot.findtext('{*}IsRequired') == 'true'
            )
            for slot in element.iterfind('.//{*}ProfileIOSlot')
        },
    )


def _slot(element):
    owner = element.findtext('{*}PartitionUUID')
    return Slot(
        drc_index=int(element.findtext(f'{{*}}{_INDEX}')),
        drc_name=element.findtext(
            '{*}SlotDynamicReconfigurationConnectorName'
        ),
        owner=owner.upper() if owner else None,
    )


_INDEX = 'SlotDynamicReconfigurationConnectorIndex'
