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

"""Talks to the host: implements the protocols of ``ops`` with pypowervm.

Only this package imports pypowervm, and what leaves it are values and errors
of the driver's own. No decision about an instance is made here. Begin with
:func:`.session.connect`, :class:`.system.RestSystem` and
:class:`.partitions.RestPartitions`; :func:`.rest_errors.retried_on_conflict`
is how a document is changed that others change, too. The drivers of disks,
ports and volumes are in ``disk``, ``vif`` and ``volume``; ``check`` is for the
command nova-powervm-check only.
"""
