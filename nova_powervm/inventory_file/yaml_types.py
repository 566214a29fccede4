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

"""What readers of YAML make of a value without quotes.

The file is read by other tools, too, some of YAML 1.1 and some of YAML 1.2.
A value that any of them takes for something else than text is not accepted as
text here. The patterns are those of both versions of YAML, of PyYAML, and of
what ruamel.yaml reads beyond them.
"""

import re

import yaml

STANDARD = 'tag:yaml.org,2002:'
TEXT = STANDARD + 'str'
MERGE = STANDARD + 'merge'
NULL = STANDARD + 'null'

_TAGS = {
    STANDARD + 'int': 'a number',
    STANDARD + 'float': 'a number',
    STANDARD + 'bool': 'true or false',
    STANDARD + 'timestamp': 'a date',
    NULL: 'no value',
    STANDARD + 'value': 'a default value',
    MERGE: 'a merge key',
}
_PATTERNS = {
    'a time': re.compile(r'[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+'),
    # 0108 is 108 for YAML 1.2 and 1E10 is 10000000000; 0b01 and 1_0 are
    # numbers for YAML 1.1, 0o17 for 1.2, and -_ for ruamel.yaml.
    'a number': re.compile(
        r"""
        [-+]? (?:
            0b [01_]+
          | 0o [0-7_]+
          | 0x [0-9a-fA-F_]+
          | [0-9] [0-9_]* (?: \. [0-9_.]* )? (?: [eE] [-+]? [0-9]+ )?
          | \. [0-9_] [0-9_.]* (?: [eE] [-+]? [0-9]+ )?
          | \. (?: inf | Inf | INF )
        )
        | [-+] [0-9_]+
        | \. (?: nan | NaN | NAN )
        """,
        re.VERBOSE,
    ),
    # PyYAML knows the longer ones.
    'true or false': re.compile('[yYnN]'),
}


def find_other_type(node: yaml.ScalarNode) -> str | None:
    """Say what a reader of YAML makes of a scalar, if not text.

    :param node: The scalar, with the tag that PyYAML found for it.
    :returns: In words; None if every reader takes it for text, as they do
        with everything in quotes.
    """
    if node.style:
        return None
    value = str(node.value)
    for kind, pattern in _PATTERNS.items():
        if pattern.fullmatch(value):
            return kind
    return None if node.tag == TEXT else _TAGS.get(node.tag, node.tag)
