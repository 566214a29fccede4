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

"""Who sends a request, read from its tokens.

This stands for keystonemiddleware in the pipeline of Cyborg's API. A token
names its bearer, so no keystone has to know it.
"""

PUBLIC = ('', '/v2')


def make_token(user, project, *roles):
    """Return a token that :func:`read_token` reads."""
    return ':'.join([user, project, ','.join(roles)])


def read_token(token):
    """Return user, project and roles, or None for anything else."""
    parts = (token or '').split(':')
    return tuple(parts) if len(parts) == 3 and all(parts) else None


class Tokens:
    """WSGI middleware that sets what keystonemiddleware would set.

    As there, a request without a valid token of a user gets a 401, and the
    roles of a service count if its token is valid.
    """

    def __init__(self, app):
        self._app = app

    def __call__(self, environ, start_response):
        environ['is_public_api'] = (
            environ['PATH_INFO'].rstrip('/').removesuffix('.json') in PUBLIC
        )
        for name in [n for n in environ if n.startswith('HTTP_X_SERVICE_R')]:
            del environ[name]
        user = read_token(environ.get('HTTP_X_AUTH_TOKEN'))
        if user is None and not environ['is_public_api']:
            start_response('401 Unauthorized', [('Content-Length', '0')])
            return [b'']
        if user:
            (
                environ['HTTP_X_USER_ID'],
                environ['HTTP_X_PROJECT_ID'],
                environ['HTTP_X_ROLES'],
            ) = user
        service = read_token(environ.get('HTTP_X_SERVICE_TOKEN'))
        if service:
            environ['HTTP_X_SERVICE_ROLES'] = service[2]
        return self._app(environ, start_response)


def filter_factory(_global_conf, **_local_conf):
    """Return the middleware for paste."""
    return Tokens
