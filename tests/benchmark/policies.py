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

"""Finding the paragraph of each slot, beside nova's own device specs."""

import time

from nova.pci import devspec

from nova_powervm.devices import matching
from nova_powervm.devices import policy
from nova_powervm.devices import slots

SIZES = ((10, 1_000), (100, 1_000), (1_000, 1_000), (1_000, 10_000))
#: Nova's takes minutes: so many devices are measured, the rest reckoned.
_SAMPLE = 200
_IDS = {'vendor_id': 0x10DE, 'device_id': 0x1DB6}


def measure():
    """Give a row for each size: paragraphs, slots, and seconds."""
    return [
        {
            'paragraphs': paragraphs,
            'slots': devices,
            'powervm': _ours(_exact(paragraphs), devices),
            'powervm_wildcards': _ours(_mixed(paragraphs), devices),
            'nova': _theirs(paragraphs, devices),
        }
        for paragraphs, devices in SIZES
    ]


def _exact(number):
    return [
        policy.Paragraph(
            f'p{n}', {'vendor_id': '10DE', 'drc_index': f'{n:08X}'}
        )
        for n in range(number)
    ]


def _mixed(number):
    """Give every tenth paragraph a pattern instead."""
    return [
        policy.Paragraph(
            f'w{n}', {'vendor_id': '10DE', 'drc_name': f'U78*-P{n}-C?'}
        )
        if n % 10 == 0
        else paragraph
        for n, paragraph in enumerate(_exact(number))
    ]


def _ours(paragraphs, number):
    devices = [
        slots.Slot(n, f'U78D2.001-P{n % 50}-C{n % 9}', **_IDS)
        for n in range(number)
    ]
    started = time.thread_time()
    index = matching.ParagraphIndex(paragraphs)
    for device in devices:
        index.identifying(device)
    return time.thread_time() - started


def _theirs(number, devices):
    specs = [
        devspec.PciDeviceSpec(
            {
                'vendor_id': '10de',
                'product_id': '1db6',
                'address': _address(n),
            }
        )
        for n in range(number)
    ]
    sample = [
        {
            'vendor_id': '10de',
            'product_id': '1db6',
            'address': _address(n * devices // _SAMPLE),
        }
        for n in range(_SAMPLE)
    ]
    started = time.thread_time()
    for device in sample:
        # As nova looks: the first that matches.
        next((spec for spec in specs if spec.match(device)), None)
    return (time.thread_time() - started) * devices / _SAMPLE


def _address(number):
    bus, slot = divmod(number, 32)
    domain, bus = divmod(bus, 256)
    return f'{domain:04x}:{bus:02x}:{slot:02x}.0'
