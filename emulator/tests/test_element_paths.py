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


"""The comparison of the elements of documents."""

import unittest

from lxml import etree

from . import element_paths


def shape(*documents):
    return element_paths.Shape(map(etree.fromstring, documents))


def compare(captured, served, preferred=()):
    return element_paths.Comparison(
        shape(*preferred), shape(*preferred, *captured), shape(*served)
    )


class ComparisonTest(unittest.TestCase):
    def test_paths_collapse_lists_and_ignore_namespaces(self):
        found = shape('<r xmlns="x"><a><b/></a><!-- c --><a><c/></a></r>')
        self.assertEqual(['a', 'a/b', 'a/c'], list(found.paths))

    def test_absent_is_captured_but_not_served(self):
        found = compare(
            ['<r><a><b><c/></b></a></r>', '<r><d/></r>'], ['<r><a/><e/></r>']
        )
        self.assertEqual(['a/b', 'a/b/c', 'd'], found.absent())
        self.assertEqual(['a/b', 'd'], found.absent_roots())

    def test_swaps_are_pairs_in_other_order(self):
        found = compare(
            ['<r><p><a/><b/><c/></p></r>'], ['<r><p><c/><a/></p></r>']
        )
        self.assertEqual([element_paths.Swap('p', 'a', 'c')], found.swaps())

    def test_swaps_ignore_pair_that_captures_disagree_on(self):
        found = compare(
            ['<r><a/><b/></r>', '<r><b/><a/></r>'], ['<r><b/><a/></r>']
        )
        self.assertEqual([], found.swaps())

    def test_swaps_ignore_interleaved_lists(self):
        found = compare(['<r><a/><b/><a/></r>'], ['<r><b/><a/></r>'])
        self.assertEqual([], found.swaps())
        found = compare(['<r><a/><b/></r>'], ['<r><b/><a/><b/></r>'])
        self.assertEqual([], found.swaps())

    def test_swaps_follow_preferred_captures(self):
        found = compare(
            ['<r><a/><b/></r>'], ['<r><a/><b/></r>'], ['<r><b/><a/></r>']
        )
        self.assertEqual([element_paths.Swap('', 'b', 'a')], found.swaps())

    def test_expected_puts_siblings_of_all_captures_in_order(self):
        found = compare(
            ['<r><a/><c/></r>', '<r><b/><c/></r>', '<r><a/><b/></r>'], []
        )
        self.assertEqual(['a', 'b', 'c'], found.expected())

    def test_expected_has_every_element_of_contradictory_captures(self):
        found = compare(
            ['<r><a/><b/></r>', '<r><b/><c/></r>', '<r><c/><a/></r>'], []
        )
        self.assertEqual(['a', 'b', 'c'], found.expected())
