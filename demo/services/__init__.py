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

"""The child processes of the launcher: the emulator and OpenStack projects.

Each project has one process if it can, which starts faster than several. With
``fake:/``, the transport of oslo.messaging within a process, nova-api, the
conductor, the scheduler and nova-compute can only share one.

The module of a project has a function ``serve(stack)``, which returns as soon
as the project serves; that of Cyborg has one for each of its processes.
"""
