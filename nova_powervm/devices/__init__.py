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

"""The pure core: which slots are offered, and what happens to their providers.

No nova, pypowervm, options, files or clock may come in: everything is a value
that tests make, compare and print. Begin with :func:`.matching.judge` (is a
slot offered?), :func:`.plan.assess` and :func:`.plan.make_plan` (what happens
to each provider?), and :func:`.claims.resolve` (which slots does an instance
get?). Who calls them is in ``virt/provider_tree`` and in ``ops/claiming.py``.
"""
