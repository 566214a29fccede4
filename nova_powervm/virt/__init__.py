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

"""Nova's side: the driver that nova-compute loads, and all that it asks for.

A method of :class:`.driver.PowerVMDriver` translates its arguments and calls
one collaborator, which :class:`.services.Services` lists. They are made with
:class:`.host_operations.HostOperations`. Nothing here talks to the host but
through ``ops``, no record of Nova's is changed but in :mod:`.record_changes`,
and no rule about slots or LPARs is decided. Begin with
:meth:`.builds.Builds.spawn`, which goes through all layers.
"""
