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

"""The only node of this compute service."""

import functools

from nova.virt import node as virt_node


class LocalNode:
    """The node that a compute service has in Nova's records.

    :param name: Its name, which is that of the host.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @functools.cached_property
    def uuid(self) -> str:
        """Nova's uuid of it.

        Do not ask for it in init_host: reading may write a new uuid, and Nova
        checks afterwards that an existing service has not lost its uuid.
        """
        return str(virt_node.get_local_node_uuid())
