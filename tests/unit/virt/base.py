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

"""Nova's test cases without what would be half of their work."""

from unittest import mock

import fixtures
from nova import test
from nova.tests import fixtures as nova_fixtures


class _WithoutRules:
    """Has no rules of policies and no flavors, which no test here needs."""

    def setUp(self):
        with (
            mock.patch.object(
                nova_fixtures, 'PolicyFixture', fixtures.Fixture
            ),
            mock.patch.object(
                nova_fixtures, 'DefaultFlavorsFixture', fixtures.Fixture
            ),
        ):
            super().setUp()


class NoDBTestCase(_WithoutRules, test.NoDBTestCase):
    """A test of Nova without its database."""


class TestCase(_WithoutRules, test.TestCase):
    """A test of Nova with its database."""
