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

"""Reads the inventory file: YAML text to a policy, or a list of all problems.

    policy = inventory_file.load('/etc/nova/inventory.yaml')

The rules for values are in :mod:`nova_powervm.devices.policy`.
"""

from nova_powervm.inventory_file.file_reader import InventoryFile
from nova_powervm.inventory_file.file_reader import load
from nova_powervm.inventory_file.problems import Problem
from nova_powervm.inventory_file.problems import Problems
from nova_powervm.inventory_file.structure import parse

__all__ = [
    'InventoryFile',
    'Problem',
    'Problems',
    'load',
    'parse',
]
