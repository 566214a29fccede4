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

"""Readings of the host, and allocations that were lost."""

import unittest

from nova_powervm.devices import claims
from nova_powervm.devices import host_values
from nova_powervm.ops import host as host_ops
from tests.unit.devices import values

PROVIDER = claims.SlotProvider('p', values.INDEX, frozenset({'CUSTOM_GPU'}))
OTHER = claims.SlotProvider('q', 0x21010021, frozenset({'CUSTOM_GPU'}))


class Host:
    """A host with one slot, Nova's records of it, and Placement."""

    def __init__(self):
        self.owner = values.client()
        self.vacant = set()
        self.silent = False
        self.requests = []
        self.meanwhile = lambda: None

    def read(self):
        return values.managed_system(io_slots=(values.slot(owner=self.owner),))

    def capacity(self):
        return host_values.DiskCapacity(0, 0)

    def holdings(self, lpar_uuids):
        return {
            lpar_uuid: {'p': PROVIDER, 'q': OTHER} for lpar_uuid in lpar_uuids
        }

    def stale_lpars(self, lpar_uuids, host):
        return {}

    def get_consumers(self, providers):
        self.requests.append(set(providers))
        if self.silent:
            return {}
        consumers = {
            uuid: [] if uuid in self.vacant else ['instance']
            for uuid in providers
        }
        self.meanwhile()
        return consumers


class LostAllocationTest(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.ops = host_ops.HostReader(*[self.host] * 4, 'host1')
        self.ops.read()

    def lost(self):
        return self.ops.read().lost

    def test_provider_of_owned_slot_without_consumer_is_lost(self):
        self.assertEqual(frozenset(), self.lost())
        self.host.vacant = {'p', 'q'}
        # The LPAR does not own the slot of the other provider.
        self.assertEqual({'p'}, self.lost())
        self.assertEqual({'p'}, self.lost())
        # The allocation is made again.
        self.host.vacant = set()
        self.assertEqual(frozenset(), self.lost())

    def test_slot_whose_owner_changes_meanwhile_is_not_lost(self):
        # Nova deletes the LPAR, and then the allocations.
        for owner in (None, values.client(uuid=values.OTHER_LPAR)):
            with self.subTest(owner=owner):
                self.setUp()
                self.host.vacant = {'p'}
                self.host.meanwhile = lambda owner=owner: setattr(
                    self.host, 'owner', owner
                )
                self.assertEqual(frozenset(), self.lost())

    def test_slot_of_a_new_lpar_is_not_lost(self):
        self.host.owner = None
        self.ops.read()
        self.host.vacant = {'p'}
        # A build is allocated the provider and gets the slot meanwhile.
        self.host.meanwhile = lambda: setattr(
            self.host, 'owner', values.client()
        )

        self.assertEqual(frozenset(), self.lost())

    def test_placement_is_not_asked_about_free_slots(self):
        self.host.owner = None
        self.ops.read()
        self.lost()

        self.assertEqual([set()], self.host.requests[1:])

    def test_missing_answer_loses_and_finds_nothing(self):
        self.host.silent = True
        self.assertEqual(frozenset(), self.lost())
        self.host.silent = False
        self.host.vacant = {'p'}
        self.lost()
        self.host.silent = True
        self.assertEqual({'p'}, self.lost())
