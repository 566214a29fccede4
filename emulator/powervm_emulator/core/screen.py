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

"""The picture of a terminal: lines of text in black and white."""

import functools
from collections.abc import Sequence

COLUMNS = 40
ROWS = 8
#: Pixels of the picture for each one of the font.
SCALE = 2
_CELL_WIDTH = 6
_CELL_HEIGHT = 10
_GLYPH_HEIGHT = 7
WIDTH = COLUMNS * _CELL_WIDTH * SCALE
HEIGHT = ROWS * _CELL_HEIGHT * SCALE

# Each band has its characters, and below them their glyphs of 5 by 7 pixels.
_BANDS = (
    """\
A     B     C     D     E     F     G     H     I     J     K     L     M
.###. ####. .###. ####. ##### ##### .###. #...# .###. ..### #...# #.... #...#
#...# #...# #...# #...# #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.##
#...# #...# #.... #...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.#
##### ####. #.... #...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.#
#...# #...# #.... #...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...#
#...# #...# #...# #...# #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...#
#...# ####. .###. ####. ##### #.... .###. #...# .###. .##.. #...# ##### #...#
""",
    """\
N     O     P     Q     R     S     T     U     V     W     X     Y     Z
#...# .###. ####. .###. ####. .#### ##### #...# #...# #...# #...# #...# #####
##..# #...# #...# #...# #...# #.... ..#.. #...# #...# #...# #...# #...# ....#
#.#.# #...# #...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#.
#.#.# #...# ####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. ..#.. ..#..
#..## #...# #.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#...
#...# #...# #.... #..#. #..#. ....# ..#.. #...# .#.#. ##.## #...# ..#.. #....
#...# .###. #.... .##.# #...# ####. ..#.. .###. ..#.. #...# #...# ..#.. #####
""",
    """\
0     1     2     3     4     5     6     7     8     9     -     _     .
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###. ..... ..... .....
#..## .##.. #...# ....# ..##. #.... #.... ....# #...# #...# ..... ..... .....
#.#.# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...# ..... ..... .....
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .#### ##### ..... .....
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....# ..... ..... .....
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ....# ..... ..... .##..
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .###. ..... ##### .##..
""",
    """\
:     >     /     =     ,     +     (     )     ?
..... #.... ....# ..... ..... ..... ...#. .#... .###.
.##.. .#... ....# ..... ..... ..#.. ..#.. ..#.. #...#
.##.. ..#.. ...#. ##### ..... ..#.. .#... ...#. ....#
..... ...#. ..#.. ..... ..... ##### .#... ...#. ...#.
.##.. ..#.. .#... ##### .##.. ..#.. .#... ...#. ..#..
.##.. .#... #.... ..... .##.. ..#.. ..#.. ..#.. .....
..... #.... #.... ..... .#... ..... ...#. .#... ..#..
""",
)
_BLANK = ('.....',) * _GLYPH_HEIGHT
_UNKNOWN = '?'


@functools.cache
def _font() -> dict[str, Sequence[str]]:
    font: dict[str, Sequence[str]] = {' ': _BLANK}
    for band in _BANDS:
        names, *rows = band.splitlines()
        for name, *glyph in zip(
            names.split(), *(row.split() for row in rows), strict=True
        ):
            font[name] = glyph
    return font


def rows_of(text: str) -> list[str]:
    """Return the rows of pixels of a text, ``#`` for a white one.

    Letters are capitals. Whoever looks for a text on the screen looks for
    these rows.
    """
    font = _font()
    glyphs = [font.get(letter, font[_UNKNOWN]) for letter in text.upper()]
    rows = []
    for number in range(_GLYPH_HEIGHT):
        row = ''.join(
            pixel * SCALE
            for glyph in glyphs
            for pixel in glyph[number].ljust(_CELL_WIDTH, '.')
        )
        rows += [row] * SCALE
    return rows


def draw(lines: Sequence[str], pixel_bytes: int = 4) -> bytes:
    """Draw the last lines that there is room for, each as far as it goes.

    A pixel has all bits set or none: white and black in any format.

    :param pixel_bytes: the bytes of a pixel.
    """
    colours = {'#': b'\xff' * pixel_bytes, '.': bytes(pixel_bytes)}
    empty = bytes(pixel_bytes) * WIDTH
    picture = []
    shown = lines[-ROWS:]
    for line in (*shown, *[''] * (ROWS - len(shown))):
        for row in rows_of(line[:COLUMNS].ljust(COLUMNS)):
            picture.append(b''.join(colours[pixel] for pixel in row))
        gap = (_CELL_HEIGHT - _GLYPH_HEIGHT) * SCALE
        picture += [empty] * gap
    return b''.join(picture)
