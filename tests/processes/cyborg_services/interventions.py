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

"""What happens to requests just before Nova looks at them.

Binding is instant in Cyborg, so Nova sees other states only if something
intervenes. This middleware of the API does that at a known point: after
Cyborg has bound requests and before Nova reads the answer.
"""

import io
import json


class Interventions:
    """WSGI middleware that acts once, at a binding.

    :param app: Cyborg's API.
    """

    def __init__(self, app):
        self._app = app
        self.plan(None)

    def plan(self, action, skip=0):
        """Act on the next binding of requests.

        :param action: Called with the uuids of the requests that were bound;
            None for no action.
        :param skip: Number of bindings to leave alone before.
        """
        self._action, self._skipped = action, skip

    def __call__(self, environ, start_response):
        if self._action is None or environ['REQUEST_METHOD'] != 'PATCH':
            return self._app(environ, start_response)
        return self._bind(environ, start_response)

    def _bind(self, environ, start_response):
        sent = environ['wsgi.input'].read(int(environ['CONTENT_LENGTH']))
        environ['wsgi.input'] = io.BytesIO(sent)
        answers = []

        def remember(status, headers, *rest):
            answers.append(status)
            return start_response(status, headers, *rest)

        answer = [*self._app(environ, remember)]
        patches = json.loads(sent)
        if answers[0].startswith('202') and _binds(patches):
            self._act(list(patches))
        return answer

    def _act(self, uuids):
        if self._skipped:
            self._skipped -= 1
            return
        action, self._action = self._action, None
        action(uuids)


def _binds(patches):
    return all(
        operation['op'] == 'add'
        for operations in patches.values()
        for operation in operations
    )
