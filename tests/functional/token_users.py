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

"""Users of Nova's API, and Nova itself, whose tokens name them."""

import fixtures
from keystoneauth1 import loading
from nova import context as nova_context
from nova import service_auth
from oslo_config import cfg

from tests.processes.cyborg_services import tokens


class TokenUsers(fixtures.Fixture):
    """Gives contexts of Nova's API the tokens of their users.

    Nova's own fixture makes the same contexts without tokens.
    """

    def _setUp(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.api.auth.NovaKeystoneContext._create_context',
                _make_context,
            )
        )
        self.addCleanup(service_auth.reset_globals)


def show_service_token(test, endpoint, token):
    """Have Nova show the token of a service beside those of users.

    :param test: Whose options are set.
    :param endpoint: What the plugin of keystoneauth wants to know.
    """
    configure(test, 'service_user', endpoint, token)
    test.flags(group='service_user', send_service_user_token=True)
    service_auth.reset_globals()


def configure(test, group, endpoint, token):
    """Have Nova show a token where a group of options says how."""
    for option in loading.get_auth_plugin_conf_options('admin_token'):
        cfg.CONF.register_opt(option, group=group)
    test.flags(
        group=group, auth_type='admin_token', endpoint=endpoint, token=token
    )


def _make_context(environ, **options):
    """Make nova's context of a request, with the token of its user."""
    user = environ.get('HTTP_X_AUTH_USER')
    project = environ.get('HTTP_X_AUTH_PROJECT_ID')
    roles = environ.get('HTTP_X_ROLES')
    token = environ.get('HTTP_X_AUTH_TOKEN')
    if bearer := tokens.read_token(token):
        user, project, roles = bearer
    else:
        token = tokens.make_token(user, project, roles)
    return nova_context.RequestContext(
        user,
        project,
        is_admin='admin' in roles.split(','),
        roles=roles.split(','),
        auth_token=token,
        **options,
    )
