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

"""A URI of the REST API, and who answers it."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence

from powervm_emulator.core import exchange
from powervm_emulator.core import media


@dataclasses.dataclass(frozen=True)
class Route:
    """A URI with its method.

    :ivar rule: the path, with Werkzeug's placeholders, which become keyword
        arguments of the handler.
    :ivar handler: answers: ``handler(emulation, call, **placeholders)``.
    :ivar label: names the route in the journal and for faults.
    :ivar needs_session: False for the request that opens a session.
    :ivar served: the media types that the answer can have; empty if there is
        none, whatever the client accepts; None for those of a document.
    :ivar streams: the handler reads the body itself, and takes the host's
        lock when it needs it.
    """

    method: str
    rule: str
    handler: Callable[..., exchange.Answer]
    label: str
    needs_session: bool = True
    served: Sequence[str] | None = None
    streams: bool = False

    @property
    def media_types(self) -> Sequence[str]:
        """The media types that the answer can have."""
        if self.served is None:
            return media.of_answer(self.method, self.rule)
        return self.served
