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

"""A whole small cloud on one machine, and the demonstration that runs on it.

``python -m nova_powervm.demo`` starts keystone, glance, neutron, Placement
and Nova as plain processes of one user, without a message broker or a
database server, with this project's driver in nova-compute and the
project's emulator as the PowerVM host; then it walks through device
passthrough as an operator would and checks every step.
"""
