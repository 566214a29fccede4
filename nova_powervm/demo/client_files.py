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

"""What the openstack command needs to talk to a cloud that is kept."""

import shlex

from nova_powervm.demo import stack as stack_lib

_PLACEMENT = '1.39'

_HOW_TO = """\
The cloud is yours. In another shell:

  . {openrc}
  {openstack} server list
  {openstack} resource provider list
  {openstack} flavor show gpu.two
  {openstack} image list
  {openstack} server create --flavor gpu.one --image tiny --network demo \\
      --key-name demo --config-drive True --wait my-server

Programs that read clouds.yaml find the cloud as powervm-demo with
OS_CLIENT_CONFIG_FILE={clouds_yaml}.

The host's REST API is at {host}; its user is in {nova_conf}.
Log files are in {log}.
"""


def environment(stack: stack_lib.Stack) -> dict[str, str]:
    """Return the environment that makes a client the cloud's admin."""
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
        # The command's own default is the first version, without trees.
        'OS_PLACEMENT_API_VERSION': _PLACEMENT,
    }


def openrc(stack: stack_lib.Stack) -> str:
    """Return a file for the shell to read."""
    lines = [
        f'export {name}={shlex.quote(value)}'
        for name, value in environment(stack).items()
    ]
    address = stack_lib.ADDRESS
    lines.append(f'export no_proxy="{address}${{no_proxy:+,$no_proxy}}"')
    return '\n'.join(lines) + '\n'


def clouds_yaml(stack: stack_lib.Stack) -> str:
    """Return a clouds.yaml with this cloud as ``powervm-demo``."""
    # A random password and URLs: text without anything special to YAML.
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
    placement_api_version: "{_PLACEMENT}"
"""


def write(stack: stack_lib.Stack) -> str:
    """Write both files into the state directory; return how to use them."""
    files = {'openrc': openrc, 'clouds.yaml': clouds_yaml}
    for name, render in files.items():
        stack_lib.write_private(stack.state_dir / name, render(stack))
    return _HOW_TO.format(
        openrc=stack.state_dir / 'openrc',
        clouds_yaml=stack.state_dir / 'clouds.yaml',
        openstack=stack.prefix / 'bin' / 'openstack',
        host=stack.host.url,
        nova_conf=stack.etc / 'nova.conf',
        log=stack.log,
    )
