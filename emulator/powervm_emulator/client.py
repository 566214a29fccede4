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

"""The control plane of an emulator, over HTTP."""

import functools
import inspect
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from powervm_emulator.control import verbs
from powervm_emulator.core import errors


class Client:
    """Every verb of :class:`.control.verbs.Control`, over HTTP.

    The arguments and results are those of the verb, which raises
    errors.ControlError if the emulator refuses it.

    :param url: the URL that the emulator prints when it starts.
    :param timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        self._url = url.rstrip('/')
        self._timeout = timeout

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        function = verbs.VERBS.get(verb)
        if function is None:
            raise AttributeError(f'the control plane has no verb {verb!r}')
        return functools.partial(self._call, verb, function)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *verbs.VERBS})

    def _call(
        self,
        verb: str,
        function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        bound = inspect.signature(function).bind(None, *args, **kwargs)
        arguments = dict(bound.arguments)
        del arguments['self']
        answer = self._post(verb, arguments)
        returns_bytes = function.__annotations__['return'] is bytes
        return answer if returns_bytes else json.loads(answer)

    def _post(self, verb: str, arguments: dict[str, Any]) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the caller's URL
            f'{self._url}/control/v1/{verb}',
            data=json.dumps(arguments).encode(),
            headers={'Content-Type': 'application/json'},
            method='POST',
        )
        try:
            with urllib.request.urlopen(  # noqa: S310 - the caller's URL
                request, timeout=self._timeout
            ) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            with error:
                message = json.load(error)['error']
            raise errors.ControlError(message) from error
