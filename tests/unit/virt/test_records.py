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

"""What Nova's records say that an instance holds."""

from nova import context as nova_context
from nova import objects
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from nova_powervm.domain import partition
from nova_powervm.virt import records


class HoldingsTest(test.TestCase):
    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        self.instance = objects.Instance(
            context=self.context,
            uuid=uuids.instance,
            project_id='project',
            host='host1',
            resources=objects.ResourceList(
                objects=[
                    objects.Resource(
                        provider_uuid=uuids.provider,
                        resource_class='CUSTOM_GPU',
                        identifier='21010020',
                    )
                ]
            ),
        )
        self.instance.create()
        self.lpar = partition.lpar_uuid(uuids.instance)

    def holdings(self):
        foreign = partition.lpar_uuid(uuids.foreign)
        return records.NovaRecords().holdings([self.lpar, foreign])

    def test_an_instance_holds_what_nova_stored_with_it(self):
        self.assertEqual(
            {self.lpar: frozenset([uuids.provider])}, self.holdings()
        )

    def test_one_whose_build_failed_holds_nothing(self):
        # Nova leaves its resources as they were.
        self.instance.host = None
        self.instance.save()

        self.assertEqual({self.lpar: frozenset()}, self.holdings())

    def test_one_that_was_deleted_holds_nothing(self):
        self.instance.destroy()

        self.assertEqual({self.lpar: frozenset()}, self.holdings())
