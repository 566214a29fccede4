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
import re
import stat

import requests
from lxml import etree
from pypowervm import exceptions
from pypowervm.wrappers import managed_system as ms
from werkzeug import test

from powervm_emulator import app

from . import base
from . import wire

SENT, RECEIVED = (
    wire.media_type(f'Logon{kind}', 'web') for kind in ('Request', 'Response')
)
LOGON = (
    f'<LogonRequest xmlns="{wire.WEB}" schemaVersion="V1_0">'
    '<UserID>admin</UserID><Password>abc123</Password></LogonRequest>'
)
BY_FILE = (
    f'<LogonRequest xmlns="{wire.WEB}" schemaVersion="V1_0">'
    '<UserID>a</UserID>'
    '<GenerateX-API-SessionFile>true</GenerateX-API-SessionFile>'
    '</LogonRequest>'
)


class SessionTest(base.EmulatorTestCase):
    is_alone = True

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


class CookieTest(base.EmulatorTestCase):
    """Clients that keep cookies and know nothing of X-API-Session."""

    def setUp(self):
        super().setUp()
        self.client = requests.Session()
        self.addCleanup(self.client.close)
        self.url = f'{self.emulator.url}/rest/api'

    def log_on(
        self,
        document=LOGON,
        content_type=SENT,
        accept=RECEIVED,
    ):
        return self.client.put(
            f'{self.url}/web/Logon',
            document,
            headers={'Content-Type': content_type, 'Accept': accept},
        )

    def read(self, **headers):
        path = f'{self.url}/uom/ManagedSystem'
        return self.client.get(path, headers=headers)

    def test_logon_sets_cookies_of_recorded_logon(self):
        recorded = (wire.DATA.parent / 'test_session.py').read_text()
        names = set(re.findall('([A-Z]+SESSION[A-Z]*)=', recorded))
        self.log_on()
        self.assertEqual(names, set(self.client.cookies.keys()))

    def test_logon_needs_no_type_of_its_document(self):
        """Monitoring products have logged on so for years."""
        web = 'application/vnd.ibm.powervm.web+xml'
        self.assertEqual(200, self.log_on(LOGON, web, '*/*').status_code)
        for other in (web.replace('web', 'uom'), 'text/xml'):
            answer = self.log_on(LOGON, other)
            self.assertEqual(415, answer.status_code, other)

    def test_answer_has_the_form_of_recorded_logons(self):
        for document, name in ((LOGON, 'logon'), (BY_FILE, 'logon_file')):
            recorded = etree.parse(wire.DATA / f'{name}.xml')
            answer = etree.fromstring(self.log_on(document).content)
            for one, other in zip(
                recorded.iter(etree.Element),
                answer.iter(etree.Element),
                strict=True,
            ):
                self.assertEqual(one.tag, other.tag)
                self.assertEqual(one.get('kb'), other.get('kb'))

    def test_client_with_cookies_only_works_until_it_logs_off(self):
        self.log_on()
        self.assertEqual(200, self.read().status_code)
        answer = self.client.delete(f'{self.url}/web/Logon')
        self.assertEqual(204, answer.status_code)
        refused = self.read()
        self.assertEqual(401, refused.status_code)
        self.assertNotIn(self.client.cookies['JSESSIONID'], refused.text)

    def test_token_of_header_is_the_one_that_counts(self):
        self.log_on()
        answer = self.read(**{'X-API-Session': 'made up'})
        self.assertEqual(401, answer.status_code)

    def test_logon_by_file_sets_no_cookies(self):
        """Only who can read the file has the session."""
        self.assertEqual(200, self.log_on(BY_FILE).status_code)
        self.assertEqual(401, self.read().status_code)

    def test_cookies_are_for_encrypted_connections_where_there_are(self):
        application = app.make_app()
        self.addCleanup(application.close)
        for scheme in ('http', 'https'):
            answer = test.Client(application).put(
                '/rest/api/web/Logon',
                base_url=f'{scheme}://localhost',
                data=LOGON,
                content_type=wire.media_type('LogonRequest', 'web'),
            )
            cookies = answer.headers.getlist('Set-Cookie')
            self.assertEqual(2, len(cookies))
            for cookie in cookies:
                self.assertIn('HttpOnly', cookie)
                self.assertEqual(scheme == 'https', 'Secure' in cookie)
