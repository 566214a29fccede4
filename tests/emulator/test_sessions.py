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

"""Logon, logoff and expiry, through pypowervm's Session."""

import gc
import os
import pathlib
import stat

from pypowervm import exceptions
from pypowervm.wrappers import managed_system as ms

from tests.emulator import base


class SessionTest(base.EmulatorTestCase):
    def test_logon_by_password_succeeds(self):
        session = self.adapter.session
        self.assertEqual('PVM', session.mc_type)
        self.assertFalse(self.adapter.traits.local_api)
        self.assertTrue(session.schema_version)

    def test_logon_by_file_succeeds(self):
        adapter = base.adapter_for(self.emulator, password=False)
        self.assertTrue(adapter.traits.local_api)
        self.assertEqual(1, len(ms.System.get(adapter)))

    def test_token_file_is_private_and_removed_with_emulator(self):
        emulator = base.start(self)
        seen = []
        emulation = emulator._application._emulation
        write = emulation.token_files.write

        def spy(token):
            seen.append(write(token))
            return seen[-1]

        emulation.token_files.write = spy
        adapter = base.adapter_for(emulator, password=False)
        (path,) = map(pathlib.Path, seen)
        self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
        self.assertEqual(os.getuid(), path.stat().st_uid)
        del adapter
        gc.collect()
        emulation.close()
        self.assertFalse(path.exists())

    def test_logon_refuses_wrong_password(self):
        self.emulator.password = 'wrong'
        with self.assertRaises(exceptions.HttpUnauth):
            base.session_for(self.emulator)

    def test_logon_unescapes_password(self):
        emulator = base.start(self, password='a<b&c>"d')
        self.assertEqual(1, len(ms.System.get(base.adapter_for(emulator))))

    def test_expired_session_logs_on_again(self):
        self.assertEqual(1, self.control.expire_sessions())
        self.assertEqual(1, len(ms.System.get(self.adapter)))
        self.assertEqual(2, self.control.journal_counts()['PUT Logon.create'])
        statuses = [
            record['status']
            for record in self.control.journal()
            if record['label'] == 'ManagedSystem.feed'
        ]
        self.assertEqual([401, 200], statuses)

    def test_expired_session_fails_after_password_change(self):
        self.control.set_password('new')
        self.control.expire_sessions()
        with self.assertRaises(exceptions.HttpUnauth):
            ms.System.get(self.adapter)

    def test_request_with_unknown_token_is_refused(self):
        self.adapter.session._sessToken = 'made up'
        self.adapter.session._relogin_unsafe = True
        with self.assertRaises(exceptions.HttpUnauth):
            ms.System.get(self.adapter)

    def test_token_differs_between_emulators_with_same_seed(self):
        other = base.session_for(base.start(self))
        base.forget(other)
        own = self.adapter.session._sessToken
        self.assertEqual(len(own), len(other._sessToken))
        self.assertNotEqual(own, other._sessToken)

    def test_collected_session_logs_off(self):
        base.session_for(self.emulator)
        gc.collect()
        self.assertEqual(1, self.control.state()['sessions'])

    def test_answers_name_server_and_content_type(self):
        answer = self.adapter.read('ManagedSystem')
        self.assertEqual('PVM', answer.headers['X-MC-Type'])
        self.assertEqual(
            'application/atom+xml; charset=UTF-8',
            answer.headers['Content-Type'],
        )
