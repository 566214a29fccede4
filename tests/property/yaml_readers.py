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

"""What other YAML readers make of an unquoted value.

PyYAML reads YAML 1.1, ruamel.yaml reads YAML 1.1 and 1.2.
"""

import ruamel.yaml.resolver
import yaml

_PLAIN = (True, False)
_TEXT = 'tag:yaml.org,2002:str'
_RUAMEL = []
for _version in ((1, 1), (1, 2)):
    _RUAMEL.append(ruamel.yaml.resolver.VersionedResolver(version=_version))
_PYYAML = yaml.SafeLoader('')


def readings(value):
    """Return the types other than text that readers see in a value."""
    tags = {_PYYAML.resolve(yaml.ScalarNode, value, _PLAIN)}
    for resolver in _RUAMEL:
        tag = resolver.resolve(ruamel.yaml.nodes.ScalarNode, value, _PLAIN)
        tags.add(str(tag))
    return tags - {_TEXT}
