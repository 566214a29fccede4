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

"""nova-powervm-inventory, and the clients that all three programs read with.

A command is a class with its options, what it reads, and what it prints;
commands with the same steps share a module. The clients are ``config`` (of
nova.conf), ``host_reader``, ``placement_client``, ``clouds`` (Nova's API and
Cyborg's) and ``conductor`` (Nova's records).

A rule that values alone decide belongs in ``tool.rules`` if two commands need
it. Nova is imported inside of the functions that cannot do without it: that
takes a second, which most commands save.

Open first: :class:`.base.Command` for errors and exit codes, the class of a
command, and :func:`.device_changes.release` for a change in Placement.
"""
