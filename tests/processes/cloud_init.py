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


"""Shows a config drive to cloud-init, as if this were the guest.

A process of its own, without Nova. It reads JSON from standard input: the path
of the ``iso``, and ``names``, which the guest gives to its network interfaces,
by MAC address. It prints what ds-identify chooses (``chosen``), what the data
source reads (``read``), the files that it would write (``injected``), what it
warns of (``warnings``), the network configuration that cloud-init writes for
each kind of distribution (``rendered``), and the files of the medium by their
plain ISO names (``plain``).
"""

import base64
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from cloudinit import distros
from cloudinit import helpers
from cloudinit import util
from cloudinit.net import network_state
from cloudinit.net import renderers
from cloudinit.sources import DataSourceConfigDrive as config_drive

#: Where the packages were unpacked.
_ROOT = pathlib.Path(os.environ['CLOUD_INIT'])
#: What writes the network configuration. One needs options of a distribution;
#: those of others name files of this machine.
_RENDERERS = {
    'netplan': None,
    'eni': None,
    'sysconfig': 'sles',
    'network-manager': None,
    'networkd': None,
}


class Guest:
    """A guest on PowerVM that has the medium and no other disk."""

    def __init__(self, directory, iso):
        self.directory = directory
        self.iso = iso
        (directory / 'bin').mkdir()
        blkid = shutil.which('blkid', path=f'{os.environ["PATH"]}:/usr/sbin')
        self._command('blkid', f'exec {blkid} "$@" {iso}')
        self._command('systemd-detect-virt', 'echo powervm')
        self._command('uname', 'echo Linux guest 6.1 SMP ppc64le GNU/Linux')
        os.environ['BLKID_FILE'] = str(directory / 'blkid.tab')
        os.environ['PATH'] = f'{directory}/bin:{os.environ["PATH"]}'

    def _command(self, name, line):
        path = self.directory / 'bin' / name
        path.write_text(f'#!/bin/sh\n{line}\n')
        path.chmod(0o700)

    def choose(self):
        """Return what ds-identify, which runs at boot, decides."""
        root = self.directory / 'root'
        root.mkdir()
        subprocess.run(
            [_ROOT / 'usr/lib/cloud-init/ds-identify'],
            env=os.environ | {'PATH_ROOT': str(root), 'DI_LOG': 'stderr'},
            check=False,
            capture_output=True,
        )
        return (root / 'run/cloud-init/cloud.cfg').read_text().strip()

    def mount(self, device, callback, **_):
        """Call a function with the files of the medium, by Rock Ridge."""
        assert device == self.iso, device
        isoinfo = [_ROOT / 'usr/bin/isoinfo', '-R', '-i', self.iso]
        paths = _list(isoinfo)
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            for path in paths:
                copy = pathlib.Path(directory) / path.strip('/')
                copy.parent.mkdir(parents=True, exist_ok=True)
                if not any(one.startswith(f'{path}/') for one in paths):
                    copy.write_bytes(
                        subprocess.check_output([*isoinfo, '-x', path])
                    )
            return callback(directory)


def _list(isoinfo):
    """Return all paths of the medium, those of directories as well."""
    listed = subprocess.check_output([*isoinfo, '-f'], text=True)
    return listed.splitlines()


def plain_files(iso):
    """Return the files whose names a system without Rock Ridge sees."""
    isoinfo = [_ROOT / 'usr/bin/isoinfo', '-i', iso]
    return {
        path: _base64(subprocess.check_output([*isoinfo, '-x', path]))
        for path in _list(isoinfo)
        if ';' in path
    }


def source_of(guest, written):
    """Return cloud-init's data source once it has read the medium."""
    util.mount_cb = guest.mount
    config_drive.write_injected_files = written.update
    paths = helpers.Paths({'cloud_dir': str(guest.directory / 'cloud')})
    source = config_drive.DataSourceConfigDrive({}, None, paths)
    if not source._get_data():
        raise RuntimeError('cloud-init found no config drive')
    return source


def rendered(configuration, directory):
    """Return the files of each renderer, by path."""
    found = {}
    for name, distribution in _RENDERERS.items():
        options = (
            distros.fetch(distribution).renderer_configs[name]
            if distribution
            else {}
        )
        target = directory / name
        target.mkdir()
        renderers.NAME_TO_RENDERER[name].Renderer(
            # It must not run commands here.
            options | {'postcmds': False}
        ).render_network_state(
            network_state.parse_net_config_data(configuration),
            target=str(target),
        )
        found[name] = {
            str(path.relative_to(target)): path.read_text()
            for path in target.rglob('*')
            if path.is_file()
        }
    return found


def _base64(data):
    return base64.b64encode(data).decode()


class Warnings(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


def main():
    """Answer the request."""
    request = json.load(sys.stdin)
    warnings = Warnings()
    logging.getLogger().addHandler(warnings)
    written = {}
    with tempfile.TemporaryDirectory() as directory:
        guest = Guest(pathlib.Path(directory), request['iso'])
        chosen = guest.choose()
        source = source_of(guest, written)
        source.known_macs = request['names']
        json.dump(
            {
                'chosen': chosen,
                'read': {
                    'instance_id': source.get_instance_id(),
                    'keys': source.get_public_ssh_keys(),
                    'user_data': _base64(source.get_userdata_raw()),
                },
                'injected': {
                    path: _base64(data) for path, data in written.items()
                },
                'plain': plain_files(guest.iso),
                'rendered': rendered(source.network_config, guest.directory),
                'warnings': warnings.found,
            },
            sys.stdout,
        )


if __name__ == '__main__':
    main()
