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

"""Runs the commands of the page of quotas on a cloud with these quotas.

    python -m tests.cloud.quotas [--state-dir DIR]

The demonstration's Nova gets the options of ``doc/source/admin/quotas.rst``,
with this cloud's own values for what stands there in angle brackets. The
commands of the page are run word for word. In between, a project of a user
reaches its limits. The exit status is 1 if anything ends otherwise than the
page says.
"""

import configparser
import contextlib
import os
import re
import sys

from demo import client_files
from demo import config
from demo import launcher
from demo import stack as stack_lib
from demo import supervisor as supervisor_lib
from tests.cloud import page_commands
from tests.unit.docs import pages

_PAGE = 'admin/quotas'
#: What the page leaves to the reader.
_OPTIONS = ('auth_url', 'password')
_PLACEHOLDERS = {
    '<project id>': '$(openstack project show -f value -c id science)',
    '<limit id>': '$(openstack limit list --project science -f value -c ID)',
}
_SET_UP = ('openstack role add', 'nova-manage', 'class:DISK_GB')
#: Exit statuses that are not 0: flavors have classes without a limit.
_STATUSES = {'nova-manage limits migrate_to_unified_limits': 3}

_FUNCTIONS = """
nova-powervm-inventory() {
    command nova-powervm-inventory --config-file $state/etc/nova.conf "$@"
}
# nova.conf has the new driver already.
nova-manage() {
    OS_QUOTA__DRIVER=nova.quota.DbQuotaDriver \
        command nova-manage --config-file $state/etc/nova.conf "$@"
}
"""
# Each process of the openstack command spends seconds on its imports. This one
# exits with 1 at the end of its input, whatever has happened.
_PREPARE = """
set -e
cd $state
truncate --size 1M rhel9.raw
openstack << END || true
project create science
role add --project science --user admin member
image create rhel9 --file rhel9.raw --disk-format raw --public
network create --share private
subnet create private --network private --subnet-range 192.0.2.0/24 --no-dhcp
flavor create {size} gpus.one --property resources1:CUSTOM_GPU=1 {owner}
flavor create {size} nvme.one --property resources1:CUSTOM_NVME=1 {owner}
flavor create {size} crypto.one --property resources1:CUSTOM_IOSLOT=1 {owner}
flavor create {size} gpus.two
END
""".format(
    size='--vcpus 1 --ram 512 --disk 1',
    owner='--property trait1:OWNER_NOVA=required',
)
_FLAVOR = (
    'nova-powervm-inventory flavor create gpus.two --paragraph gpus --count 2 '
    '| tee /dev/stderr | bash'
)
_SERVER = 'OS_PROJECT_NAME=science openstack server'


@contextlib.contextmanager
def running(state):
    """Run a cloud with the quotas of the page in a context."""
    config.FILES[config.NOVA] = lambda stack: {
        **config.nova(stack),
        **_options(config.nova(stack)['keystone']),
    }
    os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
    made = stack_lib.make_state_dir(state)
    with supervisor_lib.Supervisor(made / 'log') as supervisor:
        stack = launcher.launch(made, supervisor, launcher.Choices(), print)
        client_files.write(stack)
        yield


def _options(credentials):
    """Return the sections of the page."""
    (text,) = [text for name, text in pages.blocks('ini') if name == _PAGE]
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    found = {name: dict(parser[name]) for name in parser.sections()}
    found['oslo_limit'] |= {name: credentials[name] for name in _OPTIONS}
    return found


class Cloud:
    """Runs commands, and remembers what ended otherwise than expected.

    :param shell: runs them.
    """

    def __init__(self, shell):
        self._shell = shell
        self.failed = []

    def run(self, command, status=0, shown=''):
        """Run a command that has to end so, and to print a pattern."""
        result = self._shell.show(command)
        output = pages.words(result.output)
        if result.status != status or not re.search(shown, output):
            self.failed.append(f'{command}: {result.status}, not {status}')
        return result

    def follow(self, command):
        """Run a command of the page."""
        for words, value in _PLACEHOLDERS.items():
            command = command.replace(words, value)
        expected = (s for c, s in _STATUSES.items() if command.startswith(c))
        self.run(command, next(expected, 0))

    def boot(self, flavor, name, refusal=''):
        """Request a server, and wait for it; or it is refused with 403."""
        self.run(
            f'{_SERVER} create --flavor {flavor} --image rhel9 --network '
            f'private --wait {name}',
            1 if refusal else 0,
            f'(?=.*403).*{refusal}' if refusal else '',
        )


def use_up(cloud, page):
    """Reach the limits of the project, and move them."""
    setting_up = [c for c in page if any(words in c for words in _SET_UP)]
    first, limit, *rest = [c for c in page if c not in setting_up]
    printed = cloud.run(_FLAVOR).output.splitlines()[-1]
    printed = printed.replace('"$OS_REGION_NAME"', 'RegionOne')
    if printed.removeprefix('# ') != pages.words(first.replace('\\\n', '')):
        cloud.failed.append(f'printed: {printed}; on the page: {first}')
    for command in (*setting_up, first):
        cloud.follow(command)
    cloud.boot('gpus.one', 'gpu1', 'class:CUSTOM_GPU is over limit of 0')
    cloud.follow(limit)
    cloud.boot('gpus.one', 'gpu1')
    cloud.boot('gpus.two', 'gpu2', 'current usage 1 and delta 2')
    cloud.boot('gpus.one', 'gpu2')
    cloud.boot('gpus.one', 'gpu3', _shown())
    cloud.run(f'{_SERVER} delete --wait gpu1')
    cloud.boot('gpus.one', 'gpu3')
    for command in rest:
        cloud.follow(command)
    cloud.boot('gpus.one', 'gpu4')
    # In the list without a limit, and in neither
    cloud.boot('nvme.one', 'nvme1', 'class:CUSTOM_NVME is over limit of 0')
    cloud.boot('crypto.one', 'crypto1')
    # A resize needs room for the whole new flavor.
    cloud.run(
        f'{_SERVER} resize --flavor gpus.two crypto1',
        *(1, '(?=.*403).*current usage 3 and delta 2'),
    )


def _shown():
    """Return the pattern of the answer that the page shows."""
    text = pages.documents()[_PAGE]
    found = re.search(r'::\n\n((?: +Project .*\n)(?: +.*\n)*)', text)
    return re.escape(pages.words(found[1])).replace(r'6bfe\.\.\.', r'\w+')


def main():
    """Run the page, and print what each command did."""
    state = page_commands.parse_state_dir(__doc__)
    shell = page_commands.Shell(state, _FUNCTIONS)
    cloud = Cloud(shell)
    with running(state):
        shell.show(_PREPARE)
        use_up(cloud, [command for command, _ in pages.commands(_PAGE)])
    print(*cloud.failed, f'{len(cloud.failed)} failed', sep='\n')
    sys.exit(1 if cloud.failed else 0)


if __name__ == '__main__':
    main()
