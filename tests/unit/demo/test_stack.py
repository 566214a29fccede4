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

import pathlib
import socket
import stat
import tempfile
import unittest

from demo import stack
from tests.unit.demo import samples


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class StateDirTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.parent = pathlib.Path(directory.name)

    def test_state_dir_is_private(self):
        state_dir = stack.make_state_dir(self.parent / 'new' / 'state')

        self.assertEqual(0o700, _mode(state_dir))
        self.assertTrue((state_dir / 'etc').is_dir())

    def test_existing_state_dir_becomes_private(self):
        self.parent.chmod(0o755)

        self.assertEqual(0o700, _mode(stack.make_state_dir(self.parent)))

    def test_nonempty_state_dir_is_refused(self):
        (self.parent / 'mine').touch()

        with self.assertRaisesRegex(FileExistsError, 'is not empty'):
            stack.make_state_dir(self.parent)

    def test_write_private_restricts_mode(self):
        path = self.parent / 'secret'

        stack.write_private(path, 'text')

        self.assertEqual(0o600, _mode(path))
        self.assertEqual('text', path.read_text())

    def test_load_returns_saved_stack(self):
        for wanted in (
            samples.a_stack(self.parent),
            samples.a_stack_with_cyborg(self.parent),
            samples.a_stack_with_two_hosts(self.parent),
        ):
            wanted.save()

            self.assertEqual(wanted, stack.load(self.parent))


class StackTest(unittest.TestCase):
    def test_only_compute_shares_the_process_of_nova(self):
        one = samples.a_stack()

        self.assertFalse(one.has_compute_processes)
        self.assertEqual([], one.compute_services)
        self.assertEqual('http://127.0.0.1:29999', one.host.url)

    def test_computes_have_processes_and_state_of_their_own(self):
        two = samples.a_stack_with_two_hosts()

        self.assertEqual(
            ['nova-compute-1', 'nova-compute-2'], two.compute_services
        )
        self.assertEqual(
            pathlib.Path('/state/state/nova-compute-2'),
            two.state_path_of(two.computes[1]),
        )

    def test_repr_has_no_secrets(self):
        self.assertNotIn('secret', repr(samples.a_stack_with_cyborg()))

    def test_passwords_differ_per_user_and_run(self):
        first, second = stack.new_passwords(), stack.new_passwords()

        self.assertEqual({'admin', *stack.SERVICE_USERS}, set(first))
        self.assertEqual(10, len({*first.values(), *second.values()}))


class FreePortsTest(unittest.TestCase):
    def test_port_in_use_is_skipped(self):
        with socket.socket() as taken, socket.socket() as other:
            taken.bind((stack.ADDRESS, 0))
            other.bind((stack.ADDRESS, 0))
            free = other.getsockname()[1]
            other.close()

            ports = stack.free_ports(['a'], [taken.getsockname()[1], free])

        self.assertEqual({'a': free}, ports)

    def test_too_few_free_ports_raise(self):
        with self.assertRaisesRegex(OSError, 'not enough free ports'):
            stack.free_ports(['a'], [])

    def test_ports_differ_and_are_below_the_ephemeral_range(self):
        ports = stack.free_ports(stack.APIS)

        self.assertEqual(len(stack.APIS), len(set(ports.values())))
        self.assertLess(max(ports.values()), 32768)
