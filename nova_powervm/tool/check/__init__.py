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

"""nova-powervm-check: tells whether a host fits the driver.

It comes before the inventory file, Nova and Placement, and needs none of them.
A check is a small function with what the driver assumes and what it means if
the host differs; the table of the checks is also that of the page about a
first run. What looks at a host, or tries things on it, is in
``powervm.check``. ``host`` only reads, by its ``inspection``: nothing that
writes to a host or starts a job may come in there. ``partition`` makes an LPAR
of its own, by ``trial``, and removes it; with ``--slot``, by ``slot_trial``,
it never boots. ``--target`` moves nothing.

Open first: :data:`.host.CHECKS`, :data:`.partition_checks.CHECKS`,
:data:`.slot_checks.CHECKS`, :data:`.target_checks.CHECKS`,
:class:`.answers.Check`, :func:`.app.check_host`.
"""
