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

"""The pictures of the documentation are drawn from their descriptions."""

import sys
import unittest

from lxml import etree

from tests.unit.docs import pages

sys.path.insert(0, str(pages.SOURCE / '_ext'))

import diagrams

TREE = """\
compute1 | VCPU <4>
   slot 21010020 | CUSTOM_GPU | OWNER_NOVA
      below
   slot 21010021
""".splitlines()

SEQUENCE = """\
User, Nova, host
User -> Nova: create
Nova: think
host -> User: a & b
""".splitlines()


def texts(svg):
    """Give the labels of a drawing, and check that it is XML."""
    return [
        element.text
        for element in etree.fromstring(svg).iter()
        if element.tag.endswith('}text')
    ]


class TreeTest(unittest.TestCase):
    def test_parse_keeps_depth_and_details(self):
        self.assertEqual(
            [
                (0, 'compute1', ('VCPU <4>',)),
                (1, 'slot 21010020', ('CUSTOM_GPU', 'OWNER_NOVA')),
                (2, 'below', ()),
                (1, 'slot 21010021', ()),
            ],
            [(n.depth, n.name, n.details) for n in diagrams.parse_tree(TREE)],
        )

    def test_parse_refuses_node_without_parent(self):
        for lines in (['   orphan'], ['root', '      grandchild']):
            with self.assertRaises(ValueError):
                diagrams.parse_tree(lines)

    def test_drawing_has_every_label(self):
        svg = diagrams.draw_tree(diagrams.parse_tree(TREE))
        self.assertEqual(
            [
                *('compute1', 'VCPU <4>'),
                *('slot 21010020', 'CUSTOM_GPU', 'OWNER_NOVA'),
                *('below', 'slot 21010021'),
            ],
            texts(svg),
        )

    def test_boxes_lie_inside_and_below_each_other(self):
        root = etree.fromstring(diagrams.draw_tree(diagrams.parse_tree(TREE)))
        _, _, width, height = map(float, root.attrib['viewBox'].split())
        boxes = [
            {k: float(e.attrib[k]) for k in ('x', 'y', 'width', 'height')}
            for e in root.iter()
            if e.tag.endswith('}rect')
        ]
        ends = [box['y'] + box['height'] for box in boxes]
        self.assertTrue(all(b['x'] + b['width'] <= width for b in boxes))
        self.assertLessEqual(ends[-1], height)
        for end, following in zip(ends, boxes[1:], strict=False):
            self.assertGreater(following['y'], end)


class SequenceTest(unittest.TestCase):
    def test_parse_tells_steps_from_messages(self):
        actors, messages = diagrams.parse_sequence(SEQUENCE)
        self.assertEqual(['User', 'Nova', 'host'], actors)
        self.assertEqual(
            [(0, 1, 'create'), (1, 1, 'think'), (2, 0, 'a & b')],
            [(m.source, m.target, m.text) for m in messages],
        )
        self.assertEqual([False, True, False], [m.is_step for m in messages])

    def test_parse_refuses_unknown_actor(self):
        with self.assertRaises(ValueError):
            diagrams.parse_sequence(['User, Nova', 'User -> Nvoa: create'])

    def test_drawing_has_every_label(self):
        svg = diagrams.draw_sequence(*diagrams.parse_sequence(SEQUENCE))
        self.assertEqual(
            {'User', 'Nova', 'host', 'create', 'think', 'a & b'},
            set(texts(svg)),
        )
