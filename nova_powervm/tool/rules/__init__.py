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

"""Rules that several commands share, or that deserve a place of their own.

They take values and return values: no request, file, clock or configuration,
and nothing of Nova may come in. Clients read what they need; where a rule
decides what to ask next, it gets a function that asks.

Open first: :class:`.placement_tree.Tree`, which all of them take;
:func:`.differences.compare`, :func:`.left_moves.judge_moves`,
:func:`.releasing.check_release`, :func:`.flavor_lint.lint_flavor`.
"""
