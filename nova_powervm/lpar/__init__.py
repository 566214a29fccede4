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

"""What an LPAR should be, and what an operation does to it.

Pure, like :mod:`nova_powervm.devices`, and nothing here reads the host: a plan
asks for what it needs through :class:`.spec.Actual`. Begin with
:mod:`.operations`, the table of what each operation may do, then
:func:`.plan.decide`, which compares what is wanted with what is there, and
:mod:`.steps`, which has the order of what it decides. ``ops/apply.py`` carries
it out.
"""
