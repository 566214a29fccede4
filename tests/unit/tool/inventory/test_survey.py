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

"""When Nova is asked about moves, and what for."""

import types
import unittest

import fixtures

from nova_powervm.devices import host_values
from nova_powervm.devices import slot_providers
from nova_powervm.tool import errors
from nova_powervm.tool.inventory import clouds
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import survey as surveys
from nova_powervm.tool.rules import left_moves
from nova_powervm.tool.rules import placement_tree
from tests.unit.devices import values
from tests.unit.tool.rules import test_differences as trees
from tests.unit.tool.rules import test_left_moves as moves


class Nova:
    """Knows one migration, and answers as it is told."""

    problem = None

    def __init__(self):
        self.asked = []

    def find_migrations(self, node, consumers):
        self.asked.append((node, {*consumers}))
        if self.problem:
            raise errors.ComputeApiError(reason=self.problem)
        return {uuid: moves.MOVED for uuid in consumers}

    def read_servers(self, uuids):
        self.asked.append({*uuids})
        return dict.fromkeys(uuids, moves.THERE)


class LeftoversTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.nova = Nova()
        self.warnings = []
        self.clouds = []
        patch = fixtures.MockPatchObject(clouds, 'NovaClient', self.connect)
        patch.setUp()
        self.addCleanup(patch.cleanUp)

    def connect(self, cloud, conf):
        self.clouds.append((cloud, conf))
        return self.nova

    def read(
        self,
        consumer,
        owner=None,
        stale_lpars=(),
        owners_known=True,
        **options,
    ):
        """Read what moves have to do with one slot."""
        tree = placement_tree.Tree(
            'host1',
            trees.ROOT,
            (trees.offered(consumers=trees.held(consumer)),),
            moves=placement_tree.Moves(stale_lpars=dict(stale_lpars)),
        )
        managed = host_values.ManagedSystem(
            *('host', 'u', 'm', 0, 0, 0, 0, 0, 0),
            (values.slot(owner=owner),),
        )
        app = types.SimpleNamespace(
            config=types.SimpleNamespace(conf='conf'),
            warn=self.warnings.append,
        )
        arguments = {'os_cloud': None, 'system_xml': None} | options
        return surveys.read_slot_moves(
            app,
            types.SimpleNamespace(**arguments),
            tree,
            host_reader.HostReading(managed, 'here', owners_known),
        )

    def test_nova_is_not_asked_where_all_is_explained(self):
        self.assertEqual({}, self.read(moves.SERVER, moves.OWNER))
        self.assertEqual([], self.clouds)

    def test_nova_is_asked_about_migration_and_its_server(self):
        found = self.read(moves.MIGRATION, os_cloud='prod')
        self.assertEqual([('prod', 'conf')], self.clouds)
        self.assertEqual(
            [('host1', {moves.MIGRATION}), {moves.SERVER}], self.nova.asked
        )
        self.assertEqual(
            (moves.DELETE.replace('openstack', 'openstack --os-cloud prod'),),
            found[values.INDEX].steps,
        )
        self.assertEqual([], self.warnings)

    def test_nova_is_asked_about_stale_lpar(self):
        other = '5b1c2d3e-0000-4000-8000-000000000002'
        self.read(
            moves.SERVER,
            moves.OWNER,
            {moves.LPAR: slot_providers.StaleLpar(other, 'host2')}.items(),
        )
        self.assertEqual([('host1', set()), {other}], self.nova.asked)

    def test_stored_answers_do_not_tell_owners(self):
        for options in ({'system_xml': ['x']}, {'owners_known': False}):
            (finding,) = self.read(moves.MIGRATION, **options).values()
            self.assertIn('without stored responses', ' '.join(finding.steps))
            self.assertNotIn(moves.DELETE, finding.steps)

    def test_unanswered_question_is_a_warning_and_no_guess(self):
        self.nova.problem = 'no answer'
        found = self.read(moves.MIGRATION)
        (warning,) = self.warnings
        self.assertIn('The compute API: no answer. Whether', warning)
        self.assertEqual(
            left_moves.SlotMove(
                f'allocated to {moves.MIGRATION}; Nova does not tell whether '
                'it is a move',
                (
                    "delete nothing before Nova's API answers. The compute "
                    'API: no answer.',
                ),
            ),
            found[values.INDEX],
        )
