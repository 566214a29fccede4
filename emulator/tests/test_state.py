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

"""A file keeps the state over restarts, also of a process that is killed."""

import copy
import json
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

import yaml
from lxml import etree
from pypowervm import adapter as pvm_adapter
from pypowervm import exceptions
from pypowervm.tasks import scsi_mapper
from pypowervm.tasks import storage as tasks
from pypowervm.tasks.monitor import util
from pypowervm.wrappers import logical_partition as lpar
from pypowervm.wrappers import network
from pypowervm.wrappers import vios_file
from pypowervm.wrappers import virtual_io_server

from powervm_emulator import app
from powervm_emulator import client
from powervm_emulator.core import resource
from powervm_emulator.nouns import file as file_module
from powervm_emulator.state import keeper as keeper_module
from powervm_emulator.state import resources

from . import base
from . import facts
from . import pools
from . import san
from . import test_process


def adapter_for(url):
    """Log on to the emulator at a URL."""
    session = pvm_adapter.Session(
        *('127.0.0.1', 'admin', 'abc123'),
        protocol='http',
        port=int(url.rpartition(':')[2]),
        certpath=None,
    )
    return pvm_adapter.Adapter(session)


class StateTestCase(test_process.CommandTestCase):
    def setUp(self):
        super().setUp()
        base.quieten(self)
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.state = self.folder / 'state'

    def start_state(self, *arguments):
        """Start an emulator that keeps its state; set its process and URL."""
        self.process, self.url = self.start(
            '--state', str(self.state), *arguments
        )
        self.control = client.Client(self.url)

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def restart(self):
        """Kill the emulator and start it again with its state."""
        self.kill()
        self.start_state()

    def logon(self, url=None):
        adapter = adapter_for(url or self.url)
        self.addCleanup(base.forget, adapter.session)
        return adapter

    def world(self, world):
        """Write a world to a file; return its path."""
        file = self.folder / f'world{len(list(self.folder.iterdir()))}.yaml'
        file.write_text(yaml.safe_dump(world))
        return str(file)


class KilledTest(StateTestCase):
    def change(self, adapter):
        """Change a bit of everything, as a compute driver does."""
        helper = base.EmulatorTestCase()
        helper.adapter = adapter
        made = helper.create('vm1', [base.GPUS[0]])
        vswitch = network.VSwitch.get(adapter, parent=helper.system())[0]
        network.CNA.bld(
            adapter, 7, vswitch.related_href, mac_addr='020000000001'
        ).create(parent=made)
        (vios,) = virtual_io_server.VIOS.get(adapter)
        disk = tasks.crt_vdisk(
            adapter,
            vios.uuid,
            tasks.find_vg(adapter, 'image_pool')[1].uuid,
            'disk1',
            2,
        )
        scsi_mapper.add_vscsi_mapping(None, vios.uuid, made.uuid, disk)
        util.ensure_ltm_monitors(adapter, helper.system().uuid)
        return made.uuid

    def test_killed_emulator_starts_with_all_answered_changes(self):
        self.start_state()
        adapter = self.logon()
        self.change(adapter)
        before = facts.read(adapter)
        self.restart()
        self.maxDiff = 2000
        self.assertEqual(before, facts.read(self.logon()))

    def test_change_is_in_the_file_before_its_answer(self):
        self.start_state()
        (found,) = lpar.LPAR.search(self.logon(), name='archive')
        found.name = 'renamed'
        found.update()
        self.kill()
        kept = json.loads(self.state.read_text().partition('\n')[2])
        resources = str(kept['hosts'][0]['resources'][1:])
        self.assertIn('>renamed</PartitionName>', resources)

    def test_changes_of_control_plane_are_kept(self):
        self.start_state()
        self.control.set_owner('21010020', 'archive')
        self.control.power_off_system()
        self.restart()
        state = self.control.state()
        self.assertFalse(state['powered_on'])
        owners = {
            slot['drc_index']: slot['owner']
            for slot in state['systems'][0]['slots']
        }
        self.assertEqual('archive', owners['21010020'])
        self.control.power_on_system()
        states = {
            one['name']: one['state']
            for one in self.control.state()['systems'][0]['partitions']
        }
        self.assertEqual('running', states['vios1'])

    def test_owners_that_the_system_does_not_report_are_kept(self):
        world = copy.deepcopy(pools.WORLD)
        del world['clusters']
        world['hmc'] = 'V10R3'
        world['systems'][0] |= {
            'reports_slot_owners': False,
            'slots': [{'drc_index': '21010020', 'owner': 'novalink'}],
        }
        self.start_state('--world', self.world(world))
        before = self.control.state()
        self.assertEqual('novalink', before['systems'][0]['slots'][0]['owner'])
        self.restart()
        self.assertEqual(before, self.control.state())
        # The world was that of an HMC.
        self.assertEqual('HMC', self.logon().session.mc_type)

    def test_arrays_ports_and_disks_are_kept(self):
        self.start_state('--world', self.world(san.world()))
        self.control.set_san([san.array()])
        helper = san.SanTestCase()
        helper.adapter = self.logon()
        helper.look()
        self.restart()
        helper.adapter = self.logon()
        self.assertEqual(['hdisk0'], list(helper.volumes()))
        self.assertEqual(('3', 'hdisk0', san.UDID), helper.look('vios2'))

    def test_reset_goes_back_to_the_world_of_the_first_start(self):
        self.start_state('--world', self.world(pools.WORLD))
        before = self.control.state()
        self.control.set_partition('vios1', state='not activated')
        self.restart()
        self.control.reset()
        self.assertEqual(before, self.control.state())

    def test_etags_of_before_are_good_and_new_uuids_differ(self):
        self.start_state()
        known = json.dumps(self.control.state()).lower()
        before = [one.etag for one in lpar.LPAR.get(self.logon())]
        self.restart()
        helper = base.EmulatorTestCase()
        helper.adapter = self.logon()
        after = [one.etag for one in lpar.LPAR.get(helper.adapter)]
        self.assertEqual(before, after)
        self.assertNotIn(helper.create('vm1').uuid.lower(), known)

    def test_later_revision_has_none_of_the_etags_of_before(self):
        self.start_state()
        seen = set()
        (found,) = lpar.LPAR.search(self.logon(), name='archive')
        for number in range(30):
            found.name = f'archive{number}'
            found = found.update()
            seen.add(found.etag)
        self.assertEqual(30, len(seen))
        self.restart()
        (found,) = lpar.LPAR.search(self.logon(), name='archive29')
        found.name = 'again'
        self.assertNotIn(found.update().etag, seen)

    def test_sessions_and_uploads_are_not_kept(self):
        self.start_state()
        adapter = self.logon()
        (vios,) = virtual_io_server.VIOS.get(adapter)
        group = tasks.find_vg(adapter, 'image_pool')[1]
        disk = tasks.crt_vdisk(adapter, vios.uuid, group.uuid, 'disk1', 1)
        kind = vios_file.FileType.DISK_IMAGE
        vios_file.File.bld(
            adapter, 'image', kind, vios.uuid, tdev_udid=disk.udid
        ).create()
        token = adapter.session._sessToken
        self.kill()
        self.assertNotIn(token, self.state.read_text())
        self.start_state()
        self.assertEqual(0, self.control.state()['sessions'])
        feed = self.logon().read('File', service='web').feed
        self.assertEqual([], feed.entries)


class SiteTest(StateTestCase):
    def start_site(self, *arguments):
        """Start a site of two hosts; return their URLs."""
        self.start_state(*arguments)
        return [self.url, self.process.stdout.readline().strip()]

    def test_file_keeps_all_hosts_and_their_pool(self):
        image = {'name': 'image', 'capacity': 1, 'type': 'image'}
        arguments = []
        for serial in ('EMU0001', 'EMU0002'):
            world = pools.world(logical_units=[image])
            world['systems'][0]['serial'] = serial
            arguments += ['--world', self.world(world)]
        urls = self.start_site(*arguments)
        made = pools.Client(self.logon(urls[0]))
        tasks.crt_lu(made.tier(), 'disk', 2)
        before = [facts.read(self.logon(url)) for url in urls]
        self.kill()
        urls = self.start_site()
        after = [facts.read(self.logon(url)) for url in urls]
        self.maxDiff = 2000
        self.assertEqual(before, after)
        # They share the pool, and do not each have one.
        tasks.crt_lu(pools.Client(self.logon(urls[1])).tier(), 'new', 1)
        units = pools.Client(self.logon(urls[0])).pool().logical_units
        self.assertEqual(
            {'image', 'disk', 'new'}, {unit.name for unit in units}
        )


class RefusalTest(StateTestCase):
    def assert_refused(self, words, *arguments):
        """Assert that the emulator does not start and keeps the file."""
        before = self.state.read_bytes()
        self.assert_no_start(words, self.state, *arguments)
        self.assertEqual(before, self.state.read_bytes())

    def assert_no_start(self, words, state, *arguments):
        status, _, said = test_process.run('--state', str(state), *arguments)
        self.assertEqual(1, status, said)
        self.assertRegex(said, words)

    def test_file_of_another_kind_or_in_missing_folder_is_refused(self):
        for content, words in (
            (b'alias ll="ls -l"\n', 'is no state file of this program'),
            (b'', 'is no state file of this program'),
            (bytes(range(256)), 'state'),
        ):
            with self.subTest(content):
                self.state.write_bytes(content)
                self.assert_refused(words)
        state = self.folder / 'no' / 'state'
        self.assert_no_start('No such file or directory', state)

    def test_file_of_another_version_or_damaged_or_in_use_is_refused(self):
        self.start_state()
        self.assert_refused('another emulator uses the state file')
        self.kill()
        text = self.state.read_text()
        for changed, words in (
            (
                text.replace('state 4 ', 'state 5 ', 1),
                'has version 5, and this program reads version 4',
            ),
            (text[:-1], 'is damaged'),
            (text.replace('archive', 'Archive', 1), 'is damaged'),
        ):
            with self.subTest(words):
                self.state.write_text(changed)
                self.assert_refused(words)
        self.state.write_text(text)
        world = ('--world', self.world(pools.WORLD))
        words = 'has 1 hosts, and there are 2 worlds'
        self.assert_refused(words, *world, *world)

    def test_file_that_describes_no_host_is_refused(self):
        keeper = keeper_module.Keeper(str(self.state))
        keeper._write('{"hosts": [{}], "shared": [], "revision": 0}')
        keeper.close()
        self.assert_refused('cannot be loaded')


class KeeperTest(unittest.TestCase):
    """The file itself, in this process."""

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(folder, 'state')
        self.application = app.make_app(seed=3)
        self.addCleanup(self.application.close)
        self.keeper = keeper_module.Keeper(str(self.path))
        self.addCleanup(self.keeper.close)
        self.keeper.begin([self.application.emulation])

    def test_file_is_private_and_unchanged_by_save_without_change(self):
        before = self.path.stat()
        self.assertEqual(0o600, stat.S_IMODE(before.st_mode))
        self.keeper.save()
        after = self.path.stat()
        self.assertEqual(
            (before.st_mtime_ns, before.st_ino),
            (after.st_mtime_ns, after.st_ino),
        )

    def test_file_is_on_disk_before_it_replaces_the_former_one(self):
        done = []
        sync, replace = os.fsync, pathlib.Path.replace

        def note_sync(number):
            done.append('sync')
            sync(number)

        def note_replace(path, target):
            done.append('replace')
            return replace(path, target)

        self.application.control.set_owner('21010020', 'archive')
        with (
            mock.patch('os.fsync', note_sync),
            mock.patch('pathlib.Path.replace', note_replace),
        ):
            self.keeper.save()
        self.assertEqual(['sync', 'replace', 'sync'], done)

    def test_failure_leaves_former_file(self):
        before = self.path.read_bytes()
        self.application.control.set_owner('21010020', 'archive')
        with (
            mock.patch('os.fsync', side_effect=OSError(28, 'No space left')),
            self.assertRaises(OSError),
        ):
            self.keeper.save()
        self.assertEqual(before, self.path.read_bytes())
        self.keeper.save()
        self.assertNotEqual(before, self.path.read_bytes())

    def test_link_stays_and_its_target_is_replaced(self):
        link = self.path.with_name('link')
        self.keeper.close()
        link.symlink_to(self.path)
        self.keeper = keeper_module.Keeper(str(link))
        self.application.control.set_owner('21010020', 'archive')
        before = self.path.read_bytes()
        self.keeper.begin([self.application.emulation])
        self.assertTrue(link.is_symlink())
        self.assertNotEqual(before, self.path.read_bytes())


class FailedSaveTest(unittest.TestCase):
    def test_client_is_told_that_its_change_is_not_kept(self):
        base.quieten(self)
        emulator = base.start(self)
        adapter = base.adapter_for(emulator)
        self.addCleanup(base.forget, adapter.session)

        def fail():
            raise OSError(28, 'No space left on device')

        emulator._application.keep = fail
        (found,) = lpar.LPAR.search(adapter, name='archive')
        found.name = 'renamed'
        with self.assertRaises(exceptions.HttpError) as caught:
            found.update()
        self.assertEqual(500, caught.exception.response.status)
        self.assertIn('No space left', caught.exception.response.body)


class FormsTest(unittest.TestCase):
    """The table of forms is complete."""

    def test_classes_of_resources_have_forms(self):
        def below(type_):
            for one in type_.__subclasses__():
                if one.__module__.startswith('powervm_emulator.nouns.'):
                    yield one
                yield from below(one)

        known = set(resources._FORMS) | {file_module.File}
        self.assertEqual(set(), set(below(resource.Resource)) - known)

    def test_attributes_are_kept(self):
        """Nothing but the element and links to other resources is lost."""
        world = pools.world(logical_units=[{'name': 'image', 'capacity': 1}])
        world['systems'][0]['network_bridges'] = [{'vios': 'vios1', 'pvid': 1}]
        world['systems'][0]['virtual_io_servers'][0]['volume_groups'] = [
            {'name': 'rootvg', 'capacity': 10}
        ]
        application = app.make_app(world)
        self.addCleanup(application.close)
        found = list(application.emulation.host.of_type(resource.Resource))
        saved = json.loads(json.dumps([resources.save(one) for one in found]))
        loaded = resources.load(saved, {})
        for one, again in zip(found, loaded, strict=True):
            with self.subTest(one.kind):
                self.assertIs(type(one), type(again))
                self.assertEqual(_plain(vars(one)), _plain(vars(again)))
        kinds = {type(one) for one in found} | {resource.Resource}
        self.assertEqual(set(resources._FORMS), kinds)


def _plain(value):
    """Return a value with what compares by identity made comparable."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, resource.Resource):
        return resources.key_of(value)
    if isinstance(value, etree._Element):
        return etree.tostring(value, method='c14n')
    if hasattr(value, 'getstate'):
        return value.getstate()
    if hasattr(value, 'owner'):
        return [_plain(value.element), value.owner]
    return value
