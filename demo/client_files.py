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

"""Files that make command-line clients administrators of the demo cloud."""

import shlex

from demo import messaging
from demo import stack as stack_lib

_PLACEMENT_MICROVERSION = '1.39'

#: Names of the files in the state directory.
OPENRC = 'openrc'
CLOUDS_YAML = 'clouds.yaml'


def environment(stack: stack_lib.Stack) -> dict[str, str]:
    """Return the environment variables with a client's credentials.

    The operator's commands also need those of the message broker.
    """
    return {
        'OS_AUTH_TYPE': 'password',
        'OS_AUTH_URL': stack.auth_url,
        'OS_USERNAME': 'admin',
        'OS_PASSWORD': stack.passwords['admin'],
        'OS_PROJECT_NAME': 'admin',
        'OS_USER_DOMAIN_NAME': 'Default',
        'OS_PROJECT_DOMAIN_NAME': 'Default',
        'OS_REGION_NAME': stack_lib.REGION,
        'OS_IDENTITY_API_VERSION': '3',
        # The client's default microversion has no provider trees.
        'OS_PLACEMENT_API_VERSION': _PLACEMENT_MICROVERSION,
        **messaging.environment(stack.transport_url),
    }


def openrc(stack: stack_lib.Stack) -> str:
    """Return the text of a shell script that exports the credentials."""
    lines = [
        f'export {name}={shlex.quote(value)}'
        for name, value in environment(stack).items()
    ]
    address = stack_lib.ADDRESS
    lines.append(f'export no_proxy="{address}${{no_proxy:+,$no_proxy}}"')
    return '\n'.join(lines) + '\n'


def clouds_yaml(stack: stack_lib.Stack) -> str:
    """Return the text of a clouds.yaml with this cloud as powervm-demo."""
    # The values are URLs and hexadecimal text, which YAML leaves as they are.
    return f"""\
clouds:
  {stack_lib.NODE}:
    auth:
      auth_url: "{stack.auth_url}"
      username: "admin"
      password: "{stack.passwords['admin']}"
      project_name: "admin"
      user_domain_name: "Default"
      project_domain_name: "Default"
    region_name: "{stack_lib.REGION}"
    placement_api_version: "{_PLACEMENT_MICROVERSION}"
"""


def write(stack: stack_lib.Stack) -> None:
    """Write both files into the state directory, readable by this user."""
    files = {OPENRC: openrc, CLOUDS_YAML: clouds_yaml}
    for name, render in files.items():
        stack_lib.write_private(stack.state_dir / name, render(stack))
