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

"""Measure what a large image costs on its way to a disk.

``python -m tests.benchmark.images [GIB] [--pool]``: glanceclient reads it over
HTTP from a stand-in of Glance, and the driver's own code sends it to an
emulator: to a volume group, or to a shared storage pool.
Each of the three is a process of its own, so that what is measured is the
driver's.
"""

import argparse
import contextlib
import hashlib
import http.server
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from glanceclient import client as glance_client

from nova_powervm.conf import powervm as options
from nova_powervm.lpar import image
from nova_powervm.lpar import storage
from nova_powervm.ops import images
from nova_powervm.powervm import disk as disk_drivers
from nova_powervm.powervm import session
from nova_powervm.powervm import system
from nova_powervm.powervm.disk import localdisk
from nova_powervm.powervm.disk import ssp
from nova_powervm.virt import glance_images
from powervm_emulator import worlds

MIB = 1024**2
GIB = 1024**3
_LPAR = '4B1C2D3E-0F00-4000-8000-000000000001'
_SECOND = '4B1C2D3E-0F00-4000-8000-000000000002'
_ID = '0f8bd2a4-6c2e-4f0f-9d57-3f1f2a5b7c11'
_CHUNK = 64 * 1024
_EMULATOR = 'from powervm_emulator import main; main.main()'
_PASSWORD = 'abc123'


def main():
    """Measure one image and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument('gib', type=float, nargs='?', default=4.0)
    parser.add_argument('--pool', action='store_true')
    arguments = parser.parse_args()
    gib = arguments.gib
    with tempfile.TemporaryFile() as file, tempfile.TemporaryDirectory() as at:
        # Sparse: reading it costs no disk.
        file.truncate(int(gib * GIB))
        with (
            Process('glance', *_glance(file)) as glance,
            Process('emulator', *_emulator(at)) as emulator,
        ):
            measured = _measured(gib, glance, emulator, arguments.pool)
            _report(gib, measured)
    return 0


class Process:
    """Another process; its first word is its URL.

    :param name: What it is.
    :param process: It.
    :param url: Gives its URL.
    """

    def __init__(self, name, process, url):
        self.name = name
        self._process = process
        self.url = url()
        self.pid = process.pid

    def peak(self):
        """Give the most memory that it had, in bytes."""
        with open(f'/proc/{self.pid}/status') as status:
            (line,) = [line for line in status if line.startswith('VmHWM')]
        return int(line.split()[1]) * 1024

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._process.terminate()


def _glance(file):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context('fork').Process(
        target=_serve, args=(file.fileno(), theirs), daemon=True
    )
    process.start()
    return process, ours.recv


def _serve(number, pipe):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            size = os.fstat(number).st_size
            self.send_response(200)
            self.send_header('Content-Type', 'application/octet-stream')
            self.send_header('Content-Length', str(size))
            self.end_headers()
            # The first reader leaves early.
            with contextlib.suppress(ConnectionError):
                for start in range(0, size, _CHUNK):
                    self.wfile.write(os.pread(number, _CHUNK, start))

        def log_message(self, *_arguments):
            pass

    server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
    pipe.send(f'http://127.0.0.1:{server.server_port}')
    server.serve_forever()


def _emulator(folder):
    world = pathlib.Path(folder, 'world.yaml')
    cluster = {
        'name': 'cloud',
        'nodes': ['vios1'],
        'pool': {'name': 'pool1', 'capacity': 1000},
    }
    world.write_text(json.dumps(worlds.default() | {'clusters': [cluster]}))
    process = subprocess.Popen(
        [sys.executable, '-c', _EMULATOR, '--world', str(world)],
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, lambda: process.stdout.readline().strip()


def _disks(adapter, server, in_pool):
    settings = options.Settings(server=server, volume_group='image_pool')
    managed = system.RestSystem(adapter, server)
    driver = ssp if in_pool else localdisk
    return driver.load(disk_drivers.Context(adapter, managed, settings))


def _measured(gib, glance, emulator, in_pool):
    size = int(gib * GIB)
    client = glance_client.Client('2', glance.url)

    def download(writer):
        # As nova does it, which has verified a hash of its own by MD5 only.
        for chunk in client.images.data(_ID, do_checksum=False):
            writer.write(chunk)

    server = options.Server(
        url=emulator.url,
        username='admin',
        password=_PASSWORD,
        connect_timeout=0,
    )
    adapter = session.connect(server)
    disks = _disks(adapter, server, in_pool)
    described = image.Image(_ID, 'raw', size, 'sha512', _hash_of(size))
    # What is loaded on the way is no part of it.
    small = image.Image(_ID, 'raw', size, 'sha512', '0' * 128)
    images.ImageOps().open(
        small, lambda: glance_images.stream_output(download)
    ).close()
    disks.capacity()
    before = _peak()
    others = [(process.name, process.peak()) for process in (glance, emulator)]
    started, used = time.monotonic(), time.process_time()
    ops = images.ImageOps()
    reading = ops.open(
        described, lambda: glance_images.stream_output(download)
    )
    looked = time.monotonic()
    disk = storage.Disk(storage.UNCOUNTED_ROOT, -(-size // GIB))
    disks.make_root(_LPAR, disk, described, reading.contents, reading)
    figures = {
        'seconds until the image is inspected': looked - started,
        'seconds': time.monotonic() - started,
        'of these on the processor': time.process_time() - used,
        'peak memory before, MiB': before / MIB,
        'peak memory more after it, MiB': (_peak() - before) / MIB,
    }
    if in_pool:
        started = time.monotonic()
        disks.make_root(_SECOND, disk, described, reading.contents, reading)
        figures['seconds for a second disk'] = time.monotonic() - started
    for process, (name, earlier) in zip(
        (glance, emulator), others, strict=True
    ):
        figures[f'the same of the {name}, MiB'] = (
            process.peak() - earlier
        ) / MIB
    adapter.session.close()
    return figures


def _hash_of(size):
    made, zeros = hashlib.sha512(), bytes(MIB)
    for start in range(0, size, MIB):
        made.update(zeros[: size - start])
    return made.hexdigest()


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _report(gib, figures):
    print(f'{gib:g} GiB, load {os.getloadavg()[0]:.1f}')
    for name, figure in figures.items():
        print(f'{name:36}{figure:10.2f}')


if __name__ == '__main__':
    sys.exit(main())
