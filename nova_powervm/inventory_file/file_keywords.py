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

"""The words of the inventory file (specification, "Device Identification")."""

#: Keys of a paragraph, in the order in which messages name them.
PARAGRAPH_KEYS = (
    'identification',
    'allow',
    'resource_class',
    'traits',
    'one_time_use',
)

#: A value for each key of an identification, as real hosts report them.
EXAMPLES = {
    'vendor_id': '10DE',
    'device_id': '1DB6',
    'subsys_vendor_id': '10DE',
    'subsys_device_id': '124A',
    'class': '0302',
    'revision_id': 'A1',
    'drc_index': '21010020',
    'drc_name': 'U78CB.001.WZS0JZB-P1-C2',
}


def _cases(*words: str) -> tuple[str, ...]:
    """Give words in the three cases in which YAML 1.1 knows its booleans."""
    return tuple(
        form
        for word in words
        for form in (word, word.capitalize(), word.upper())
    )


#: YAML 1.1 takes all of these for booleans, YAML 1.2 takes yes and no for
#: text. Here they mean the same, whoever reads the file.
YES = _cases('yes')
NO = _cases('no')
BOOLEANS = {
    **dict.fromkeys((*_cases('true'), *YES), True),
    **dict.fromkeys((*_cases('false'), *NO), False),
}
