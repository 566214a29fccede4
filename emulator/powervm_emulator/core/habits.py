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

"""What a host does in every answer, other than most hosts."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Habits:
    """The habits of one host; those of most hosts by default.

    :ivar unknown_session: the status for a request without a session.
    :ivar names_kind: whether answers have the header ``X-MC-Type``.
    :ivar answers_unchanged: whether a conditional read of what is unchanged
        gets 304.
    """

    unknown_session: int = 401
    names_kind: bool = True
    answers_unchanged: bool = True
