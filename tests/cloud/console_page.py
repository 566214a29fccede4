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

"""A console in a browser: stock nova-novncproxy, and noVNC in Chromium."""

import pathlib
import shutil
import sqlite3
import tempfile
import unittest

from demo import cloud as cloud_lib
from demo import console
from demo import console_steps
from demo import stack as stack_lib
from emulator.tests import rfb_viewer
from tests.cloud import demonstration

try:
    from playwright import sync_api
except ImportError:
    sync_api = None

CHROMIUM = shutil.which('chromium')

#: Returns the pixels of the screen in rows, '#' for a white one.
_PICTURE = """() => {
    const canvas = document.querySelector('canvas');
    const {data, width, height} = canvas.getContext('2d').getImageData(
        0, 0, canvas.width, canvas.height);
    return Array.from({length: height}, (_, y) =>
        Array.from({length: width}, (_, x) =>
            data[(y * width + x) * 4] ? '#' : '.').join(''));
}"""
_MILLISECONDS = 30_000
_FLAVOR = 'screen'


class ConsolePageTest(unittest.TestCase):
    """Runs the cloud of the demonstration, with one server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.enterClassContext(cls.cloud_running())
        cls.stack = stack_lib.load(cls.state)
        cls.cloud = cloud_lib.Cloud(cls.stack)
        sizes = cloud_lib.Sizes(memory_mb=512, disk_gb=1)
        cls.cloud.create_flavor(_FLAVOR, {}, sizes)
        api = cls.cloud._api
        created = api.compute.create_server(
            name='screen',
            flavor_id=api.compute.find_flavor(_FLAVOR).id,
            image_id=cls.cloud.find_image(cloud_lib.IMAGE).id,
            networks='none',
        )
        cls.server = cls.cloud._settle(created.id, _MILLISECONDS / 1000)

    @classmethod
    def cloud_running(cls):
        """Return a context that runs the cloud."""
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.state = pathlib.Path(directory) / 'cloud'
        cls.require_novnc(pathlib.Path(directory) / 'novnc')
        return demonstration.running(cls.state, '--no-steps', '--console')

    @classmethod
    def require_novnc(cls, directory):
        """Skip the tests where no registry gives noVNC."""
        try:
            console.fetch(directory)
        except console.NoVncError as error:
            raise unittest.SkipTest(str(error)) from error

    def test_proxy_shows_screen_and_refuses_other_tokens(self):
        url = self.cloud.console_url(self.server)
        name = self.server.instance_name
        self.assertEqual(name, console_steps.read_name(self.stack, url))
        self.assertIsNone(console_steps.read_name(self.stack, f'{url}x'))
        self.expire_tokens()
        self.assertIsNone(console_steps.read_name(self.stack, url))

    def expire_tokens(self):
        """Let all tokens be older than Nova accepts."""
        database = self.state / 'db' / 'nova_cell1.db'
        connection = sqlite3.connect(database, timeout=30)
        with connection:
            connection.execute('UPDATE console_auth_tokens SET expires = 1')
        connection.close()

    @unittest.skipUnless(CHROMIUM, 'chromium is not installed')
    @unittest.skipUnless(sync_api, 'the package playwright is not installed')
    def test_chromium_shows_screen_and_types(self):
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=['--no-sandbox']
            )
            page = browser.new_page()
            page.set_default_timeout(_MILLISECONDS)
            page.goto(self.cloud.console_url(self.server))
            self.find(page, self.server.instance_name)
            self.find(page, 'state running')
            page.click('canvas')
            page.keyboard.type('hello')
            self.find(page, '> hello')
            page.goto(f'{self.cloud.console_url(self.server)}x')
            page.wait_for_selector('#status:text("disconnected")')
            self.assertFalse(page.query_selector('canvas'))
            browser.close()

    def find(self, page, text):
        """Wait until the canvas of a page shows a text."""
        page.wait_for_selector('canvas')
        for _ in range(_MILLISECONDS // 100):
            if rfb_viewer.shows(page.evaluate(_PICTURE), text):
                return
            page.wait_for_timeout(100)
        self.fail(f'the page does not show {text!r}')
