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

"""A small cloud on one machine, and a demonstration on it.

``python -m demo`` starts Keystone, Glance, Neutron, Placement
and Nova as processes of one user, without a message broker or a database
server. nova-compute uses this project's driver, and the project's emulator
is its PowerVM host. The demonstration then goes through device passthrough
as an operator would, and verifies the result of each step.
"""
